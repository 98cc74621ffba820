"""Fair sharing of network and disk bandwidth, and replication throttles."""
