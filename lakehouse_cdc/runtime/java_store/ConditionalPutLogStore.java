package lakehouse_cdc.store;

import io.delta.storage.HadoopFileSystemLogStore;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Delta's log in a store, of which each version is written by one writer, whatever process or machine it is in.
 *
 * <p>A version is an object that is put on the condition that no object has its name (see ObjectStore), so of several
 * writers of one version the store refuses all but the first, and Delta has these look for conflicts, and take the next
 * version. What Delta has for S3 holds a lock inside of one JVM instead; what it has for Azure renames, and takes a
 * version whose answer was lost for somebody else's, so that it is committed twice.
 *
 * <p>Contract: io.delta.storage.LogStore. An object becomes visible as a whole, so no reader sees a part of a version.
 */
public final class ConditionalPutLogStore extends HadoopFileSystemLogStore {
  public ConditionalPutLogStore(Configuration configuration) {
    super(configuration);
  }

  @Override
  public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration configuration)
      throws IOException {
    ByteArrayOutputStream lines = new ByteArrayOutputStream();
    while (actions.hasNext()) {
      lines.write(actions.next().getBytes(StandardCharsets.UTF_8));
      lines.write('\n');
    }
    FileSystem files = path.getFileSystem(configuration);
    if (overwrite) {
      ObjectStore.put(files, path, lines.toByteArray());
    } else if (!ObjectStore.putNew(files, path, lines.toByteArray())) {
      throw new FileAlreadyExistsException(path.toString());
    }
  }

  @Override
  public Boolean isPartialWriteVisible(Path path, Configuration configuration) {
    return false;
  }
}
