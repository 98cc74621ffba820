"""Leaf values of the control plane: no I/O, clock or threads; every folder may import it."""
