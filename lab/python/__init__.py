"""Clusters as context managers for Python code and tests, and klamm's pytest plugin."""
