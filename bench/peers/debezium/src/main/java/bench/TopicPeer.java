package bench;

import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Debezium's embedded engine into a topic of Kafka: a table's rows as JSON without schemas, each batch acknowledged
 * before the next one.
 *
 * <p>Arguments: port, database.table, the number of rows to wait for, brokers, prefix of the topic; then properties as
 * name=value. Prints one line of JSON: the rows and the seconds from the engine's start to the last acknowledgement.
 */
public final class TopicPeer {
    public static void main(String[] args) throws Exception {
        long expected = Long.parseLong(args[2]);
        Properties settings = DebeziumPeer.settings(args[0], args[1], args[4]);
        settings.setProperty("converter.schemas.enable", "false");
        DebeziumPeer.set(settings, args, 5);
        Properties sending = new Properties();
        sending.setProperty("bootstrap.servers", args[3]);
        sending.setProperty("acks", "all");
        sending.setProperty("enable.idempotence", "true");
        sending.setProperty("linger.ms", "20");
        sending.setProperty("batch.size", "1000000");
        KafkaProducer<String, String> producer =
                new KafkaProducer<>(sending, new StringSerializer(), new StringSerializer());
        AtomicLong rows = new AtomicLong();
        AtomicReference<Exception> refused = new AtomicReference<>();
        long began = System.nanoTime();
        DebeziumEngine<ChangeEvent<String, String>> engine = DebeziumEngine.create(Json.class).using(settings)
                .notifying((records, committer) -> {
                    for (ChangeEvent<String, String> record : records) {
                        if (record.destination().endsWith(args[1]) && record.value() != null) {
                            producer.send(new ProducerRecord<>(record.destination(), record.key(), record.value()),
                                    (sent, error) -> refused.compareAndSet(null, error));
                            rows.incrementAndGet();
                        }
                    }
                    producer.flush();
                    if (refused.get() != null) {
                        throw new IllegalStateException(refused.get());
                    }
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
}
