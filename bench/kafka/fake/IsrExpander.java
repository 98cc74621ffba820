package fake;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.message.AlterIsrRequestData;
import org.apache.kafka.common.message.AlterIsrRequestData.PartitionData;
import org.apache.kafka.common.message.AlterIsrRequestData.TopicData;
import org.apache.kafka.common.message.AlterIsrResponseData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;

/**
 * Asks the controller to take caught-up followers of one leader into the ISR: one AlterIsr in
 * flight, with all that is pending in it, as a real broker does.
 */
final class IsrExpander {
    private static final short VERSION = 0;
    private static final int MAX_TRIES = 2000;
    private static final int NOT_YET_MS = 2;
    private static final int NO_CONTROLLER_MS = 100;

    private static final class Expansion {
        final TopicPartition partition;
        final int follower;
        final int epoch;
        int tries;

        Expansion(TopicPartition partition, int follower, int epoch) {
            this.partition = partition;
            this.follower = follower;
            this.epoch = epoch;
        }
    }

    private final Cluster cluster;
    private final FakeBroker broker;
    private final LinkedBlockingQueue<Expansion> queue = new LinkedBlockingQueue<>();

    IsrExpander(Cluster cluster, FakeBroker broker) {
        this.cluster = cluster;
        this.broker = broker;
    }

    void add(TopicPartition partition, int follower, int epoch) {
        queue.add(new Expansion(partition, follower, epoch));
    }

    int pending() {
        return queue.size();
    }

    void clear() {
        queue.clear();
    }

    void run() throws Exception {
        while (true) {
            List<Expansion> items = new ArrayList<>();
            items.add(queue.take());
            cluster.awaitCatchUp();
            queue.drainTo(items);
            Map<TopicPartition, List<Expansion>> wanted = new LinkedHashMap<>();
            boolean early = select(items, wanted);
            if (!wanted.isEmpty()) {
                send(wanted);
            } else if (early) {
                Thread.sleep(NOT_YET_MS);
            }
        }
    }

    /** Sorts out what may be asked now. True if some leader has not heard of its partition yet. */
    private boolean select(List<Expansion> items, Map<TopicPartition, List<Expansion>> wanted) {
        boolean early = false;
        for (Expansion item : items) {
            FakeBroker follower = cluster.brokers.get(item.follower);
            if (!broker.up || !follower.up || follower.shuttingDown) {
                continue;
            }
            LeaderState state = cluster.leaders.get(item.partition);
            if (state == null || state.epoch < item.epoch) {
                early = true;
                again(item);
            } else if (state.leader == broker.id && !state.isr().contains(item.follower)) {
                wanted.computeIfAbsent(item.partition, key -> new ArrayList<>()).add(item);
            }
        }
        return early;
    }

    private void again(Expansion item) {
        if (item.tries++ < MAX_TRIES) {
            queue.add(item);
        } else {
            cluster.counters.addError(new IOException("given up: " + item.partition));
        }
    }

    private void send(Map<TopicPartition, List<Expansion>> wanted) throws Exception {
        AlterIsrResponseData answer;
        try {
            ByteBuffer bytes = broker.call(ApiKeys.ALTER_ISR, VERSION, request(wanted));
            answer = new AlterIsrResponseData(new ByteBufferAccessor(bytes), VERSION);
            if (answer.errorCode() != 0) {
                throw new IOException("AlterIsr: " + Errors.forCode(answer.errorCode()));
            }
        } catch (IOException e) {
            // The controller is gone or moved: the next one is asked again.
            broker.hangUp();
            wanted.values().forEach(items -> items.forEach(this::again));
            Thread.sleep(NO_CONTROLLER_MS);
            return;
        }
        cluster.counters.add(ApiKeys.ALTER_ISR, wanted.size(), 0);
        for (AlterIsrResponseData.TopicData topic : answer.topics()) {
            for (AlterIsrResponseData.PartitionData partition : topic.partitions()) {
                TopicPartition key = new TopicPartition(topic.name(), partition.partitionIndex());
                if (partition.errorCode() == 0) {
                    cluster.leaders.get(key).accept(partition);
                } else {
                    wanted.get(key).forEach(this::again);
                }
            }
        }
    }

    private AlterIsrRequestData request(Map<TopicPartition, List<Expansion>> wanted) {
        Map<String, TopicData> topics = new LinkedHashMap<>();
        wanted.forEach((partition, items) -> {
            LeaderState state = cluster.leaders.get(partition);
            List<Integer> isr = new ArrayList<>(state.isr());
            for (Expansion item : items) {
                if (!isr.contains(item.follower)) {
                    isr.add(item.follower);
                }
            }
            topics.computeIfAbsent(partition.topic(), name -> new TopicData().setName(name))
                .partitions().add(new PartitionData()
                    .setPartitionIndex(partition.partition())
                    .setLeaderEpoch(state.epoch)
                    .setNewIsr(isr)
                    .setCurrentIsrVersion(state.version()));
        });
        return new AlterIsrRequestData()
            .setBrokerId(broker.id)
            .setBrokerEpoch(broker.epoch)
            .setTopics(new ArrayList<>(topics.values()));
    }
}
