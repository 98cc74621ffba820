"""Checks of a cluster: invariants, agreement with ZooKeeper, records, and admin operations."""
