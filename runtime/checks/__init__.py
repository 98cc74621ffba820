"""What must hold: brokers agree with ZooKeeper, no replica and no client loses a record."""
