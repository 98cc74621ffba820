"""kafka-topics, and what CreateTopics and DeleteTopics check: topics and their configs."""
