"""Constant-rate workloads, for which brokers compute log end offsets and exchange no messages."""
