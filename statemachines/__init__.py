"""Pure controller logic: context, states and transitions, elections, plans and their application.

Independent of ZooKeeper, threads and clocks; mirrors kafka.controller.
"""
