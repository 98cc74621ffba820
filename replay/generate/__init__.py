"""Generates logs of synthetic clusters, with anomalies that a replay must find."""
