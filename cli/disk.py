"""`klamm disk`: injects disk faults into a running cluster.

Sends requests to the server and prints the response.
"""

from __future__ import annotations

from klamm.cli.action_commands import sends
from klamm.cli.client import ServerClient
from klamm.cli.command_loading import command_group
from klamm.cli.server_options import Answered
from klamm.cli.status import fault_text
from klamm.lab.actions.action import Action
from klamm.lab.actions.actions import FailDisk, HealDisks, SlowDisk

app = command_group(
    help="Inject disk faults into a running cluster.",
    epilog="""
\b
Examples:
  klamm disk fail --broker 1 --kind enospc
  klamm disk fail --broker 1 --log-dir d0 --kind fsync --times 1
  klamm disk fail --journal --kind enospc
  klamm disk slow --broker 2 --bytes-per-s 100000
  klamm disk heal
""",
)

_FAIL_EXAMPLES = """
\b
Examples:
  klamm disk fail --broker 1 --kind enospc --after-bytes 100000
  klamm disk fail --broker 1 --log-dir d0 --kind fsync --times 1
  klamm disk fail --journal --kind eio
"""


def _send(client: ServerClient, action: Action) -> Answered:
    answer = client.act(action)
    return answer, "\n".join(map(fault_text, answer["disk_faults"]))


sends(app, FailDisk, name="fail", epilog=_FAIL_EXAMPLES)(_send)
sends(app, SlowDisk, name="slow")(_send)


@sends(app, HealDisks)
def heal(client: ServerClient, action: HealDisks) -> Answered:
    faults = client.status().disk_faults
    answer = client.act(action)
    status = client.status()
    lines = [f"healed: {fault_text(fault)}" for fault in faults] or ["there were no disk faults"]
    lines += [
        f"log directory {failed.log_dir} of broker {failed.broker} stays offline until the "
        "broker is restarted"
        for failed in status.failed_log_dirs
    ]
    lines += [
        f"broker {broker.id} is still {broker.state}: klamm broker start {broker.id}"
        for broker in status.brokers
        if broker.reason is not None
    ]
    return answer, "\n".join(lines)
