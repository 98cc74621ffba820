"""KafkaAdmin, its channels to a cluster, and ZooKeeperAdmin, which needs none (kafka.admin)."""
