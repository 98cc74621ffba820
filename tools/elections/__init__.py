"""The election tools kafka-leader-election and kafka-preferred-replica-election."""
