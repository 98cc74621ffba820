package fake;

import java.io.IOException;
import java.net.Socket;
import java.net.SocketException;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;

/** What all fake brokers share: each other, the leaders, the counters, whether followers catch up. */
final class Cluster {
    private static final int SESSION_TIMEOUT_MS = 18_000;
    /** A controlled shutdown of 100,000 partitions takes the controller more than ten seconds. */
    private static final int CONTROLLER_TIMEOUT_MS = 300_000;
    private static final String[] PARENTS = {
        "/brokers", "/brokers/ids", "/brokers/topics", "/config", "/config/topics",
        "/admin", "/admin/delete_topics"};

    interface Job {
        void run() throws Exception;
    }

    final Map<Integer, FakeBroker> brokers = new ConcurrentHashMap<>();
    final Map<TopicPartition, LeaderState> leaders = new ConcurrentHashMap<>();
    final Counters counters = new Counters();
    private final String zkConnect;
    private final ZooKeeper zk;
    private boolean catchUp = true;

    Cluster(String zkConnect) throws Exception {
        this.zkConnect = zkConnect;
        this.zk = newSession();
        for (String path : PARENTS) {
            try {
                zk.create(path, null, ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
            } catch (KeeperException.NodeExistsException e) {
                // A controller that is already up makes the same ones.
            }
        }
    }

    ZooKeeper newSession() throws Exception {
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper session = new ZooKeeper(zkConnect, SESSION_TIMEOUT_MS, event -> {
            if (event.getState() == Watcher.Event.KeeperState.SyncConnected) {
                connected.countDown();
            }
        });
        connected.await();
        return session;
    }

    Socket connectToController() throws Exception {
        try {
            int id = number(data("/controller"), "brokerid");
            Socket socket = new Socket("127.0.0.1", number(data("/brokers/ids/" + id), "port"));
            socket.setTcpNoDelay(true);
            socket.setSoTimeout(CONTROLLER_TIMEOUT_MS);
            return socket;
        } catch (KeeperException.NoNodeException e) {
            throw new IOException("no controller", e);
        }
    }

    private String data(String path) throws Exception {
        return new String(zk.getData(path, false, null), StandardCharsets.UTF_8);
    }

    private static int number(String json, String name) throws IOException {
        Matcher found = Pattern.compile("\"" + name + "\":(\\d+)").matcher(json);
        if (!found.find()) {
            throw new IOException(name + " not in " + json);
        }
        return Integer.parseInt(found.group(1));
    }

    synchronized void setCatchUp(boolean on) {
        catchUp = on;
        notifyAll();
    }

    synchronized void awaitCatchUp() throws InterruptedException {
        while (!catchUp) {
            wait();
        }
    }

    int pendingIsr() {
        return brokers.values().stream().mapToInt(broker -> broker.expander.pending()).sum();
    }

    /** A closed socket ends a thread as it should; anything else is counted, and fails the run. */
    void thread(String name, Job job) {
        Thread thread = new Thread(() -> {
            try {
                job.run();
            } catch (SocketException e) {
                // The broker was dropped, or its peer was.
            } catch (Throwable e) {
                counters.addError(e);
            }
        }, name);
        thread.setDaemon(true);
        thread.start();
    }
}
