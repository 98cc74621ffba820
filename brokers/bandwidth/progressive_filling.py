"""Max-min fair rates in whole numbers: no flow can get more without taking from one that has less.

All flows rise alike; what fills first ends the rise of those that pass it, and the rest rises on
(Bertsekas and Gallager, Data Networks, 6.5.2). Pure arithmetic on numbered flows and links, which
must not know what they stand for. Kafka has no such file: its networks and disks are real.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heapreplace


def max_min_fair(
    paths: Mapping[int, Sequence[int]], demands: Mapping[int, int], rooms: Mapping[int, int]
) -> dict[int, int]:
    """The rate of each flow, at most its demand. ``paths``: the links of each flow; one that is
    named twice carries it twice. ``rooms``: what each of these links can carry.

    Shares are rounded down: a link that is passed n times may keep less than n free. Of two links
    with the same share the one that comes first in ``rooms`` fills first.
    """
    members: dict[int, list[int]] = {link: [] for link in rooms}
    for flow, path in paths.items():
        for link in path:
            members[link].append(flow)
    free = dict(rooms)
    rising = {link: len(flows) for link, flows in members.items()}
    shares = [
        (free[link] // count, position, link)
        for position, (link, count) in enumerate(rising.items())
        if count
    ]
    heapify(shares)
    rates: dict[int, int] = {}

    def settle(flow: int, rate: int) -> None:
        rates[flow] = rate
        for link in paths[flow]:
            free[link] -= rate
            rising[link] -= 1

    for flow in sorted(demands, key=demands.__getitem__):
        # A share in the heap is never too large: it only grows while others settle for less.
        while flow not in rates and shares and shares[0][0] < demands[flow]:
            share, position, link = shares[0]
            if not rising[link]:
                heappop(shares)
            elif (current := free[link] // rising[link]) > share:
                heapreplace(shares, (current, position, link))
            else:
                for member in members[link]:
                    if member not in rates:
                        settle(member, share)
        if flow not in rates:
            settle(flow, demands[flow])
    return rates
