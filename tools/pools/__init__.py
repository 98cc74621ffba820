"""Resource isolation pools: the file that declares them, and the cluster to check."""
