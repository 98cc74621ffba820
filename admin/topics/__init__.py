"""kafka-topics, and the validation of CreateTopics and DeleteTopics."""
