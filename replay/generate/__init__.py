"""Generator of logs of synthetic clusters: seeded, with planted anomalies, in each log format."""
