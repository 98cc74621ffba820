"""Drivers: how a drill runs, changes and inspects each kind of cluster."""
