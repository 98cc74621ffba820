"""Clusters that run: a real one, a simulated one, and one of Kafka's own brokers."""
