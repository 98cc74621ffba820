"""ZooKeeper: znodes, the Store and its backends, the fenced client, embedded servers."""
