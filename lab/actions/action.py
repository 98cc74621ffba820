"""What an action is, and what it is carried out on: the cluster, and references to its brokers."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, NamedTuple, Protocol

import msgspec
from msgspec import Meta, inspect

from klamm.cluster.errors import UsageError
from klamm.cluster.integers import INT32_MAX
from klamm.cluster.types import TopicPartition
from klamm.lab.value_types import Form, given, mark
from klamm.zk.store import Store

if TYPE_CHECKING:
    from klamm.world.cluster import Cluster


class InRack(msgspec.Struct, frozen=True, tag=True):
    """All brokers of a rack."""

    rack: str


class IsrFollower(msgspec.Struct, frozen=True, tag=True):
    """Any follower in the ISR of a partition, which is given by its name."""

    partition: str


BROKER: Final = "/brokers/{id}/"
"""Beginning of the paths of requests about one broker."""
KILLED: Final = "killed"
POWERED_OFF: Final = "powered off"
STOPPED: Final = "stopped"
ENDED: Final = (KILLED, POWERED_OFF, STOPPED)
"""States of a broker that is no longer running."""
DEAD: Final = "dead"
CONTROLLER: Final = "controller"

BrokerRef = Annotated[int | str | TopicPartition | InRack | IsrFollower, mark(Form.BROKER)]
"""The brokers that an action affects. An int is a broker id. Scenarios may also give a partition
(its leader), CONTROLLER (the broker with the active controller), DEAD or PAUSED (all brokers that
earlier steps ended or paused), a rack, or a follower of a partition."""


class ActionTarget(Protocol):
    """The target of an action: a running scenario, or the cluster behind the HTTP server."""

    @property
    def cluster(self) -> Cluster:
        """The cluster that the actions change."""
        ...

    @property
    def store(self) -> Store:
        """A session with the cluster's ZooKeeper."""
        ...

    def broker_ids(self, broker: BrokerRef) -> list[int]:
        """Return the ids of the brokers that a reference, e.g. ``dead``, stands for.

        Raises KlammError if there are none."""
        ...

    def note_state(self, broker_id: int, state: str) -> None:
        """Record the state of a broker, e.g. ``killed``, after an action."""
        ...


Times = Annotated[
    int,
    Meta(
        ge=1,
        le=INT32_MAX,
        description="Number of failures after which the fault ends; by default, no limit.",
    ),
]


class Action(msgspec.Struct, frozen=True):
    """An action on a cluster.

    The docstring of a class and the descriptions of its fields (``msgspec.Meta``) are the text of
    the docs. The first paragraph and the descriptions are also the help of the command: it shows
    the quoted names of fields, in these texts and in the messages of ValueError, as options.
    """

    PATH: ClassVar[str | None] = None
    """Path of the action's POST request, or None if the HTTP API does not offer the action. If it
    begins with BROKER, the broker id is part of it, and the body holds the other arguments."""
    HAS_RESULT: ClassVar[bool] = False
    """True if the action has an exit code and an output."""
    SIMULATED_ONLY: ClassVar[bool] = False
    ON_KAFKA: ClassVar[bool] = True
    """False if brokers of Kafka cannot have the action: it acts inside them or on their machines,
    or on ZooKeeper's servers."""

    @property
    def is_simulated_only(self) -> bool:
        """True if only a simulated cluster can execute the action."""
        return self.SIMULATED_ONLY

    def check_world(self, *, is_simulated: bool) -> None:
        """Raise UsageError if only a simulated cluster can execute the action, but this is none."""
        if self.is_simulated_only and not is_simulated:
            raise UsageError(
                "this fault requires the simulated world",
                hint="use it in a drill, and run the drill without --real",
            )

    def act(self, target: Any) -> Any:
        """Execute the action. Raises KlammError if the action is not possible.

        ``target`` is an ActionTarget, or the ScenarioRunner for an action that only scenarios use.
        Such an action may return the response of a tool or of the controller.
        """
        raise NotImplementedError


class Argument(NamedTuple):
    """An argument of an action: its field, the type of a given value, and its documentation.

    ``description`` is empty for arguments that the action's docstring describes."""

    name: str
    required: bool
    default: Any
    type: inspect.Type
    description: str


def arguments_of(action: type[Action]) -> dict[str, Argument]:
    """Return the arguments of an action by their names in drills and in the HTTP API."""
    kind = inspect.type_info(action)
    assert isinstance(kind, inspect.StructType)
    return {
        field.encode_name: Argument(
            field.name,
            field.required,
            field.default,
            given(field.type).type,
            given(field.type).schema.get("description", ""),
        )
        for field in kind.fields
    }


def about(action: type[Action]) -> str:
    """Return the documentation of an action: its docstring, and what describes its arguments."""
    described = defaultdict[str, list[str]](list)
    for name, argument in arguments_of(action).items():
        described[argument.description].append(f"`{name}`")
    described.pop("", None)
    texts = [f"{', '.join(names)}: {text}" for text, names in described.items()]
    return " ".join([*(action.__doc__ or "").split(), *texts])


def request_of(action: Action) -> tuple[str, dict[str, Any] | None]:
    """Return the path and the body of the HTTP request for an action."""
    path, body = str(action.PATH), msgspec.to_builtins(action)
    if path.startswith(BROKER):
        path = path.format(id=body.pop("broker"))
    return path, body or None


class BrokerAction(Action, frozen=True):
    """An action on one or more brokers."""

    LEAVES: ClassVar[str | None] = None
    """The state of the broker after the action; None if unchanged."""

    broker: BrokerRef

    def act(self, target: ActionTarget) -> None:
        for broker_id in target.broker_ids(self.broker):
            if self.LEAVES is not None:
                target.note_state(broker_id, self.LEAVES)
            self.act_on(target, broker_id)

    def act_on(self, target: ActionTarget, broker_id: int) -> None:
        """Execute the action on one broker."""
        raise NotImplementedError
