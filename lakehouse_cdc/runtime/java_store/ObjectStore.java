package lakehouse_cdc.store;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.Arrays;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.EtagSource;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Options.CreateFileOptionKeys;
import org.apache.hadoop.fs.Path;

/**
 * Objects, by Hadoop's file system of their store; some are put on a condition, which the store looks at in the same
 * step.
 *
 * <p>In S3 that is one put. Azure's file system has no such put, and writes an empty object first. But it renames a file
 * to a name that must be free, in one request: so an object is written under another name, and renamed. Delta's own
 * store of its log, and Spark's files of checkpoints, do the same there, and take a name that their own lost request
 * has taken for somebody else's.
 *
 * <p>A put that fails may have been made nevertheless: where the answer is lost the client asks again, and is refused
 * for its own object. So after any failure the object is read, and one with just these bytes counts as put. For that,
 * no two writers may put the same bytes: Delta's commits and leases each have a random identifier in them. Where the
 * object cannot be read either, the failure is raised, and nothing is known of the put.
 */
public final class ObjectStore {
  private ObjectStore() {}

  /** Puts an object, in the place of one that may be there. */
  static void put(FileSystem files, Path path, byte[] content) throws IOException {
    write(files.createFile(path).overwrite(true).recursive(), content);
  }

  /** Whether the object is there with that content now, and was not before; false where another has its name. */
  static boolean putNew(FileSystem files, Path path, byte[] content) throws IOException {
    if (putsOnCondition(files)) {
      return putIf(files, path, content, CreateFileOptionKeys.FS_OPTION_CREATE_CONDITIONAL_OVERWRITE, "true");
    }
    Path making = new Path(path.getParent(), "." + path.getName() + "." + UUID.randomUUID() + ".tmp");
    write(files.createFile(making).overwrite(true).recursive(), content);
    IOException failure = new IOException("cannot rename " + making + " to " + path);
    try {
      if (files.rename(making, path)) {
        return true;
      }
    } catch (IOException reason) {
      failure = reason;
    }
    boolean isThere = isThere(files, path, content, failure);
    files.delete(making, false);
    return isThere;
  }

  /** Whether an object is whole as it appears, and can be put on a condition. */
  private static boolean putsOnCondition(FileSystem files) {
    return "s3a".equals(files.getScheme());
  }

  /** The same by the address of an object, for callers outside of the JVM. */
  public static boolean putNew(Configuration configuration, String url, byte[] content) throws IOException {
    Path path = new Path(url);
    return putNew(path.getFileSystem(configuration), path, content);
  }

  /** Puts an object in the place of the version of it that has the tag; false where that is there no more. */
  public static boolean replace(Configuration configuration, String url, byte[] content, String tag)
      throws IOException {
    Path path = new Path(url);
    String option = CreateFileOptionKeys.FS_OPTION_CREATE_CONDITIONAL_OVERWRITE_ETAG;
    return putIf(path.getFileSystem(configuration), path, content, option, tag);
  }

  /** The tag of an object's version, null where there is no object. */
  public static String tag(Configuration configuration, String url) throws IOException {
    Path path = new Path(url);
    try {
      FileStatus status = path.getFileSystem(configuration).getFileStatus(path);
      return status.isFile() ? ((EtagSource) status).getEtag() : null;
    } catch (FileNotFoundException absent) {
      return null;
    }
  }

  /** The content of an object, null where there is none. */
  public static byte[] content(Configuration configuration, String url) throws IOException {
    Path path = new Path(url);
    return read(path.getFileSystem(configuration), path);
  }

  /** The names of objects right below a prefix, and of prefixes, which end in a slash; none where there is nothing. */
  public static String[] names(Configuration configuration, String url) throws IOException {
    Path path = new Path(url);
    try {
      return Arrays.stream(path.getFileSystem(configuration).listStatus(path))
          .filter(status -> !status.getPath().equals(path))
          .map(status -> status.getPath().getName() + (status.isDirectory() ? "/" : ""))
          .toArray(String[]::new);
    } catch (FileNotFoundException absent) {
      return new String[0];
    }
  }

  /** Deletes an object, or all below a prefix; what is not there is no failure. */
  public static void delete(Configuration configuration, String url) throws IOException {
    Path path = new Path(url);
    path.getFileSystem(configuration).delete(path, true);
  }

  private static boolean putIf(FileSystem files, Path path, byte[] content, String condition, String value)
      throws IOException {
    try {
      FSDataOutputStreamBuilder<?, ?> builder = files.createFile(path).overwrite(true).recursive();
      builder.must(condition, value);
      write(builder, content);
      return true;
    } catch (IOException failure) {
      return isThere(files, path, content, failure);
    }
  }

  /** Whether an object has that content, after a put that failed. */
  private static boolean isThere(FileSystem files, Path path, byte[] content, IOException failure) throws IOException {
    byte[] there;
    try {
      there = read(files, path);
    } catch (IOException unknown) {
      failure.addSuppressed(unknown);
      throw failure;
    }
    if (there == null) {
      throw failure;
    }
    return Arrays.equals(there, content);
  }

  /** All of it, or nothing: a stream that is closed after a failure would put what it has. */
  private static void write(FSDataOutputStreamBuilder<?, ?> builder, byte[] content) throws IOException {
    FSDataOutputStream stream = builder.build();
    try {
      stream.write(content);
    } catch (IOException | RuntimeException | Error failure) {
      stream.abort();
      throw failure;
    }
    stream.close();
  }

  private static byte[] read(FileSystem files, Path path) throws IOException {
    try (FSDataInputStream stream = files.open(path)) {
      return stream.readAllBytes();
    } catch (FileNotFoundException absent) {
      return null;
    }
  }
}
