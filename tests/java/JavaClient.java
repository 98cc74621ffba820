import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Kafka's Java producer or consumer of the topic t, driven line by line over standard input.
 *
 * <p>{@code SERVERS produce} sends a record for each line "PARTITION VALUE", and prints the values
 * that are acknowledged. {@code SERVERS consume} is a member of the group g that polls for each
 * line; it prints "assigned" and its partitions at every rebalance, "value" and the value of every
 * record, and "polled". Both end at the end of the input.
 */
public final class JavaClient {
  private static final String TOPIC = "t";

  private static final BufferedReader INPUT =
      new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));

  public static void main(String[] args) throws Exception {
    switch (args[1]) {
      case "produce" -> produce(args[0]);
      case "consume" -> consume(args[0]);
      default -> throw new IllegalArgumentException(args[1]);
    }
  }

  private static void produce(String servers) throws Exception {
    Map<String, Object> config =
        Map.of("bootstrap.servers", servers, "acks", "all", "enable.idempotence", true);
    try (var producer =
        new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
      for (String line = INPUT.readLine(); line != null; line = INPUT.readLine()) {
        String[] words = line.split(" ", 2);
        var record =
            new ProducerRecord<String, String>(TOPIC, Integer.valueOf(words[0]), null, words[1]);
        producer.send(
            record,
            (metadata, error) -> {
              if (error == null) {
                System.out.println(words[1]);
              } else {
                System.err.println(words[1] + ": " + error);
              }
            });
      }
    }
  }

  private static void consume(String servers) throws Exception {
    Map<String, Object> config =
        Map.of(
            "bootstrap.servers", servers,
            "group.id", "g",
            "auto.offset.reset", "earliest",
            "enable.auto.commit", false,
            "session.timeout.ms", 6_000,
            "heartbeat.interval.ms", 1_000);
    try (var consumer =
        new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
      consumer.subscribe(List.of(TOPIC), new Assignments());
      while (INPUT.readLine() != null) {
        ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(100));
        for (ConsumerRecord<String, String> record : records) {
          System.out.println("value " + record.value());
        }
        if (!records.isEmpty()) {
          consumer.commitAsync();
        }
        System.out.println("polled");
      }
    }
  }

  /** Prints the partitions that the member owns whenever they change. */
  private static final class Assignments implements ConsumerRebalanceListener {
    private final Set<Integer> owned = new TreeSet<>();

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
      partitions.forEach(tp -> owned.add(tp.partition()));
      print();
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
      partitions.forEach(tp -> owned.remove(tp.partition()));
      print();
    }

    private void print() {
      StringBuilder line = new StringBuilder("assigned");
      owned.forEach(partition -> line.append(' ').append(partition));
      System.out.println(line);
    }
  }
}
