package bench;

import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.RichFilterFunction;
import org.apache.flink.cdc.connectors.mysql.source.MySqlSource;
import org.apache.flink.cdc.connectors.mysql.table.StartupOptions;
import org.apache.flink.cdc.debezium.table.RowDataDebeziumDeserializeSchema;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.table.types.logical.utils.LogicalTypeParser;

/**
 * Flink CDC into nothing: a table's rows, or the changes behind a position, as RowData into a discarding sink.
 *
 * <p>Arguments: port, database.table, its columns as ROW&lt;...&gt;, the number of rows to wait for, the parallelism, and
 * `snapshot` or FILE:POS; then properties of Debezium as name=value. Prints one line of JSON: the rows and the seconds
 * from the job's submission to the last row.
 */
public final class FlinkPeer {
    private static final AtomicLong ROWS = new AtomicLong();

    /** Counts what passes, and lets it pass. */
    private static final class Counted extends RichFilterFunction<RowData> {
        @Override
        public boolean filter(RowData row) {
            ROWS.incrementAndGet();
            return true;
        }
    }

    public static void main(String[] args) throws Exception {
        long expected = Long.parseLong(args[3]);
        Configuration settings = new Configuration();
        settings.setString("execution.checkpointing.interval", "3s");
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(settings);
        env.setParallelism(Integer.parseInt(args[4]));
        env.getConfig().enableObjectReuse();
        env.fromSource(source(args), WatermarkStrategy.noWatermarks(), "mysql").filter(new Counted())
                .sinkTo(new DiscardingSink<>());
        long began = System.nanoTime();
        JobClient job = env.executeAsync();
        while (ROWS.get() < expected && !job.getJobExecutionResult().isDone()) {
            Thread.sleep(5);
        }
        double seconds = (System.nanoTime() - began) / 1e9;
        if (ROWS.get() < expected) {
            job.getJobExecutionResult().get(); // says why it ended
        }
        System.out.printf("{\"rows\": %d, \"seconds\": %.3f}%n", ROWS.get(), seconds);
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static MySqlSource<RowData> source(String[] args) {
        RowType type = (RowType) LogicalTypeParser.parse(args[2], FlinkPeer.class.getClassLoader());
        Properties debezium = new Properties();
        for (int i = 6; i < args.length; i++) {
            String[] pair = args[i].split("=", 2);
            debezium.setProperty(pair[0], pair[1]);
        }
        Properties jdbc = new Properties();
        jdbc.setProperty("useSSL", "false");
        return MySqlSource.<RowData>builder().hostname("127.0.0.1").port(Integer.parseInt(args[0])).username("root")
                .password("").databaseList(args[1].split("\\.")[0]).tableList(args[1]).serverTimeZone("UTC")
                .startupOptions(startup(args[5])).debeziumProperties(debezium).jdbcProperties(jdbc)
                .deserializer(RowDataDebeziumDeserializeSchema.newBuilder().setPhysicalRowType(type)
                        .setResultTypeInfo(InternalTypeInfo.of(type)).build())
                .build();
    }

    private static StartupOptions startup(String from) {
        if (from.equals("snapshot")) {
            return StartupOptions.snapshot();
        }
        int colon = from.lastIndexOf(':');
        return StartupOptions.specificOffset(from.substring(0, colon), Long.parseLong(from.substring(colon + 1)));
    }
}
