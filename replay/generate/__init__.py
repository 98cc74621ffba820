"""Makes logs of clusters that never were: seeded, with planted faults, in each source's format."""
