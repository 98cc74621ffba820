"""The real world: a cluster on a real ZooKeeper, with threads and the machine's clock."""
