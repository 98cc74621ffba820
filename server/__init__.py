"""The HTTP API of a running cluster."""
