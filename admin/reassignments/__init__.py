"""kafka-reassign-partitions: plans, moves, throttles, and what became of them."""
