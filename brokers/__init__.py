"""Simulated brokers: how kafka.server handles the controller's requests, without a network."""
