package lakehouse_cdc.store;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;

/**
 * The files of a streaming query's checkpoint, which in a store are put whole, each by one query.
 *
 * <p>Purpose: of two drivers that run one query, as where one was suspended and another took over, only one plans a
 * batch. The end of a batch, its completion and the query's name are files that Spark creates, and never replaces.
 *
 * <p>Why it holds: such a file is one object that is put on the condition that no object has its name, when it is
 * closed (see ObjectStore). The store looks at the condition in the same step, so of several queries that plan one
 * batch it refuses all but the first, and Spark ends the others (CONCURRENT_STREAM_LOG_UPDATE). A put is seen as a
 * whole or not at all, so a crash leaves no part of a file. Spark's own manager writes under another name and renames,
 * which in S3 is a copy that looks at nothing.
 *
 * <p>Files of other file systems are written as Spark writes them by itself.
 *
 * <p>Contract: CheckpointFileManager of Spark 4.2. Guards: tests/object_store/test_checkpoint_files.py.
 */
public final class ConditionalPutCheckpointFiles extends FileSystemBasedCheckpointFileManager {
  private static final Set<String> STORES = Set.of("s3a", "abfs", "abfss");

  public ConditionalPutCheckpointFiles(Path path, Configuration configuration) {
    super(path, configuration);
  }

  @Override
  public CancellableFSDataOutputStream createAtomic(Path path, boolean overwriteIfPossible) {
    if (!STORES.contains(fs().getScheme())) {
      return super.createAtomic(path, overwriteIfPossible);
    }
    return new Whole(new ByteArrayOutputStream(), path, overwriteIfPossible);
  }

  /** What is written to it is put as it is closed. */
  private final class Whole extends CancellableFSDataOutputStream {
    private final ByteArrayOutputStream content;
    private final Path path;
    private final boolean overwrite;
    private boolean ended = false;

    Whole(ByteArrayOutputStream content, Path path, boolean overwrite) {
      super(content);
      this.content = content;
      this.path = path;
      this.overwrite = overwrite;
    }

    @Override
    public synchronized void close() throws IOException {
      if (ended) {
        return;
      }
      ended = true;
      super.close();
      if (overwrite) {
        ObjectStore.put(fs(), path, content.toByteArray());
      } else if (!ObjectStore.putNew(fs(), path, content.toByteArray())) {
        throw new FileAlreadyExistsException(path.toString());
      }
    }

    @Override
    public synchronized void cancel() {
      ended = true;
    }
  }
}
