"""The tool kafka-topics, and the topic operations that Admin requests also use."""
