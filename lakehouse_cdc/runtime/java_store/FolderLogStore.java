package lakehouse_cdc.store;

import io.delta.storage.LocalLogStore;
import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Collections;
import java.util.Deque;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Delta's log in a folder of this machine, of which only the files that are asked for are looked at.
 *
 * <p>Delta lists the log from a version on, many times a batch. The store that it has for folders asks the file system
 * for size and time of every file there, and then leaves out those before: a minute a batch, where a table has a
 * hundred thousand commits. Here the files of a version are looked for by their names, and the versions are followed
 * one by one.
 *
 * <p>Why nothing is left out: versions have no gap, so the first one that is missing is the end. It is not, if the
 * log's clean-up has deleted the files of old versions meanwhile; then a checkpoint is newer, as <code>_last_checkpoint
 * </code> says, and the rest of the folder is listed. So it is, too, where the first version that is asked for is not
 * there, and where files have other names than these: those of checkpoints in several parts or of version 2 have no
 * names that can be known before. They are seen as the folder is listed for the first time, and later by
 * <code>_last_checkpoint</code>. What the folder has beside versions is not in the list.
 *
 * <p>Contract: io.delta.storage.LogStore. A file that is deleted meanwhile is not in the list. Source: Delta's
 * protocol, "Delta Log Entries", "Checkpoints", "Last Checkpoint File".
 */
public final class FolderLogStore extends LocalLogStore {
  private static final Pattern OF_VERSION = Pattern.compile("\\d{20}\\..*");
  private static final Pattern USUAL = Pattern.compile("\\d{20}\\.(json|crc|checkpoint\\.parquet)");
  private static final String[] ENDINGS = {"checkpoint.parquet", "crc", "json"}; // in the order of names
  private static final Pattern CHECKPOINT = Pattern.compile("\"version\"\\s*:\\s*(\\d+)");
  private static final Set<File> ALL_USUAL = ConcurrentHashMap.newKeySet(); // when they were listed

  public FolderLogStore(Configuration configuration) {
    super(configuration);
  }

  @Override
  public Iterator<FileStatus> listFrom(Path path, Configuration configuration) throws IOException {
    FileSystem files = path.getFileSystem(configuration);
    File folder = new File(path.getParent().toUri().getPath());
    String first = path.getName();
    Iterator<String> names = null;
    if (OF_VERSION.matcher(first).matches() && ALL_USUAL.contains(folder)) {
      long version = Long.parseLong(first.substring(0, 20));
      boolean follows = isThere(folder, version) || (version > 0 && isThere(folder, version - 1));
      if (follows && isUsual(lastCheckpoint(folder))) {
        names = new Versions(folder, first, version);
      }
    }
    return new Statuses(files, path.getParent(), folder, names != null ? names : listed(folder, first));
  }

  private static boolean isThere(File folder, long version) {
    return new File(folder, named(version, "json")).exists();
  }

  private static String named(long version, String ending) {
    return String.format("%020d.%s", version, ending);
  }

  private static String lastCheckpoint(File folder) throws IOException {
    try {
      return Files.readString(new File(folder, "_last_checkpoint").toPath(), StandardCharsets.UTF_8);
    } catch (NoSuchFileException error) {
      return "";
    }
  }

  private static boolean isUsual(String lastCheckpoint) {
    return !lastCheckpoint.contains("\"parts\"") && !lastCheckpoint.contains("\"v2Checkpoint\"");
  }

  private static Iterator<String> listed(File folder, String first) throws IOException {
    String[] all = folder.list();
    if (all == null) {
      ALL_USUAL.remove(folder);
      throw new FileNotFoundException("No such file or directory: " + folder);
    }
    if (Arrays.stream(all).allMatch(name -> !OF_VERSION.matcher(name).matches() || USUAL.matcher(name).matches())) {
      ALL_USUAL.add(folder);
    } else {
      ALL_USUAL.remove(folder);
    }
    // names of versions have as many digits, so that their order is that of the versions
    return Arrays.stream(all).filter(name -> name.compareTo(first) >= 0 && OF_VERSION.matcher(name).matches()).sorted()
        .iterator();
  }

  /** The names that the files of the versions may have, from one of them on. */
  private static final class Versions implements Iterator<String> {
    private final File folder;
    private final Deque<String> ready = new ArrayDeque<>();
    private Iterator<String> rest = null; // where the versions cannot be followed any more
    private long version;

    Versions(File folder, String first, long version) {
      this.folder = folder;
      this.version = version;
      advance();
      ready.removeIf(name -> name.compareTo(first) < 0);
    }

    private void advance() {
      if (isThere(folder, version)) {
        for (String ending : ENDINGS) {
          ready.add(named(version, ending));
        }
        version++;
        return;
      }
      rest = Collections.emptyIterator();
      try {
        Matcher newest = CHECKPOINT.matcher(lastCheckpoint(folder));
        if (newest.find() && Long.parseLong(newest.group(1)) >= version) {
          rest = listed(folder, named(version, ""));
        }
      } catch (IOException error) {
        throw new UncheckedIOException(error);
      }
    }

    @Override
    public boolean hasNext() {
      while (ready.isEmpty() && rest == null) {
        advance();
      }
      return !ready.isEmpty() || rest.hasNext();
    }

    @Override
    public String next() {
      if (!hasNext()) {
        throw new NoSuchElementException();
      }
      return ready.isEmpty() ? rest.next() : ready.remove();
    }
  }

  /**
   * The files of those names that are there, each looked at in its turn.
   *
   * <p>Delta looks for the last checkpoint before a version among a thousand versions, of which most have one file of
   * the three that they may have. So what is missing costs no exception here, and what is there no more than its own
   * numbers.
   */
  private static final class Statuses implements Iterator<FileStatus> {
    private final Path qualified;
    private final long blockSize;
    private final File folder;
    private final Iterator<String> names;
    private FileStatus next = null;

    Statuses(FileSystem files, Path path, File folder, Iterator<String> names) {
      this.qualified = files.makeQualified(path);
      this.blockSize = files.getDefaultBlockSize(path);
      this.folder = folder;
      this.names = names;
    }

    @Override
    public boolean hasNext() {
      while (next == null && names.hasNext()) {
        String name = names.next();
        File file = new File(folder, name);
        long modified = file.lastModified(); // 0 where there is none, and of 1970
        if (modified != 0 || file.exists()) {
          next = new FileStatus(file.length(), false, 1, blockSize, modified, new Path(qualified, name));
        }
      }
      return next != null;
    }

    @Override
    public FileStatus next() {
      if (!hasNext()) {
        throw new NoSuchElementException();
      }
      FileStatus one = next;
      next = null;
      return one;
    }
  }
}
