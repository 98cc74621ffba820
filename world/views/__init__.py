"""What checks see of a cluster's brokers and controllers, as values."""
