"""What a broker does for the partitions that it leads: produce, fetches, ISRs, copies."""
