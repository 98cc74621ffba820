"""What a broker does for the partitions that it follows, and for logs that change directory."""
