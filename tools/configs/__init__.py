"""kafka-configs: configs of topics, brokers, users and clients (kafka.admin.ConfigCommand)."""
