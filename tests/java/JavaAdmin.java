import static java.util.stream.Collectors.joining;
import static java.util.stream.Collectors.toList;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.config.ConfigResource;

/**
 * Kafka's Java admin client, driven line by line: a line "CALL ARG..." of standard input makes one
 * call and prints one line, the result or the error.
 */
public final class JavaAdmin {
  private final Admin admin;

  private JavaAdmin(Admin admin) {
    this.admin = admin;
  }

  public static void main(String[] args) throws Exception {
    var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    try (Admin admin = Admin.create(Map.of("bootstrap.servers", args[0]))) {
      var calls = new JavaAdmin(admin);
      for (String line = input.readLine(); line != null; line = input.readLine()) {
        String[] words = line.split(" ");
        try {
          System.out.println(calls.call(words[0], List.of(words).subList(1, words.length)));
        } catch (ExecutionException error) {
          System.out.println(error.getCause());
        }
      }
    }
  }

  private Object call(String name, List<String> args) throws Exception {
    return switch (name) {
      case "createTopics" -> createTopics(args.get(0), args.subList(1, args.size()));
      case "listTopics" -> sorted(admin.listTopics().names().get());
      case "describeTopics" -> describeTopics(args.get(0));
      case "createPartitions" -> createPartitions(args.get(0), Integer.parseInt(args.get(1)));
      case "deleteTopics" -> done(admin.deleteTopics(args).all().get());
      case "describeCluster" -> sortedIds(admin.describeCluster().nodes().get());
      case "describeConfigs" -> describeConfigs(args.get(0), args.get(1));
      case "incrementalAlterConfigs" -> alterConfigs(args.get(0), args.get(1), args.get(2));
      case "alterPartitionReassignments" -> reassign(tp(args.get(0)), args.get(1));
      case "listPartitionReassignments" ->
          new TreeSet<>(texts(admin.listPartitionReassignments().reassignments().get().keySet()));
      case "electLeaders" -> elect(tp(args.get(0)));
      case "describeLogDirs" -> describeLogDirs(Integer.parseInt(args.get(0)), args.get(1));
      case "deleteRecords" -> deleteRecords(tp(args.get(0)), Long.parseLong(args.get(1)));
      case "listOffsets" -> listOffsets(tp(args.get(0)), args.get(1));
      case "listConsumerGroups" ->
          sorted(
              admin.listConsumerGroups().all().get().stream()
                  .map(group -> group.groupId())
                  .collect(toList()));
      case "describeConsumerGroups" -> describeGroup(args.get(0));
      case "alterConsumerGroupOffsets" ->
          alterOffsets(args.get(0), tp(args.get(1)), Long.parseLong(args.get(2)));
      case "listConsumerGroupOffsets" -> offsets(args.get(0));
      case "deleteConsumerGroupOffsets" ->
          done(
              admin
                  .deleteConsumerGroupOffsets(args.get(0), Set.of(tp(args.get(1))))
                  .all()
                  .get());
      case "deleteConsumerGroups" -> done(admin.deleteConsumerGroups(args).all().get());
      case "alterUserScramCredentials" -> alterCredential(args.get(0), args.get(1));
      case "describeUserScramCredentials" -> describeCredentials();
      case "describeAcls" -> admin.describeAcls(AclBindingFilter.ANY).values().get();
      default -> throw new IllegalArgumentException(name);
    };
  }

  private Object createTopics(String name, List<String> replicas) throws Exception {
    Map<Integer, List<Integer>> assignment = new HashMap<>();
    for (String one : replicas) {
      assignment.put(assignment.size(), brokers(one));
    }
    var created = admin.createTopics(List.of(new NewTopic(name, assignment)));
    created.all().get();
    return created.numPartitions(name).get() + " of " + created.replicationFactor(name).get();
  }

  private Object describeTopics(String name) throws Exception {
    TopicDescription topic = admin.describeTopics(List.of(name)).all().get().get(name);
    return topic.partitions().stream()
        .map(one -> one.partition() + ": " + ids(one.replicas()) + " isr " + sortedIds(one.isr()))
        .collect(joining(", "));
  }

  private Object createPartitions(String topic, int count) throws Exception {
    return done(
        admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(count))).all().get());
  }

  private Object describeConfigs(String topic, String config) throws Exception {
    ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
    ConfigEntry entry =
        admin.describeConfigs(List.of(resource)).all().get().get(resource).get(config);
    return entry.value() + " " + entry.source();
  }

  private Object alterConfigs(String topic, String config, String value) throws Exception {
    boolean isDeleted = value.equals("-");
    var type = isDeleted ? AlterConfigOp.OpType.DELETE : AlterConfigOp.OpType.SET;
    var change = new AlterConfigOp(new ConfigEntry(config, isDeleted ? "" : value), type);
    var resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
    return done(admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all().get());
  }

  private Object reassign(TopicPartition tp, String replicas) throws Exception {
    Optional<NewPartitionReassignment> target =
        replicas.equals("-")
            ? Optional.empty()
            : Optional.of(new NewPartitionReassignment(brokers(replicas)));
    return done(admin.alterPartitionReassignments(Map.of(tp, target)).all().get());
  }

  private Object elect(TopicPartition tp) throws Exception {
    Optional<Throwable> error =
        admin.electLeaders(ElectionType.PREFERRED, Set.of(tp)).partitions().get().get(tp);
    return error.isPresent() ? error.get() : "done";
  }

  private Object describeLogDirs(int broker, String topic) throws Exception {
    var dirs = admin.describeLogDirs(List.of(broker)).allDescriptions().get().get(broker);
    Set<String> found = new TreeSet<>();
    for (var dir : dirs.values()) {
      for (TopicPartition tp : dir.replicaInfos().keySet()) {
        if (tp.topic().equals(topic)) {
          found.add(tp.toString());
        }
      }
    }
    return found;
  }

  private Object deleteRecords(TopicPartition tp, long offset) throws Exception {
    return admin
        .deleteRecords(Map.of(tp, RecordsToDelete.beforeOffset(offset)))
        .lowWatermarks()
        .get(tp)
        .get()
        .lowWatermark();
  }

  private Object listOffsets(TopicPartition tp, String which) throws Exception {
    OffsetSpec spec = which.equals("earliest") ? OffsetSpec.earliest() : OffsetSpec.latest();
    return admin.listOffsets(Map.of(tp, spec)).partitionResult(tp).get().offset();
  }

  private Object describeGroup(String group) throws Exception {
    var found = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
    return found.state() + ", members: " + found.members().size();
  }

  private Object alterOffsets(String group, TopicPartition tp, long offset) throws Exception {
    return done(
        admin.alterConsumerGroupOffsets(group, Map.of(tp, new OffsetAndMetadata(offset))).all().get());
  }

  private Object offsets(String group) throws Exception {
    Map<String, Long> offsets = new TreeMap<>();
    admin
        .listConsumerGroupOffsets(group)
        .partitionsToOffsetAndMetadata()
        .get()
        .forEach((tp, offset) -> offsets.put(tp.toString(), offset.offset()));
    return offsets;
  }

  private Object alterCredential(String user, String password) throws Exception {
    var info = new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 8192);
    var change = new UserScramCredentialUpsertion(user, info, password);
    return done(admin.alterUserScramCredentials(List.of(change)).all().get());
  }

  private Object describeCredentials() throws Exception {
    Map<String, String> found = new TreeMap<>();
    admin
        .describeUserScramCredentials()
        .all()
        .get()
        .forEach((user, one) -> found.put(user, one.credentialInfos().toString()));
    return found;
  }

  private static String done(Void nothing) {
    return "done";
  }

  private static TopicPartition tp(String text) {
    int dash = text.lastIndexOf('-');
    return new TopicPartition(
        text.substring(0, dash), Integer.parseInt(text.substring(dash + 1)));
  }

  private static List<Integer> brokers(String ids) {
    return Stream.of(ids.split(":")).map(Integer::valueOf).collect(toList());
  }

  private static String ids(Collection<Node> nodes) {
    return nodes.stream().map(Node::idString).collect(joining(":"));
  }

  private static Collection<String> texts(Collection<TopicPartition> partitions) {
    return partitions.stream().map(TopicPartition::toString).collect(toList());
  }

  private static Object sorted(Collection<String> names) {
    return new TreeSet<>(names);
  }

  private static String sortedIds(Collection<Node> nodes) {
    return nodes.stream().map(Node::idString).sorted().collect(joining(":"));
  }
}
