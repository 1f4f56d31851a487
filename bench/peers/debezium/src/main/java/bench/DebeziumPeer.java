package bench;

import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.embedded.Connect;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.source.SourceRecord;

/**
 * Debezium's embedded engine into nothing: a table's rows, as records of Kafka Connect, handed over in batches.
 *
 * <p>Arguments: port, database.table, the number of rows to wait for; then properties as name=value. Prints one line of
 * JSON: the rows and the seconds from the engine's start to the last row.
 */
public final class DebeziumPeer {
    public static void main(String[] args) throws Exception {
        long expected = Long.parseLong(args[2]);
        Properties settings = settings(args[0], args[1], "bench");
        set(settings, args, 3);
        AtomicLong rows = new AtomicLong();
        long began = System.nanoTime();
        DebeziumEngine<ChangeEvent<SourceRecord, SourceRecord>> engine = DebeziumEngine
                .create(Connect.class).using(settings).notifying((records, committer) -> {
                    rows.addAndGet(count(records, args[1]));
                    committer.markBatchFinished();
                    if (rows.get() >= expected) {
                        System.out.printf("{\"rows\": %d, \"seconds\": %.3f}%n", rows.get(),
                                (System.nanoTime() - began) / 1e9);
                        System.out.flush();
                        Runtime.getRuntime().halt(0);
                    }
                }).build();
        engine.run();
        throw new IllegalStateException("ended after " + rows.get() + " rows");
    }

    /** Those of an engine that reads a table's rows, and whose topics' names have that prefix. */
    static Properties settings(String port, String table, String prefix) {
        Properties settings = new Properties();
        settings.setProperty("name", "bench");
        settings.setProperty("connector.class", "io.debezium.connector.mysql.MySqlConnector");
        settings.setProperty("offset.storage", "org.apache.kafka.connect.storage.MemoryOffsetBackingStore");
        settings.setProperty("offset.flush.interval.ms", "60000");
        settings.setProperty("schema.history.internal", "io.debezium.relational.history.MemorySchemaHistory");
        settings.setProperty("topic.prefix", prefix);
        settings.setProperty("database.hostname", "127.0.0.1");
        settings.setProperty("database.port", port);
        settings.setProperty("database.user", "root");
        settings.setProperty("database.password", "");
        settings.setProperty("database.server.id", "79001");
        settings.setProperty("database.ssl.mode", "disabled");
        settings.setProperty("database.include.list", table.split("\\.")[0]);
        settings.setProperty("table.include.list", table);
        settings.setProperty("snapshot.mode", "initial_only");
        settings.setProperty("include.schema.changes", "false");
        return settings;
    }

    /** Add the properties among the arguments from that one on. */
    static void set(Properties settings, String[] args, int first) {
        for (int i = first; i < args.length; i++) {
            String[] pair = args[i].split("=", 2);
            settings.setProperty(pair[0], pair[1]);
        }
    }

    private static long count(List<ChangeEvent<SourceRecord, SourceRecord>> records, String table) {
        long rows = 0;
        for (ChangeEvent<SourceRecord, SourceRecord> record : records) {
            SourceRecord value = record.value();
            if (value.topic().endsWith(table) && value.value() instanceof Struct) {
                rows++;
            }
        }
        return rows;
    }
}
