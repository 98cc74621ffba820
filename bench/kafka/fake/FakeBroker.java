package fake;

import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.message.ApiVersionsResponseData;
import org.apache.kafka.common.message.LeaderAndIsrRequestData;
import org.apache.kafka.common.message.LeaderAndIsrRequestData.LeaderAndIsrPartitionState;
import org.apache.kafka.common.message.LeaderAndIsrRequestData.LeaderAndIsrTopicState;
import org.apache.kafka.common.message.LeaderAndIsrResponseData;
import org.apache.kafka.common.message.LeaderAndIsrResponseData.LeaderAndIsrPartitionError;
import org.apache.kafka.common.message.LeaderAndIsrResponseData.LeaderAndIsrTopicError;
import org.apache.kafka.common.message.StopReplicaRequestData;
import org.apache.kafka.common.message.StopReplicaRequestData.StopReplicaPartitionState;
import org.apache.kafka.common.message.StopReplicaRequestData.StopReplicaTopicState;
import org.apache.kafka.common.message.StopReplicaResponseData;
import org.apache.kafka.common.message.StopReplicaResponseData.StopReplicaPartitionError;
import org.apache.kafka.common.message.UpdateMetadataResponseData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.requests.ResponseHeader;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

/** One broker with its own port, session and registration, that answers the controller at once. */
final class FakeBroker {
    private static final int BUFFER_BYTES = 1 << 16;

    final int id;
    final IsrExpander expander;
    volatile boolean up;
    volatile boolean shuttingDown;
    volatile long epoch = -1;
    private final Cluster cluster;
    private final int port;
    private final Set<Socket> sockets = ConcurrentHashMap.newKeySet();
    private ServerSocket server;
    private ZooKeeper session;
    private Socket controller;
    private int correlation;

    FakeBroker(Cluster cluster, int id, int port) {
        this.cluster = cluster;
        this.id = id;
        this.port = port;
        this.expander = new IsrExpander(cluster, this);
    }

    void start() throws Exception {
        ServerSocket listener = new ServerSocket();
        listener.setReuseAddress(true);
        listener.bind(new InetSocketAddress("127.0.0.1", port));
        server = listener;
        shuttingDown = false;
        up = true;
        cluster.thread("accept-" + id, () -> {
            while (true) {
                Socket socket = listener.accept();
                socket.setTcpNoDelay(true);
                sockets.add(socket);
                cluster.thread("serve-" + id, () -> serve(socket));
            }
        });
        session = cluster.newSession();
        Stat stat = new Stat();
        session.create("/brokers/ids/" + id, registration().getBytes(StandardCharsets.UTF_8),
            ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL, stat);
        epoch = stat.getCzxid();
    }

    private String registration() {
        return "{\"features\":{},"
            + "\"listener_security_protocol_map\":{\"PLAINTEXT\":\"PLAINTEXT\"},"
            + "\"endpoints\":[\"PLAINTEXT://127.0.0.1:" + port + "\"],\"jmx_port\":-1,"
            + "\"port\":" + port + ",\"host\":\"127.0.0.1\",\"version\":5,"
            + "\"timestamp\":\"" + System.currentTimeMillis() + "\"}";
    }

    /** Closes the sockets, then the session. Returns when the session's close was sent. */
    double drop() throws Exception {
        up = false;
        server.close();
        for (Socket socket : sockets) {
            socket.close();
        }
        sockets.clear();
        expander.clear();
        hangUp();
        double at = Counters.now();
        session.close();
        return at;
    }

    synchronized void hangUp() throws IOException {
        if (controller != null) {
            controller.close();
            controller = null;
        }
    }

    /** Asks the controller and waits for the answer's body. */
    synchronized ByteBuffer call(ApiKeys api, short version, ApiMessage body) throws Exception {
        if (controller == null) {
            controller = cluster.connectToController();
        }
        controller.getOutputStream().write(Wire.request(api, version, id, ++correlation, body));
        DataInputStream in = new DataInputStream(controller.getInputStream());
        ByteBuffer answer = ByteBuffer.wrap(Wire.read(in));
        ResponseHeader.parse(answer, api.responseHeaderVersion(version));
        return answer;
    }

    private void serve(Socket socket) throws Exception {
        try (socket) {
            DataInputStream in = new DataInputStream(
                new BufferedInputStream(socket.getInputStream(), BUFFER_BYTES));
            OutputStream out = socket.getOutputStream();
            while (true) {
                byte[] bytes = Wire.read(in);
                ByteBuffer buffer = ByteBuffer.wrap(bytes);
                RequestHeader header = RequestHeader.parse(buffer);
                answer(header, buffer, bytes.length, out);
            }
        } catch (EOFException e) {
            // The controller hung up.
        } finally {
            sockets.remove(socket);
        }
    }

    private void answer(RequestHeader header, ByteBuffer buffer, int size, OutputStream out)
            throws IOException {
        ByteBufferAccessor in = new ByteBufferAccessor(buffer);
        short version = header.apiVersion();
        ApiMessage body;
        long partitions = 0;
        switch (header.apiKey()) {
            case LEADER_AND_ISR: {
                LeaderAndIsrRequestData request = new LeaderAndIsrRequestData(in, version);
                body = leaderAndIsr(request);
                partitions = request.topicStates().stream()
                    .mapToInt(topic -> topic.partitionStates().size()).sum();
                break;
            }
            case STOP_REPLICA: {
                StopReplicaRequestData request = new StopReplicaRequestData(in, version);
                body = stopReplica(request);
                partitions = request.topicStates().stream()
                    .mapToInt(topic -> topic.partitionStates().size()).sum();
                break;
            }
            case UPDATE_METADATA:
                body = new UpdateMetadataResponseData();
                break;
            case API_VERSIONS:
                // klamm asks this when it starts, to find out whether the broker lets it in.
                out.write(Wire.response(header, new ApiVersionsResponseData()));
                return;
            default:
                throw new IllegalStateException("a controller does not ask this: " + header);
        }
        out.write(Wire.response(header, body));
        cluster.counters.add(header.apiKey(), partitions, size);
    }

    private ApiMessage leaderAndIsr(LeaderAndIsrRequestData request) {
        List<LeaderAndIsrTopicError> topics = new ArrayList<>();
        for (LeaderAndIsrTopicState topic : request.topicStates()) {
            List<LeaderAndIsrPartitionError> partitions = new ArrayList<>();
            for (LeaderAndIsrPartitionState state : topic.partitionStates()) {
                become(topic.topicName(), state);
                partitions.add(new LeaderAndIsrPartitionError()
                    .setPartitionIndex(state.partitionIndex()));
            }
            topics.add(new LeaderAndIsrTopicError()
                .setTopicId(topic.topicId()).setPartitionErrors(partitions));
        }
        return new LeaderAndIsrResponseData().setTopics(topics);
    }

    /** A follower outside the ISR has caught up as soon as it hears of its leader. */
    private void become(String topic, LeaderAndIsrPartitionState state) {
        TopicPartition partition = new TopicPartition(topic, state.partitionIndex());
        if (state.leader() == id) {
            cluster.leaders.put(partition, new LeaderState(state));
        } else if (!state.isr().contains(id) && state.replicas().contains(id) && !shuttingDown) {
            FakeBroker leader = cluster.brokers.get(state.leader());
            if (leader != null && leader.up) {
                leader.expander.add(partition, id, state.leaderEpoch());
            }
        }
    }

    private static ApiMessage stopReplica(StopReplicaRequestData request) {
        List<StopReplicaPartitionError> partitions = new ArrayList<>();
        for (StopReplicaTopicState topic : request.topicStates()) {
            for (StopReplicaPartitionState state : topic.partitionStates()) {
                partitions.add(new StopReplicaPartitionError()
                    .setTopicName(topic.topicName()).setPartitionIndex(state.partitionIndex()));
            }
        }
        return new StopReplicaResponseData().setPartitionErrors(partitions);
    }
}
