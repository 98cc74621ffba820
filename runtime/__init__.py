"""Clocks, transports and journals, and the two worlds a cluster runs in: real and simulated."""
