"""Apache Kafka 2.8.2 itself, to compare with: its tools, and its controller, timed."""
