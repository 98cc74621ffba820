"""Scenarios recorded on real Kafka brokers, and their comparison with klamm."""
