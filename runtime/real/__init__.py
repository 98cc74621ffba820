"""The real world: a cluster over a real ZooKeeper, with threads and the machine's clock."""
