"""ZooKeeper access: znode formats, Store interface and its backends, clients, embedded servers."""
