"""ZooKeeper: znodes, the Store and its backends, the fenced controller client, an embedded server."""
