"""Placement: the brokers that get the replicas of a topic.

Pure decisions: values in, values out. Must not read a clock, draw random numbers except from an
argument, or access a store. Mirrors kafka.admin.AdminUtils, the assignment checks of
kafka.zk.AdminZkClient and TopicCommand.parseReplicaAssignment.
"""
