"""ZooKeeper client of the active controller: election, and writes fenced by the controller epoch.

Every write is conditional on the version of /controller_epoch. If the reply to a write was lost,
the client reads the znode to find out whether the write took effect. Mirrors the fenced part of
kafka.zk.KafkaZkClient.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from klamm.cluster.errors import ControllerMoved, OperationTooBig, StateChangeFailed
from klamm.cluster.outcome import WriteOutcome
from klamm.cluster.quirks import NO_QUIRKS, Quirks
from klamm.cluster.types import (
    INITIAL_CONTROLLER_EPOCH,
    INITIAL_ZK_VERSION,
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    TopicIdReplicaAssignment,
    TopicPartition,
)
from klamm.zk.fenced_writes import GROUP_SIZE, FencedDeleter, FencedWriter
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.request_size import GROUP_BYTES
from klamm.zk.store import Create, Delete, OpResult, ResultCode, SetData, Store, WriteOp
from klamm.zk.znode_client import keeper_text, store_error
from klamm.zk.znodes import (
    ConfigEntityZNode,
    ControllerEpochZNode,
    ControllerZNode,
    DeleteTopicsTopicZNode,
    TopicPartitionStateZNode,
    TopicPartitionsZNode,
    TopicPartitionZNode,
    TopicZNode,
)

_LOST_ELECTION = (ResultCode.NODEEXISTS, ResultCode.BADVERSION, ResultCode.NONODE)
"""Result codes of an election that another broker won, or whose loser has gone away."""
_Finished = dict[TopicPartition, LeaderAndIsr | StateChangeFailed]


class ControllerZkClient:
    """Fenced writes of the active controller.

    ``epoch_zk_version`` is the version of /controller_epoch after the election. Methods raise
    ControllerMoved if /controller_epoch now has another version, and SessionExpired if the session
    has expired. The event being processed then ends.
    """

    def __init__(
        self,
        store: Store,
        quirks: Quirks = NO_QUIRKS,
        group_size: int = GROUP_SIZE,
        group_bytes: int = GROUP_BYTES,
    ) -> None:
        self._store = store
        self._quirks = quirks
        self._reader = KafkaZkClient(store)
        self._fenced = FencedWriter(store, group_size, group_bytes)
        self._deleter = FencedDeleter(self._reader, self._fenced)

    # The election

    def register_controller_and_increment_epoch(
        self, controller_id: int, now_ms: int, *, replaces_controller: bool = False
    ) -> tuple[int, int]:
        """Become the controller, and return (new epoch, version of /controller_epoch).

        One transaction creates the ephemeral /controller and increments /controller_epoch. If
        ``replaces_controller``, it first deletes the /controller of the active controller, and
        fails if another one was elected in the meantime. Raises ControllerMoved if another broker
        won the election.
        """
        epoch, epoch_zk_version = self._current_epoch()
        ops: list[WriteOp] = [
            *self._deletion_of_controller(replaces_controller),
            Create(
                ControllerZNode.path, ControllerZNode.encode(controller_id, now_ms), ephemeral=True
            ),
            SetData(
                ControllerEpochZNode.path, ControllerEpochZNode.encode(epoch + 1), epoch_zk_version
            ),
        ]
        while True:
            result = self._store.write([ops])[0]
            if result.code is ResultCode.OK:
                # From now on every write is fenced by this version.
                assert result.results[-1].version == epoch_zk_version + 1
                return epoch + 1, result.results[-1].version
            lost = result.code is ResultCode.CONNECTIONLOSS
            if not lost and result.code not in _LOST_ELECTION:
                raise store_error(result.code, ops[max(result.failed_index, 0)].path)
            won = self._won_after_all(epoch + 1, lost)
            if won is not None:
                return epoch + 1, won

    def _deletion_of_controller(self, is_wanted: bool) -> list[WriteOp]:
        found = self._reader.get_data_and_stat(ControllerZNode.path) if is_wanted else None
        return [] if found is None else [Delete(ControllerZNode.path, found[1].version)]

    def _current_epoch(self) -> tuple[int, int]:
        """Return (epoch, znode version) of /controller_epoch; create the znode if it is missing."""
        current = self._reader.get_controller_epoch()
        if current is None:
            data = ControllerEpochZNode.encode(INITIAL_CONTROLLER_EPOCH)
            if self._reader.create(ControllerEpochZNode.path, data):
                return INITIAL_CONTROLLER_EPOCH, INITIAL_ZK_VERSION
            current = self._reader.get_controller_epoch()
        if current is None:
            raise store_error(ResultCode.NONODE, ControllerEpochZNode.path)
        return current

    def _won_after_all(self, new_epoch: int, lost: bool) -> int | None:
        """Find out which broker won the election, if the reply to this broker's attempt was lost.

        Return the version of /controller_epoch if this session won, or None if the election must be
        tried again. The ephemeral owner of /controller decides, because the broker id in the znode
        may be from an earlier session of the same broker. Raises ControllerMoved if another session
        won.
        """
        found = self._reader.get_data_and_stat(ControllerZNode.path)
        if found is None:
            if lost:
                return None
            raise ControllerMoved(
                f"The ephemeral node at {ControllerZNode.path} went away while checking whether "
                "the controller election succeeds. Aborting controller startup procedure"
            )
        if found[1].ephemeral_owner == self._store.session_id:
            current = self._reader.get_controller_epoch()
            if current is None:
                raise store_error(ResultCode.NONODE, ControllerEpochZNode.path)
            if current[0] == new_epoch:
                return current[1]
        raise ControllerMoved(
            "Controller moved to another broker. Aborting controller startup procedure"
        )

    def delete_controller(self, epoch_zk_version: int) -> None:
        """Delete /controller, so that the candidates elect a new controller."""
        self._deleter.delete([ControllerZNode.path], epoch_zk_version)

    # Partition states

    def create_partition_states(
        self,
        states: Mapping[TopicPartition, LeaderIsrAndControllerEpoch],
        epoch_zk_version: int,
    ) -> WriteOutcome:
        """Create the state znodes of new partitions, and their parent znodes, in three batches.

        The parent znodes may exist from an earlier attempt. A state znode that already exists
        counts as written by this call if its content equals the new state, unless the quirk
        lost_reply_leaves_the_partition_stuck is on.
        """
        topics = dict.fromkeys(TopicPartitionsZNode.path(tp.topic) for tp in states)
        for paths in (topics, map(TopicPartitionZNode.path, states)):
            parents: list[WriteOp] = [Create(path, None) for path in paths]
            self._fenced.write_until_known(parents, epoch_zk_version)
        ops = [
            Create(
                TopicPartitionStateZNode.path(tp),
                TopicPartitionStateZNode.encode(state.leader_and_isr, state.controller_epoch),
            )
            for tp, state in states.items()
        ]
        results = self._fenced.write_until_known(ops, epoch_zk_version)
        finished: _Finished = {}
        there: list[TopicPartition] = []
        for tp, op, result in zip(states, ops, results, strict=True):
            if result.code is ResultCode.OK:
                finished[tp] = states[tp].leader_and_isr.with_zk_version(INITIAL_ZK_VERSION)
            else:
                finished[tp] = StateChangeFailed(keeper_text(result.code, op.path))
                if result.code is ResultCode.NODEEXISTS:
                    there.append(tp)
        if there and not self._quirks.lost_reply_leaves_the_partition_stuck:
            self._adopt(there, states, finished)
        return WriteOutcome(finished)

    def _adopt(
        self,
        there: Sequence[TopicPartition],
        states: Mapping[TopicPartition, LeaderIsrAndControllerEpoch],
        finished: _Finished,
    ) -> None:
        """Treat existing state znodes as written if their contents equal the new states."""
        for tp, found in self._reader.get_partition_states(there).values.items():
            wanted = states[tp]
            _check_epoch(tp, found, wanted.controller_epoch)
            if _same(found, wanted.leader_and_isr, wanted.controller_epoch):
                finished[tp] = found.leader_and_isr
            else:
                path = TopicPartitionStateZNode.path(tp)
                finished[tp] = StateChangeFailed(
                    f"{keeper_text(ResultCode.NODEEXISTS, path)}: the znode contains {found}"
                )

    def update_leader_and_isr(
        self,
        states: Mapping[TopicPartition, LeaderAndIsr],
        controller_epoch: int,
        epoch_zk_version: int,
    ) -> WriteOutcome:
        """Overwrite each state znode if its version is the ``zk_version`` in the new state.

        The result contains each partition once:

        - ``finished``: the stored state with the new znode version, or why the write failed.
        - ``retry``: the partitions whose state znode has another version.
        - ``missing``: the partitions without a state znode, with the reason.

        If the reply to a write was lost, the state is read again. ControllerMoved is raised if
        that state was written by a newer controller.
        """
        outcome = WriteOutcome()
        perhaps_written: set[TopicPartition] = set()
        pending = list(states)
        while pending:
            ops = [
                SetData(
                    TopicPartitionStateZNode.path(tp),
                    TopicPartitionStateZNode.encode(states[tp], controller_epoch),
                    states[tp].zk_version,
                )
                for tp in pending
            ]
            unresolved: list[TopicPartition] = []
            results = self._fenced.write(ops, epoch_zk_version)
            for tp, op, result in zip(pending, ops, results, strict=True):
                if result.code is ResultCode.OK:
                    outcome.finished[tp] = states[tp].with_zk_version(result.version)
                elif result.code is ResultCode.CONNECTIONLOSS:
                    perhaps_written.add(tp)
                    unresolved.append(tp)
                elif result.code is ResultCode.NONODE:
                    outcome.missing[tp] = StateChangeFailed(keeper_text(result.code, op.path))
                elif result.code is not ResultCode.BADVERSION:
                    outcome.finished[tp] = StateChangeFailed(keeper_text(result.code, op.path))
                elif tp in perhaps_written:
                    unresolved.append(tp)
                else:
                    outcome.retry.append(tp)
            pending = self._resolve(unresolved, states, controller_epoch, outcome)
        return outcome

    def _resolve(
        self,
        unresolved: Sequence[TopicPartition],
        states: Mapping[TopicPartition, LeaderAndIsr],
        controller_epoch: int,
        outcome: WriteOutcome,
    ) -> list[TopicPartition]:
        """Find out which writes took effect, and return the partitions to be written again."""
        if not unresolved:
            return []
        read = self._reader.get_partition_states(unresolved)
        absent = set(read.missing)
        again = []
        for tp in unresolved:
            found, wanted = read.values.get(tp), states[tp]
            if tp in absent:
                path = TopicPartitionStateZNode.path(tp)
                outcome.missing[tp] = StateChangeFailed(keeper_text(ResultCode.NONODE, path))
                continue
            if found is None:
                outcome.retry.append(tp)
                continue
            _check_epoch(tp, found, controller_epoch)
            zk_version = found.leader_and_isr.zk_version
            if zk_version == wanted.zk_version + 1 and _same(found, wanted, controller_epoch):
                outcome.finished[tp] = found.leader_and_isr
            elif zk_version == wanted.zk_version:
                again.append(tp)
            else:
                outcome.retry.append(tp)
        return again

    # Topics

    def set_topic_assignments(
        self, topics: Sequence[TopicIdReplicaAssignment], epoch_zk_version: int
    ) -> dict[str, StateChangeFailed]:
        """Overwrite topic znodes regardless of their version, and return {topic: failure}."""
        ops = [
            SetData(TopicZNode.path(t.topic), TopicZNode.encode(t.topic_id, t.assignment))
            for t in topics
        ]
        results = self.write_each(ops, epoch_zk_version)
        return {
            t.topic: StateChangeFailed(keeper_text(result.code, op.path))
            for t, op, result in zip(topics, ops, results, strict=True)
            if result.code is not ResultCode.OK
        }

    def delete_topics(
        self, topics: Sequence[str], epoch_zk_version: int
    ) -> dict[str, StateChangeFailed]:
        """Delete topic znodes, then topic configs, then the requests in /admin/delete_topics.

        Return {topic: failure}. The number of pipelined batches does not depend on the number of
        topics. The requests are deleted last, so that the next controller resumes an interrupted
        deletion.
        """
        roots = {TopicZNode.path(topic): topic for topic in topics}
        failed = {
            roots[root]: StateChangeFailed(keeper_text(code, root))
            for root, code in self._deleter.delete_trees(list(roots), epoch_zk_version).items()
        }
        deleted = [topic for topic in topics if topic not in failed]
        self.delete_topic_configs(deleted, epoch_zk_version)
        self.delete_topic_deletions(deleted, epoch_zk_version)
        return failed

    def delete_topic_configs(self, topics: Iterable[str], epoch_zk_version: int) -> None:
        """Delete the config znodes of ``topics``."""
        paths = [ConfigEntityZNode.path("topics", topic) for topic in topics]
        self._deleter.delete(paths, epoch_zk_version)

    # Requests of tools and notifications of brokers

    def delete_topic_deletions(self, topics: Iterable[str], epoch_zk_version: int) -> None:
        """Delete the znodes of ``topics`` in /admin/delete_topics."""
        self._deleter.delete(
            [DeleteTopicsTopicZNode.path(topic) for topic in topics], epoch_zk_version
        )

    def delete_notifications(self, paths: Sequence[str], epoch_zk_version: int) -> None:
        """Delete notification znodes that brokers created, including malformed notifications."""
        self._deleter.delete(paths, epoch_zk_version)

    def delete_below(self, path: str, epoch_zk_version: int) -> None:
        """Delete all znodes below ``path``, where only a faulty client creates znodes."""
        children = self._reader.get_children(path)
        self._deleter.delete([f"{path}/{child}" for child in children], epoch_zk_version)

    # In general

    def fenced_write(self, ops: Sequence[WriteOp], epoch_zk_version: int) -> list[OpResult]:
        """Execute writes that do not depend on each other (see FencedWriter.write)."""
        return self._fenced.write(ops, epoch_zk_version)

    def write_until_known(self, ops: Sequence[WriteOp], epoch_zk_version: int) -> list[OpResult]:
        """Execute writes, and repeat those whose reply was lost.

        The writes must not depend on each other (see FencedWriter.write_until_known).
        """
        return self._fenced.write_until_known(ops, epoch_zk_version)

    def write_each(self, ops: Sequence[WriteOp], epoch_zk_version: int) -> list[OpResult]:
        """Like ``write_until_known``, but with a result for an operation that is too big.

        An operation that exceeds ZooKeeper's maximum request size is not sent and gets the code
        MARSHALLINGERROR; the other operations are still sent.
        """
        try:
            return self.write_until_known(ops, epoch_zk_version)
        except OperationTooBig:
            if len(ops) == 1:
                return [OpResult(ResultCode.MARSHALLINGERROR)]
            return [result for op in ops for result in self.write_each([op], epoch_zk_version)]


def _check_epoch(
    tp: TopicPartition, found: LeaderIsrAndControllerEpoch, controller_epoch: int
) -> None:
    if found.controller_epoch > controller_epoch:
        raise ControllerMoved(
            f"Leader and isr path written by another controller. The state of {tp} shows "
            f"controller epoch {found.controller_epoch}; the epoch of this controller is "
            f"{controller_epoch}"
        )


def _same(found: LeaderIsrAndControllerEpoch, wanted: LeaderAndIsr, controller_epoch: int) -> bool:
    return (
        found.leader_and_isr.equals_ignoring_zk_version(wanted)
        and found.controller_epoch == controller_epoch
    )
