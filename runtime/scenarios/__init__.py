"""Scenarios: steps executed on a cluster, and a comparison with recordings of real brokers."""
