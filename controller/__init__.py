"""The controller: events and their handlers, watches, channels, metrics (kafka.controller)."""
