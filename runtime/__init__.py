"""Clocks, transports and journals, and the two worlds a cluster can run in: real and simulated."""
