import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;

/**
 * The job of `join_job.py` in Kafka Streams, as a team would write it: exactly_once_v2, impressions
 * in a window store from which Kafka Streams drops them, and differences that are summed by country
 * and minute.
 */
public final class StreamsPeer {
  private static final Duration AFTER = Duration.ofMinutes(30);
  private static final Duration BEFORE = Duration.ofSeconds(5);
  private static final Duration KEPT = AFTER.plusMinutes(2);
  /**
   * While a task catches up, one source partition may be read hours before another. Stream time
   * follows the foremost, and what is behind it by more than this is dropped.
   */
  private static final Duration GRACE = Duration.ofDays(1);

  private static final String OPEN = "open";

  private StreamsPeer() {}

  public static void main(String[] arguments) throws IOException {
    // Of its own, as in a new container: what a killed process left is not always readable.
    var state = Files.createDirectories(Path.of(System.getenv("BENCH_FOLDER")));
    var properties = new Properties();
    properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, System.getenv("BENCH_BROKER"));
    properties.put(StreamsConfig.APPLICATION_ID_CONFIG, System.getenv("BENCH_GROUP"));
    properties.put(
        StreamsConfig.STATE_DIR_CONFIG, Files.createTempDirectory(state, "state").toString());
    properties.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
    properties.put("auto.offset.reset", "earliest");
    properties.put(StreamsConfig.consumerPrefix("session.timeout.ms"), "6000");

    var builder = new StreamsBuilder();
    builder.addStateStore(
        Stores.windowStoreBuilder(
            Stores.persistentWindowStore(OPEN, KEPT, KEPT, false),
            Serdes.String(),
            Serdes.ByteArray()));
    var text = Serdes.String();
    builder.stream(System.getenv("BENCH_TOPIC"), Consumed.with(text, Serdes.ByteArray()))
        .process(Join::new, OPEN)
        .groupByKey(Grouped.with(text, sums()))
        .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMinutes(1), GRACE))
        .aggregate(
            () -> new Sums(0, 0, 0),
            (country, difference, sum) -> sum.plus(difference),
            Materialized.with(text, sums()))
        .toStream((window, sum) -> window.key() + "@" + window.window().start())
        .to(System.getenv("BENCH_OUTPUT"), Produced.with(text, sums()));

    var streams = new KafkaStreams(builder.build(), properties);
    streams.setUncaughtExceptionHandler(
        error -> {
          error.printStackTrace();
          return StreamThreadExceptionResponse.SHUTDOWN_APPLICATION;
        });
    streams.start();
  }

  /** Impressions, and the sums of their reciprocal ranks and nDCGs in parts of a billion. */
  record Sums(long impressions, long reciprocalRanks, long ndcgs) {
    Sums plus(Sums other) {
      return new Sums(
          impressions + other.impressions,
          reciprocalRanks + other.reciprocalRanks,
          ndcgs + other.ndcgs);
    }
  }

  private static Serde<Sums> sums() {
    return Serdes.serdeFrom(
        (topic, sum) ->
            sum == null
                ? null
                : (sum.impressions() + "," + sum.reciprocalRanks() + "," + sum.ndcgs())
                    .getBytes(StandardCharsets.US_ASCII),
        (topic, bytes) -> {
          if (bytes == null) return null;
          var parts = new String(bytes, StandardCharsets.US_ASCII).split(",");
          return new Sums(
              Long.parseLong(parts[0]), Long.parseLong(parts[1]), Long.parseLong(parts[2]));
        });
  }

  /** An open impression: the places that were clicked, as bits, and its country. */
  private record Open(int clicked, String country) {
    static Open of(byte[] stored) {
      var buffer = ByteBuffer.wrap(stored);
      int clicked = buffer.getInt();
      return new Open(clicked, StandardCharsets.UTF_8.decode(buffer).toString());
    }

    byte[] stored() {
      var name = country.getBytes(StandardCharsets.UTF_8);
      return ByteBuffer.allocate(4 + name.length).putInt(clicked).put(name).array();
    }
  }

  private static final class Join implements Processor<String, byte[], String, Sums> {
    private final ObjectMapper json = new ObjectMapper();
    private ProcessorContext<String, Sums> context;
    private WindowStore<String, byte[]> open;

    @Override
    public void init(ProcessorContext<String, Sums> context) {
      this.context = context;
      open = context.getStateStore(OPEN);
    }

    @Override
    public void process(Record<String, byte[]> record) {
      JsonNode event;
      try {
        event = json.readTree(record.value());
      } catch (IOException error) {
        throw new UncheckedIOException(error);
      }
      var id = event.get("impression_id").textValue();
      long time = event.get("timestamp").longValue();
      if (event.get("type").textValue().equals("impression")) {
        var impression = new Open(0, event.get("attributes").get("country").textValue());
        open.put(id, impression.stored(), time);
        add(time, impression.country(), new Sums(1, 0, 0));
      } else if (event.get("kind").textValue().equals("click")) {
        click(id, time, event.get("rank").intValue());
      }
    }

    private void click(String id, long time, int rank) {
      var from = Instant.ofEpochMilli(time).minus(AFTER);
      try (var found = open.fetch(id, from, Instant.ofEpochMilli(time).plus(BEFORE))) {
        if (!found.hasNext()) return;
        var entry = found.next();
        var before = Open.of(entry.value);
        int clicked = before.clicked() | 1 << (rank - 1);
        if (clicked == before.clicked()) return;
        open.put(id, new Open(clicked, before.country()).stored(), entry.key);
        long reciprocalRank = reciprocalRank(clicked) - reciprocalRank(before.clicked());
        long ndcg = ndcg(clicked) - ndcg(before.clicked());
        add(entry.key, before.country(), new Sums(0, reciprocalRank, ndcg));
      }
    }

    private void add(long time, String country, Sums difference) {
      context.forward(new Record<>(country, difference, time));
    }
  }

  private static final long BILLION = 1_000_000_000L;
  private static final int PLACES = 10;
  private static final long[] DISCOUNTS = new long[PLACES];

  static {
    for (int place = 0; place < PLACES; place++) {
      DISCOUNTS[place] = Math.round(BILLION / (Math.log(place + 2) / Math.log(2)));
    }
  }

  private static long reciprocalRank(int clicked) {
    return clicked == 0 ? 0 : BILLION / (Integer.numberOfTrailingZeros(clicked) + 1);
  }

  private static long ndcg(int clicked) {
    long gained = 0;
    long ideal = 0;
    for (int place = 0; place < PLACES; place++) {
      if ((clicked >> place & 1) == 1) gained += DISCOUNTS[place];
      if (place < Integer.bitCount(clicked)) ideal += DISCOUNTS[place];
    }
    return ideal == 0 ? 0 : gained * BILLION / ideal;
  }
}
