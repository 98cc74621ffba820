"""Actions on a cluster: faults, repairs, and requests of clients and tools."""
