"""Where the replicas of a topic go.

Pure decisions: values in, values out. Must not read a clock, draw a number that was not
handed in, or touch a store. Mirrors kafka.admin.AdminUtils, the assignment checks of
kafka.zk.AdminZkClient and TopicCommand.parseReplicaAssignment.
"""
