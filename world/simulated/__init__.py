"""The simulated world: a whole cluster in one thread, on virtual time."""
