"""Invariants of a cluster: brokers agree with ZooKeeper; replicas and clients lose no record."""
