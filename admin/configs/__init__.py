"""kafka-configs: set, remove and describe configs of topics and brokers."""
