"""A broker's state of its replicas and, for the replicas that lead, of their followers."""
