"""Kafka's command-line tools: options, output, and what each of them does over KafkaAdmin."""
