"""What klamm costs: its own benchmark, and Apache Kafka 2.8.2 beside it."""
