"""Producers and consumers: what Kafka's clients do, without a thread and without a clock."""
