"""Constant-rate workloads of simulated clusters: producer, rate agreements, analytic appends."""
