"""The tool kafka-configs: sets, removes and describes configs of topics and brokers."""
