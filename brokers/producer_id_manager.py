"""Producer ids for idempotent producers, which a broker reserves in blocks of 1000 ids.

The unused ids of a block are lost when the broker stops. Mirrors
kafka.coordinator.transaction.ProducerIdManager, except that the first block is reserved when the
first producer asks for an id, not when the broker starts.
"""

from __future__ import annotations

import logging
from typing import Final

from klamm.cluster.api_errors import Errors
from klamm.cluster.client_requests import InitProducerIdResponse
from klamm.cluster.errors import StoreError
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.store import ResultCode
from klamm.zk.znode_client import store_error
from klamm.zk.znodes import MalformedZNode, ProducerIdBlock, ProducerIdBlockZNode
from klamm.zk.znodes.json_values import LONG_MAX

logger = logging.getLogger(__name__)

BLOCK_SIZE: Final = 1000
_PATH: Final = ProducerIdBlockZNode.path


class ProducerIdManager:
    """Assigns producer ids from the blocks that one broker reserves in ZooKeeper."""

    def __init__(self, broker_id: int, zk: KafkaZkClient) -> None:
        self._broker_id = broker_id
        self._zk = zk
        self._block: ProducerIdBlock | None = None
        self._next_id = 0

    def init_producer_id(self) -> InitProducerIdResponse:
        """Return a response with a new producer id, or with an error.

        While ZooKeeper is unavailable, the error is COORDINATOR_NOT_AVAILABLE, which producers
        retry. If the znode is malformed or all ids have been used, it is UNKNOWN_SERVER_ERROR.
        """
        try:
            return InitProducerIdResponse(Errors.NONE, self._generate(), 0)
        except StoreError as error:
            logger.warning("broker %d: cannot assign a producer id: %s", self._broker_id, error)
            return InitProducerIdResponse(Errors.COORDINATOR_NOT_AVAILABLE)
        except MalformedZNode as error:
            reason = error.at(_PATH)
            logger.error("broker %d: cannot assign a producer id: %s", self._broker_id, reason)
            return InitProducerIdResponse(Errors.UNKNOWN_SERVER_ERROR)

    def _generate(self) -> int:
        if self._block is None or self._next_id > self._block.block_end:
            self._block = self._take_block()
            self._next_id = self._block.block_start
        self._next_id += 1
        return self._next_id - 1

    def _take_block(self) -> ProducerIdBlock:
        while True:
            found = self._zk.get_data_and_stat(_PATH)
            if found is None:
                raise store_error(ResultCode.NONODE, _PATH)
            data, stat = found
            start = 0
            if data:
                start = ProducerIdBlockZNode.decode(data).block_end + 1
            if start > LONG_MAX - BLOCK_SIZE + 1:
                raise MalformedZNode("Have exhausted all producerIds.")
            block = ProducerIdBlock(self._broker_id, start, start + BLOCK_SIZE - 1)
            encoded = ProducerIdBlockZNode.encode(block)
            if self._zk.conditional_update_path(_PATH, encoded, stat.version):
                return block
