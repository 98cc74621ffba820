"""Simulated brokers: what kafka.server does with the controller's requests, without a network."""
