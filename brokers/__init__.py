"""Simulated brokers, which handle requests as kafka.server does, but without a network."""
