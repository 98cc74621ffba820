"""Crashes the controller before and after each of its ZooKeeper operations."""
