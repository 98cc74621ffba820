"""Scenarios: steps on a cluster, and comparison with recordings of real brokers."""
