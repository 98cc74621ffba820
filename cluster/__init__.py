"""Shared values of the control plane: no I/O, clocks or threads; every package may import them."""
