"""Drills on brokers of Kafka 2.8.2, which run as processes."""
