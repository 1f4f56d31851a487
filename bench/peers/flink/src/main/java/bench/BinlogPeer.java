package bench;

import com.github.shyiko.mysql.binlog.BinaryLogClient;
import com.github.shyiko.mysql.binlog.event.DeleteRowsEventData;
import com.github.shyiko.mysql.binlog.event.EventData;
import com.github.shyiko.mysql.binlog.event.UpdateRowsEventData;
import com.github.shyiko.mysql.binlog.event.WriteRowsEventData;

/**
 * mysql-binlog-connector-java's decoding alone: the rows behind a position, counted.
 *
 * <p>Arguments: port, FILE:POS, the number of changes to wait for. Prints one line of JSON: changes and seconds.
 */
public final class BinlogPeer {
    public static void main(String[] args) throws Exception {
        long expected = Long.parseLong(args[2]);
        int colon = args[1].lastIndexOf(':');
        BinaryLogClient client = new BinaryLogClient("127.0.0.1", Integer.parseInt(args[0]), "root", "");
        client.setBinlogFilename(args[1].substring(0, colon));
        client.setBinlogPosition(Long.parseLong(args[1].substring(colon + 1)));
        client.setServerId(77_001);
        client.setKeepAlive(false);
        long[] rows = {0};
        client.registerEventListener(event -> {
            EventData data = event.getData();
            if (data instanceof WriteRowsEventData written) {
                rows[0] += written.getRows().size();
            } else if (data instanceof UpdateRowsEventData updated) {
                rows[0] += updated.getRows().size();
            } else if (data instanceof DeleteRowsEventData deleted) {
                rows[0] += deleted.getRows().size();
            }
            if (rows[0] >= expected) {
                try {
                    client.disconnect();
                } catch (java.io.IOException e) {
                    throw new java.io.UncheckedIOException(e);
                }
            }
        });
        long began = System.nanoTime();
        client.connect(); // until it disconnects
        System.out.printf("{\"rows\": %d, \"seconds\": %.3f}%n", rows[0], (System.nanoTime() - began) / 1e9);
    }
}
