"""The tool kafka-reassign-partitions: its plans, moves, throttles and verification."""
