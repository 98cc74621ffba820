"""The tour of klamm demo: a cluster that loses a broker and its controller, and recovers."""
