"""Kafka's command-line tools: options, texts, and actions over KafkaAdmin or ZooKeeperAdmin."""
