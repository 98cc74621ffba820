"""kafka-topics: creates, changes, deletes, lists and describes topics (Kafka's TopicCommand)."""
