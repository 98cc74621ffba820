"""The record of a run: the journal, Kafka's log files, and the files of lines behind them."""
