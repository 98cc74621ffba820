"""Leaf values of the control plane: no I/O, no clock, no threads; every other folder may import it."""
