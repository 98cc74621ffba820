"""Simulated brokers: they handle requests as kafka.server does, but exchange values, not frames."""
