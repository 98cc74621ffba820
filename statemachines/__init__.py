"""Pure decisions of the controller: legal moves, its context, elections, plans and their apply.

Knows neither ZooKeeper nor threads nor clocks; mirrors kafka.controller.
"""
