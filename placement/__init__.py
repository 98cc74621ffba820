"""Placement: decides which brokers get the replicas of a topic.

The functions must not read a clock or access a store. Random numbers come only from a source that
the caller passes. Mirrors kafka.admin.AdminUtils, the assignment checks of kafka.zk.AdminZkClient
and TopicCommand.parseReplicaAssignment.
"""
