package fake;

import java.util.List;
import org.apache.kafka.common.message.AlterIsrResponseData;
import org.apache.kafka.common.message.LeaderAndIsrRequestData.LeaderAndIsrPartitionState;

/** What a leader knows of its partition. */
final class LeaderState {
    final int leader;
    final int epoch;
    private List<Integer> isr;
    private int version;

    LeaderState(LeaderAndIsrPartitionState state) {
        leader = state.leader();
        epoch = state.leaderEpoch();
        isr = List.copyOf(state.isr());
        version = state.zkVersion();
    }

    synchronized List<Integer> isr() {
        return isr;
    }

    synchronized int version() {
        return version;
    }

    /** A newer LeaderAndIsr may have overtaken the answer. */
    synchronized void accept(AlterIsrResponseData.PartitionData answer) {
        if (epoch == answer.leaderEpoch() && version < answer.currentIsrVersion()) {
            isr = List.copyOf(answer.isr());
            version = answer.currentIsrVersion();
        }
    }
}
