"""Kafka's network protocol: listeners through which Kafka's own clients reach the brokers."""
