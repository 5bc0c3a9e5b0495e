import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.Optional;
import java.util.function.IntToLongFunction;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

/**
 * The job of `join_job.py` in Flink SQL, as a team would write it: an interval join, windows over its
 * result, and checkpoints from which a new process goes on.
 */
public final class FlinkPeer {
  private static final long BILLION = 1_000_000_000L;
  private static final int PLACES = 10;

  private FlinkPeer() {}

  public static void main(String[] arguments) throws Exception {
    var folder = Path.of(System.getenv("BENCH_FOLDER"));
    var options = new Configuration();
    options.setString("parallelism.default", "1");
    options.setString("execution.checkpointing.interval", "1 s");
    options.setString("execution.checkpointing.mode", "EXACTLY_ONCE");
    options.setString("execution.checkpointing.storage", "filesystem");
    options.setString("execution.checkpointing.dir", folder.toUri().toString());
    options.setString(
        "execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
    options.setString("state.backend.type", "hashmap");
    options.setString("taskmanager.memory.network.max", "128mb");
    options.setString("table.local-time-zone", "UTC");
    lastCheckpoint(folder)
        .ifPresent(path -> options.setString("execution.state-recovery.path", path.toString()));

    var environment = StreamExecutionEnvironment.getExecutionEnvironment(options);
    var tables = StreamTableEnvironment.create(environment);
    var broker = System.getenv("BENCH_BROKER");
    tables.executeSql(
        """
        CREATE TABLE events (
          `type` STRING,
          impression_id STRING,
          `timestamp` BIGINT,
          attributes ROW<country STRING>,
          kind STRING,
          `rank` INT,
          event_time AS TO_TIMESTAMP_LTZ(`timestamp`, 3),
          WATERMARK FOR event_time AS event_time - INTERVAL '10' SECOND
        ) WITH (
          'connector' = 'kafka', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset',
          'topic' = '%s', 'properties.bootstrap.servers' = '%s', 'properties.group.id' = '%s'
        )"""
            .formatted(System.getenv("BENCH_TOPIC"), broker, System.getenv("BENCH_GROUP")));
    tables.executeSql(
        """
        CREATE TABLE sums (
          country STRING, `minute` BIGINT, impressions BIGINT, reciprocal_ranks BIGINT, ndcgs BIGINT
        ) WITH (
          'connector' = 'kafka', 'format' = 'json', 'topic' = '%s',
          'properties.bootstrap.servers' = '%s', 'sink.delivery-guarantee' = 'exactly-once',
          'sink.transactional-id-prefix' = '%s', 'properties.transaction.timeout.ms' = '60000'
        )"""
            .formatted(System.getenv("BENCH_OUTPUT"), broker, System.getenv("BENCH_GROUP")));
    tables.executeSql(
        """
        CREATE TEMPORARY VIEW joined AS
        SELECT i.impression_id AS id, i.attributes.country AS country, i.event_time AS shown_at, c.`rank` AS place
        FROM (SELECT * FROM events WHERE `type` = 'impression') AS i
        LEFT JOIN (SELECT * FROM events WHERE `type` = 'feedback' AND kind = 'click') AS c
        ON i.impression_id = c.impression_id
          AND c.event_time BETWEEN i.event_time - INTERVAL '5' SECOND
            AND i.event_time + INTERVAL '30' MINUTE""");
    tables.executeSql(
        """
        CREATE TEMPORARY VIEW searches AS
        SELECT window_start, window_end, country, id,
          MIN(place) AS first_place, COUNT(DISTINCT place) AS hits,
          SUM(DISTINCT CASE place %s END) AS gained
        FROM TABLE(TUMBLE(TABLE joined, DESCRIPTOR(shown_at), INTERVAL '1' MINUTE))
        GROUP BY window_start, window_end, country, id"""
            .formatted(cases(FlinkPeer::discount)));
    tables
        .executeSql(
            """
            INSERT INTO sums
            SELECT country, UNIX_TIMESTAMP(CAST(window_start AS STRING)) * 1000, COUNT(*),
              SUM(COALESCE(CAST(%d AS BIGINT) / first_place, 0)),
              SUM(COALESCE(gained * %d / CASE hits %s END, 0))
            FROM searches GROUP BY window_start, window_end, country"""
                .formatted(BILLION, BILLION, cases(FlinkPeer::ideal)))
        .await();
  }

  /** The newest checkpoint that is complete. */
  private static Optional<Path> lastCheckpoint(Path folder) throws IOException {
    if (!Files.exists(folder)) return Optional.empty();
    try (var files = Files.walk(folder)) {
      return files
          .filter(file -> file.endsWith("_metadata"))
          .max(Comparator.comparing(file -> file.toFile().lastModified()))
          .map(Path::getParent);
    }
  }

  private static String cases(IntToLongFunction value) {
    return IntStream.rangeClosed(1, PLACES)
        .mapToObj(n -> "WHEN %d THEN CAST(%d AS BIGINT)".formatted(n, value.applyAsLong(n)))
        .collect(Collectors.joining(" "));
  }

  private static long discount(int place) {
    return Math.round(BILLION / (Math.log(place + 1) / Math.log(2)));
  }

  private static long ideal(int hits) {
    return IntStream.rangeClosed(1, hits).mapToLong(FlinkPeer::discount).sum();
  }
}
