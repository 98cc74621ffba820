"""The controller's logic without I/O: context, state machines, elections, planned state changes.

The package is independent of ZooKeeper, threads and clocks. It mirrors kafka.controller.
"""
