import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.functions.util.ListCollector;
import org.apache.flink.api.common.serialization.DeserializationSchema;
import org.apache.flink.formats.common.TimestampFormat;
import org.apache.flink.formats.json.canal.CanalJsonDeserializationSchema;
import org.apache.flink.formats.json.debezium.DebeziumJsonDeserializationSchema;
import org.apache.flink.formats.json.maxwell.MaxwellJsonDeserializationSchema;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.table.data.ArrayData;
import org.apache.flink.table.data.DecimalData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.table.types.DataType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.utils.LogicalTypeParser;
import org.apache.flink.table.types.utils.TypeConversions;

/**
 * Flink's own readers of messages, without a cluster: from standard input to standard output, a line for each line.
 *
 * <p>A line with tabs makes a reader: format, whether messages have schemas, and the type of a row as Flink's SQL
 * writes it; it is answered by an empty line. Any other line is a message in base64, the empty one a tombstone: its
 * answer is a list of rows, each with its kind and its values, or a text where Flink refuses the message.
 */
public final class ReadMessages {
    private static LogicalType row;
    private static DeserializationSchema<RowData> reader;

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        ObjectMapper json = new ObjectMapper();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split("\t", 3);
            if (parts.length == 3) {
                makeReader(parts[0], Boolean.parseBoolean(parts[1]), parts[2]);
                out.println();
            } else {
                out.println(json.writeValueAsString(answer(line.isEmpty() ? null : Base64.getDecoder().decode(line))));
            }
        }
    }

    private static void makeReader(String format, boolean schemas, String type) throws Exception {
        row = LogicalTypeParser.parse(type, ReadMessages.class.getClassLoader());
        DataType data = TypeConversions.fromLogicalToDataType(row);
        InternalTypeInfo<RowData> info = InternalTypeInfo.of(row);
        reader = switch (format) {
            // its moments are in ISO 8601; those of the other formats are SQL's
            case "debezium-json" -> new DebeziumJsonDeserializationSchema(
                    data, List.of(), info, schemas, false, TimestampFormat.ISO_8601);
            case "canal-json" -> CanalJsonDeserializationSchema.builder(data, List.of(), info).build();
            case "maxwell" -> new MaxwellJsonDeserializationSchema(
                    data, List.of(), info, false, TimestampFormat.SQL);
            default -> throw new IllegalArgumentException(format);
        };
        reader.open(null);
    }

    private static Object answer(byte[] message) {
        List<RowData> rows = new ArrayList<>();
        try {
            reader.deserialize(message, new ListCollector<>(rows));
        } catch (Exception refused) {
            Throwable cause = refused;
            while (cause.getCause() != null) {
                cause = cause.getCause();
            }
            return String.valueOf(cause);
        }
        return rows.stream().map(one -> Map.of("kind", one.getRowKind().shortString(), "row", values(one))).toList();
    }

    private static Object values(RowData held) {
        return values(held, row);
    }

    private static List<Object> values(RowData held, LogicalType type) {
        List<Object> values = new ArrayList<>();
        for (int i = 0; i < held.getArity(); i++) {
            LogicalType of = type.getChildren().get(i);
            values.add(value(RowData.createFieldGetter(of, i).getFieldOrNull(held), of));
        }
        return values;
    }

    private static Object value(Object held, LogicalType type) {
        if (held == null) {
            return null;
        }
        return switch (type.getTypeRoot()) {
            case BOOLEAN, TINYINT, SMALLINT, INTEGER, BIGINT -> held;
            case VARCHAR, FLOAT, DOUBLE -> held.toString();
            case VARBINARY -> Base64.getEncoder().encodeToString((byte[]) held);
            case DECIMAL -> ((DecimalData) held).toBigDecimal().toPlainString();
            case DATE -> LocalDate.ofEpochDay((Integer) held).toString();
            case TIMESTAMP_WITHOUT_TIME_ZONE, TIMESTAMP_WITH_LOCAL_TIME_ZONE -> moment((TimestampData) held);
            case ROW -> values((RowData) held, type);
            case ARRAY -> elements((ArrayData) held, type.getChildren().get(0));
            default -> throw new IllegalArgumentException(type.toString());
        };
    }

    /** Microseconds since 1970. */
    private static long moment(TimestampData held) {
        return held.getMillisecond() * 1000 + held.getNanoOfMillisecond() / 1000;
    }

    private static List<Object> elements(ArrayData held, LogicalType type) {
        List<Object> values = new ArrayList<>();
        for (int i = 0; i < held.size(); i++) {
            values.add(value(ArrayData.createElementGetter(type).getElementOrNull(held, i), type));
        }
        return values;
    }
}
