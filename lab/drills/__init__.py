"""The shipped drills, and the known bugs of Kafka that some of them show."""
