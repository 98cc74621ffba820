"""What checks see of the brokers of a simulated world: their replicas, as values."""
