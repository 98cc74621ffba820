import java.io.File;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Properties;

import kafka.log.Log;
import kafka.log.LogConfig;
import kafka.log.LogSegment;
import kafka.server.BrokerTopicStats;
import kafka.server.LogDirFailureChannel;
import kafka.utils.KafkaScheduler;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.SimpleRecord;
import org.apache.kafka.common.utils.Time;

/**
 * Kafka 2.8.2's own log of one partition, to write files that klamm must read and to read those that
 * klamm wrote. It starts no broker and opens no socket.
 *
 * <pre>
 * KafkaLog write DIR        make a log with every compression and several epochs, and print it
 * KafkaLog open DIR clean|unclean   load a log, print it, append one record
 * </pre>
 *
 * Printed, with tabs: "log", start, end, latest epoch (-1: none), segments; then for each record
 * "record", offset, timestamp, leader epoch, key, value and headers (hexadecimal; "-": none).
 */
public final class KafkaLog {
    private static final long NOW_MS = 1_700_000_000_000L;
    private static final int BATCHES = 40;

    public static void main(String[] args) throws Exception {
        boolean clean = args.length < 3 || args[2].equals("clean");
        KafkaScheduler scheduler = new KafkaScheduler(1, "log-", true);
        scheduler.startup();
        try {
            Log log = open(new File(args[1]), scheduler, clean);
            if (args[0].equals("write")) {
                write(log);
                print(log);
            } else {
                print(log);
                log.appendAsLeader(
                        MemoryRecords.withRecords(
                                CompressionType.NONE, new SimpleRecord(NOW_MS, null, bytes("kafka's"))),
                        log.latestEpoch().isEmpty() ? 0 : (Integer) log.latestEpoch().get(),
                        log.appendAsLeader$default$3(),
                        log.appendAsLeader$default$4());
            }
            log.close();
        } finally {
            scheduler.shutdown();
        }
    }

    private static Log open(File dir, KafkaScheduler scheduler, boolean clean) {
        Properties config = new Properties();
        config.setProperty("segment.bytes", "20000");
        config.setProperty("segment.index.bytes", "4096");
        config.setProperty("index.interval.bytes", "1000");
        return Log.apply(
                dir,
                new LogConfig(config, LogConfig.apply$default$2()),
                0L,
                0L,
                scheduler,
                new BrokerTopicStats(),
                Time.SYSTEM,
                3_600_000,
                600_000,
                new LogDirFailureChannel(1),
                clean,
                true);
    }

    private static void write(Log log) {
        CompressionType[] types = CompressionType.values();
        for (int batch = 0; batch < BATCHES; batch++) {
            SimpleRecord[] records = new SimpleRecord[1 + batch % 4];
            for (int number = 0; number < records.length; number++) {
                byte[] key = number % 2 == 0 ? null : bytes("key-" + batch);
                byte[] value = number == 2 ? null : bytes(("value-" + batch + "-" + number + " ").repeat(60));
                Header[] headers = {new RecordHeader("h", bytes("v" + number)), new RecordHeader("none", (byte[]) null)};
                records[number] = new SimpleRecord(
                        NOW_MS + 1000L * batch - 7L * number, key, value, number == 3 ? headers : new Header[0]);
            }
            log.appendAsLeader(
                    MemoryRecords.withIdempotentRecords(
                            types[batch % types.length], 9L, (short) 1, sequence(batch), records),
                    batch / 10,
                    log.appendAsLeader$default$3(),
                    log.appendAsLeader$default$4());
        }
    }

    private static int sequence(int batch) {
        int sequence = 0;
        for (int before = 0; before < batch; before++) {
            sequence += 1 + before % 4;
        }
        return sequence;
    }

    private static void print(Log log) {
        Object epoch = log.latestEpoch().isEmpty() ? -1 : log.latestEpoch().get();
        System.out.println(String.join("\t",
                "log", "" + log.logStartOffset(), "" + log.logEndOffset(), "" + epoch, "" + log.numberOfSegments()));
        scala.collection.Iterator<LogSegment> segments = log.logSegments().iterator();
        while (segments.hasNext()) {
            for (RecordBatch batch : segments.next().log().batches()) {
                batch.ensureValid();
                for (Record record : batch) {
                    StringBuilder headers = new StringBuilder();
                    for (Header header : record.headers()) {
                        headers.append('\t').append(header.key()).append('\t').append(hex(header.value()));
                    }
                    System.out.println(String.join("\t",
                            "record",
                            "" + record.offset(),
                            "" + record.timestamp(),
                            "" + batch.partitionLeaderEpoch(),
                            hex(array(record.key())),
                            hex(array(record.value()))) + headers);
                }
            }
        }
    }

    private static byte[] array(java.nio.ByteBuffer buffer) {
        return buffer == null ? null : org.apache.kafka.common.utils.Utils.toArray(buffer);
    }

    private static String hex(byte[] value) {
        return value == null ? "-" : HexFormat.of().formatHex(value);
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
