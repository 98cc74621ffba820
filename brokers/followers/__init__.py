"""Followers of partitions, and moves of replicas between log directories."""
