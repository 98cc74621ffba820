"""Kafka's network protocol: listeners for clients and brokers, and connections to brokers."""
