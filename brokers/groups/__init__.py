"""Consumer groups: the group coordinator of a broker (kafka.coordinator.group)."""
