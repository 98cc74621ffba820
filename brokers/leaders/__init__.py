"""Leaders of partitions: produce requests, fetches, ISR changes, replica copies."""
