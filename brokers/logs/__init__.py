"""Logs of a broker's replicas: segment files as in Kafka, or only offset intervals in memory."""
