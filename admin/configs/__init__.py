"""kafka-configs: the configs of topics and brokers, set, changed and described."""
