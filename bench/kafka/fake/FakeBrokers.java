package fake;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.common.message.AlterPartitionReassignmentsRequestData;
import org.apache.kafka.common.message.AlterPartitionReassignmentsRequestData.ReassignablePartition;
import org.apache.kafka.common.message.AlterPartitionReassignmentsRequestData.ReassignableTopic;
import org.apache.kafka.common.message.AlterPartitionReassignmentsResponseData;
import org.apache.kafka.common.message.ControlledShutdownRequestData;
import org.apache.kafka.common.message.ControlledShutdownResponseData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;

/**
 * Fake Kafka 2.8 brokers in one process, to time a controller and ZooKeeper rather than storage.
 *
 * <p>Usage: FakeBrokers ZK_CONNECT FIRST_ID COUNT FIRST_PORT. One command a line on standard input,
 * one line of JSON back: stats | reset | drop ID | start ID | shutdown ID | catchup on|off |
 * reassign FILE. Times are seconds since the epoch. It ends when its input does.
 */
public final class FakeBrokers {
    private static final int REASSIGN_TIMEOUT_MS = 600_000;
    /** Not a broker: the tool that asks for a reassignment. */
    private static final int TOOL_ID = -1;

    private final Cluster cluster;

    private FakeBrokers(Cluster cluster) {
        this.cluster = cluster;
    }

    public static void main(String[] args) throws Exception {
        Cluster cluster = new Cluster(args[0]);
        int firstId = Integer.parseInt(args[1]);
        int firstPort = Integer.parseInt(args[3]);
        for (int i = 0; i < Integer.parseInt(args[2]); i++) {
            FakeBroker broker = new FakeBroker(cluster, firstId + i, firstPort + i);
            cluster.brokers.put(broker.id, broker);
            broker.start();
            cluster.thread("alter-isr-" + broker.id, broker.expander::run);
        }
        System.out.println("{\"ready\":true}");
        FakeBrokers control = new FakeBrokers(cluster);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.out.println(control.answer(line));
        }
        System.exit(0);
    }

    private String answer(String line) {
        String[] words = line.trim().split(" ", 2);
        try {
            return run(words[0], words.length > 1 ? words[1] : "");
        } catch (Exception e) {
            e.printStackTrace();
            return "{\"failed\":\"" + e.toString().replaceAll("[\"\\\\\\p{Cntrl}]", " ") + "\"}";
        }
    }

    private String run(String command, String argument) throws Exception {
        switch (command) {
            case "stats":
                return cluster.counters.toJson(cluster.pendingIsr());
            case "reset":
                cluster.counters.reset();
                return "{}";
            case "drop":
                return at(broker(argument).drop());
            case "start":
                broker(argument).start();
                return at(Counters.now());
            case "catchup": {
                double at = Counters.now();
                cluster.setCatchUp(argument.equals("on"));
                return at(at);
            }
            case "shutdown":
                return shutDown(broker(argument));
            case "reassign":
                return reassign(Path.of(argument));
            default:
                throw new IllegalArgumentException(command + "?");
        }
    }

    private FakeBroker broker(String id) {
        return cluster.brokers.get(Integer.parseInt(id));
    }

    private static String at(double at) {
        return String.format(Locale.ROOT, "{\"at\":%.4f}", at);
    }

    private static String answered(double at, int error, int refused) {
        return String.format(Locale.ROOT,
            "{\"at\":%.4f,\"answered\":%.4f,\"error\":%d,\"refused\":%d}",
            at, Counters.now(), error, refused);
    }

    private static String shutDown(FakeBroker broker) throws Exception {
        short version = 3;
        broker.shuttingDown = true;
        double at = Counters.now();
        var request =
            new ControlledShutdownRequestData().setBrokerId(broker.id).setBrokerEpoch(broker.epoch);
        ByteBuffer bytes = broker.call(ApiKeys.CONTROLLED_SHUTDOWN, version, request);
        var answer = new ControlledShutdownResponseData(new ByteBufferAccessor(bytes), version);
        return answered(at, answer.errorCode(), answer.remainingPartitions().size());
    }

    /** The file has lines of "topic partition replica,replica,..."; all go in one request. */
    private String reassign(Path file) throws Exception {
        short version = 0;
        Map<String, ReassignableTopic> topics = new LinkedHashMap<>();
        for (String line : Files.readAllLines(file)) {
            String[] words = line.split(" ");
            List<Integer> replicas = Arrays.stream(words[2].split(","))
                .map(Integer::valueOf).collect(Collectors.toList());
            topics.computeIfAbsent(words[0], name -> new ReassignableTopic().setName(name))
                .partitions().add(new ReassignablePartition()
                    .setPartitionIndex(Integer.parseInt(words[1])).setReplicas(replicas));
        }
        var request = new AlterPartitionReassignmentsRequestData()
            .setTimeoutMs(REASSIGN_TIMEOUT_MS).setTopics(new ArrayList<>(topics.values()));
        FakeBroker tool = new FakeBroker(cluster, TOOL_ID, 0);
        double at = Counters.now();
        var bytes = new ByteBufferAccessor(
            tool.call(ApiKeys.ALTER_PARTITION_REASSIGNMENTS, version, request));
        var answer = new AlterPartitionReassignmentsResponseData(bytes, version);
        String out = answered(at, answer.errorCode(), refused(answer));
        tool.hangUp();
        return out;
    }

    private static int refused(AlterPartitionReassignmentsResponseData answer) {
        return (int) answer.responses().stream()
            .flatMap(topic -> topic.partitions().stream())
            .filter(partition -> partition.errorCode() != 0)
            .count();
    }
}
