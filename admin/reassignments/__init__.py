"""kafka-reassign-partitions: plans, moves, throttles, and verification."""
