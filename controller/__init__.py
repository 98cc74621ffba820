"""The controller: events, what each one does, watches, channels, metrics (kafka.controller)."""
