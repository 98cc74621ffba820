"""Scenarios: what is done to a cluster step by step, and what real brokers were recorded to do."""
