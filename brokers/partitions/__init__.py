"""One replica as its broker knows it: its log, what the controller said, how its log grows."""
