"""What Kafka's admin tools do to ZooKeeper: topics, their checks and texts (kafka.admin)."""
