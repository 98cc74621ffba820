"""The ZooKeeper-era control plane of Apache Kafka 2.8, to watch, rehearse on and break."""
