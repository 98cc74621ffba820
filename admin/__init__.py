"""KafkaAdmin, Kafka's Admin client, and its channels to a cluster (kafka.admin)."""
