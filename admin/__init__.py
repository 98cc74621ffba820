"""Kafka's Admin client and admin tools: topics, configs, reassignments, elections (kafka.admin)."""
