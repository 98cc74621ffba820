"""Clusters of Kafka 2.8.2's own brokers, which run as processes."""
