"""Kafka's admin client and admin tools: topics, configs, reassignments, elections (kafka.admin)."""
