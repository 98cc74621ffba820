"""Logs of a broker's replicas: real segment files, or in-memory (offset-only) intervals."""
