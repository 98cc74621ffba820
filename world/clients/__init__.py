"""Kafka's producer and consumer as pure logic, without I/O, threads or clocks."""
