package fake;

import java.util.EnumMap;
import java.util.Locale;
import java.util.Map;
import org.apache.kafka.common.protocol.ApiKeys;

/** Requests answered since the last reset: how many, what was in them, the first and last time. */
final class Counters {
    private static final long START_MS = System.currentTimeMillis();
    private static final long START_NS = System.nanoTime();

    private static final String FORMAT = "\"%s\":{\"requests\":%d,\"partitions\":%d,\"bytes\":%d,"
        + "\"first\":%.4f,\"last\":%.4f}";
    private static final ApiKeys[] COUNTED = {
        ApiKeys.LEADER_AND_ISR, ApiKeys.UPDATE_METADATA, ApiKeys.STOP_REPLICA, ApiKeys.ALTER_ISR};

    private static final class Count {
        long requests;
        long partitions;
        long bytes;
        double first;
        double last;
    }

    private final Map<ApiKeys, Count> counts = new EnumMap<>(ApiKeys.class);
    private long errors;

    Counters() {
        reset();
    }

    /** Seconds since the epoch, finer than the wall clock's milliseconds. */
    static double now() {
        return START_MS / 1000.0 + (System.nanoTime() - START_NS) / 1e9;
    }

    synchronized void reset() {
        counts.clear();
        for (ApiKeys api : COUNTED) {
            counts.put(api, new Count());
        }
    }

    synchronized void add(ApiKeys api, long partitions, long bytes) {
        double at = now();
        Count count = counts.get(api);
        count.requests++;
        count.partitions += partitions;
        count.bytes += bytes;
        if (count.first == 0) {
            count.first = at;
        }
        count.last = at;
    }

    synchronized void addError(Throwable error) {
        errors++;
        error.printStackTrace();
    }

    synchronized String toJson(int pendingIsr) {
        StringBuilder out = new StringBuilder();
        out.append(String.format(Locale.ROOT,
            "{\"pending_isr\":%d,\"errors\":%d,\"requests\":{", pendingIsr, errors));
        String comma = "";
        for (Map.Entry<ApiKeys, Count> entry : counts.entrySet()) {
            Count c = entry.getValue();
            out.append(comma).append(String.format(Locale.ROOT, FORMAT,
                entry.getKey().name(), c.requests, c.partitions, c.bytes, c.first, c.last));
            comma = ",";
        }
        return out.append("}}").toString();
    }
}
