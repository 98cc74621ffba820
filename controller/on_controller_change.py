"""Startup, and what /controller tells. Mirrors processStartup, processControllerChange and
processReelect of kafka/controller/KafkaController.scala.
"""

from __future__ import annotations

from controller.election import NO_CONTROLLER, elect, maybe_resign
from controller.parts import Controller


def process_startup(controller: Controller) -> None:
    """The process came up: watch /controller and try to be elected."""
    elect(controller)


def process_controller_change(controller: Controller) -> None:
    """/controller was created or changed: resign if it is another's.

    It may be gone again, deleted before this broker watched it: then no other event tells, and
    2.8.2 has no controller until somebody creates one.
    """
    maybe_resign(controller)
    if controller.active_controller_id == NO_CONTROLLER:
        elect(controller)


def process_reelect(controller: Controller) -> None:
    """/controller is gone: resign if it was ours, then try to be elected."""
    maybe_resign(controller)
    elect(controller)
