"""What clusters on a real ZooKeeper have in common, with simulated brokers or Kafka's."""
