// Asks Kafka 2.8.2's own LeaderEpochFileCache what random sequences of calls make of it.
// java -cp "LIBS/*" LeaderEpochVectors.java SEQUENCES SEED > leader_epochs.jsonl
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import kafka.server.checkpoints.LeaderEpochCheckpoint;
import kafka.server.epoch.EpochEntry;
import kafka.server.epoch.LeaderEpochFileCache;
import org.apache.kafka.common.TopicPartition;
import scala.collection.Iterable;
import scala.collection.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction0;

public class LeaderEpochVectors {
    /** No file: what the cache writes is forgotten. */
    static class Checkpoint implements LeaderEpochCheckpoint {
        public void write(Iterable<EpochEntry> entries) {}

        public Seq<EpochEntry> read() {
            return CollectionConverters.asScala(new ArrayList<EpochEntry>());
        }
    }

    static String entries(LeaderEpochFileCache cache) {
        List<String> shown = new ArrayList<>();
        for (EpochEntry entry : CollectionConverters.asJava(cache.epochEntries()))
            shown.add("[" + entry.epoch() + "," + entry.startOffset() + "]");
        return "[" + String.join(",", shown) + "]";
    }

    static String endOffsets(LeaderEpochFileCache cache) {
        List<String> shown = new ArrayList<>();
        for (int epoch = -1; epoch <= 9; epoch++) {
            var end = cache.endOffsetFor(epoch);
            shown.add("[" + end._1() + "," + end._2() + "]");
        }
        return "[" + String.join(",", shown) + "]";
    }

    static String sequence(Random random) {
        long[] logEnd = {0};
        var cache = new LeaderEpochFileCache(new TopicPartition("t", 0), new AbstractFunction0<>() {
            public Object apply() {
                return logEnd[0];
            }
        }, new Checkpoint());
        List<String> steps = new ArrayList<>();
        for (int i = 0; i < 12; i++) {
            logEnd[0] = random.nextInt(30);
            int offset = random.nextInt(24);
            String call;
            switch (random.nextInt(6)) {
                case 0 -> {
                    cache.truncateFromEnd(offset);
                    call = "[\"truncate_from_end\"," + offset + "]";
                }
                case 1 -> {
                    cache.truncateFromStart(offset / 2);
                    call = "[\"truncate_from_start\"," + offset / 2 + "]";
                }
                default -> {
                    int epoch = Math.min(8, i / 2 + random.nextInt(3));
                    long start = random.nextInt(4) == 0 ? offset : 2L * i;
                    cache.assign(epoch, start);
                    call = "[\"assign\"," + epoch + "," + start + "]";
                }
            }
            steps.add("{\"call\":" + call + ",\"log_end_offset\":" + logEnd[0]
                + ",\"entries\":" + entries(cache)
                + ",\"end_offsets\":" + endOffsets(cache) + "}");
        }
        return "[" + String.join(",", steps) + "]";
    }

    public static void main(String[] args) {
        Random random = new Random(Long.parseLong(args[1]));
        for (int i = 0; i < Integer.parseInt(args[0]); i++)
            System.out.println(sequence(random));
    }
}
