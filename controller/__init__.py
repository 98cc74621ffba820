"""Controller events and their handlers, watches, broker channels and metrics (kafka.controller)."""
