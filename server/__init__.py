"""The server of klamm up: runs a cluster and serves its HTTP API."""
