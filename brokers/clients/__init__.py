"""Kafka's producer and consumer as pure logic, without threads or clocks."""
