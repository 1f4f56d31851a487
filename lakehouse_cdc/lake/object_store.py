"""Objects of a store, through the file system that a Spark session has for it.

Purpose: what is done to a table in an object store beside Delta: to see that it was made in part only, and to delete
it. And objects that are put on a condition, for a lease (see `pipeline.run.lease`): where another client than Hadoop's
does that, by it (`file_systems.objects_of`).

Invariant: whatever moment a crash comes at, a table is there as a whole, or is not there.

Why it holds: a store has no folders, and renames nothing. So to delete a table an object is put first that says so
(`DELETING`); from then on the table is not there, and it is deleted to the end before one is made in its place. That
object goes last. A table that was not made to its end has a log without a version, and is none.

Guards: tests/object_store.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from lakehouse_cdc.lake.cleanup.unfinished_tables import LOG, not_a_table
from lakehouse_cdc.lake.file_systems import objects_of
from lakehouse_cdc.lake.spark_errors import as_cdc_error
from lakehouse_cdc.model.place import address, kind_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
DELETING = "_deleting"  # Delta and its VACUUM take no notice of a name that begins so


class ObjectStore:
    """The stores that a session has been connected to (see `runtime.object_store.reach`); names are URLs.

    What a store refuses, or fails to do, is raised as errors of ours.
    """

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark._jvm
        self._jvm, self._java = jvm, jvm.lakehouse_cdc.store.ObjectStore
        self._configuration: Any = spark.sparkContext._jsc.hadoopConfiguration()

    def read(self, url: str) -> tuple[bytes, str] | None:
        """The content of an object, and the tag of that version of it or of an older one; None where there is none."""
        if (objects := objects_of(url)) is not None:
            return objects.read(address(url).prefix)
        tag = self._asked(lambda: self._java.tag(self._configuration, url))
        content = None if tag is None else self._asked(lambda: self._java.content(self._configuration, url))
        return None if tag is None or content is None else (bytes(content), str(tag))

    def put_new(self, url: str, content: bytes) -> bool:
        """Put an object; False where one has its name. No two calls may have the same content."""
        if (objects := objects_of(url)) is not None:
            return objects.put_new(address(url).prefix, content)
        return bool(self._asked(lambda: self._java.putNew(self._configuration, url, content)))

    def replace(self, url: str, content: bytes, tag: str) -> bool:
        """Put an object in the place of the version that has the tag; False where that is there no more."""
        if (objects := objects_of(url)) is not None:
            return objects.replace(address(url).prefix, content, tag)
        return bool(self._asked(lambda: self._java.replace(self._configuration, url, content, tag)))

    def names(self, url: str) -> list[str]:
        """Of objects right below a prefix, and of prefixes, which end in a slash."""
        return [str(name) for name in self._asked(lambda: self._java.names(self._configuration, url))]

    def delete(self, url: str) -> None:
        """Delete an object, or all below a prefix."""
        self._asked(lambda: self._java.delete(self._configuration, url))

    def delete_folder_object(self, url: str) -> None:
        """Delete the object that stands for a folder, and nothing that is below it; none is fine.

        Clients of S3 put one as they delete an object: Hadoop's where the folder became empty by that, pyarrow's
        always. Hadoop's names none of these, so AWS's is asked, which it is made of. In Azure one stands for each
        folder that Hadoop's has made, or is a folder, and Hadoop's deletes it where it is empty.
        """
        if kind_of(url) == "abfs":
            if not self.names(url):
                self.delete(url)
            return
        place = address(url)
        request = self._jvm.software.amazon.awssdk.services.s3.model.DeleteObjectRequest.builder()
        request = request.bucket(place.bucket).key(f"{place.prefix}/").build()
        path = self._jvm.org.apache.hadoop.fs.Path(url)

        def delete() -> None:
            files = path.getFileSystem(self._configuration)
            files.getS3AInternals().getAmazonS3Client("delete the object of a folder").deleteObject(request)

        self._asked(delete)

    @staticmethod
    def _asked(ask: Callable[[], T]) -> T:
        try:
            return ask()
        except Exception as error:
            raise as_cdc_error(error) from error

    # ------------------------------------------------------------ tables

    def has_table(self, url: str) -> bool:
        """Whether a Delta table is there, as a whole. Raises DefiniteError where something else is in its place."""
        if self._is_there(f"{url}/{DELETING}"):
            return False
        if self._has_version(url):
            return True
        if {*self.names(url)} - {f"{LOG}/"}:
            raise not_a_table(url)
        return False

    def throw_away(self, url: str) -> None:
        """Delete a table, so that a crash at any moment leaves all of it, or nothing that counts."""
        self.put_new(f"{url}/{DELETING}", DELETING.encode())
        self._delete_to_the_end(url)

    def remove_unfinished(self, url: str) -> None:
        """Delete what a crash left of a table that was being made, or deleted; a table that is there stays."""
        if not self.finish_deletion(url) and not self._has_version(url) and f"{LOG}/" in self.names(url):
            self.delete(f"{url}/{LOG}")

    def finish_deletion(self, url: str) -> bool:
        """Delete what is left of a table whose deletion was begun; False for any other."""
        if not self._is_there(f"{url}/{DELETING}"):
            return False
        self._delete_to_the_end(url)
        return True

    def _has_version(self, url: str) -> bool:
        """Without a list of the log, which may have thousands of names: Delta cleans up below a checkpoint alone."""
        return any(self._is_there(f"{url}/{LOG}/{name}") for name in (f"{0:020}.json", "_last_checkpoint"))

    def _is_there(self, url: str) -> bool:
        return self._asked(lambda: self._java.tag(self._configuration, url)) is not None

    def _delete_to_the_end(self, url: str) -> None:
        for name in self.names(url):
            if name != DELETING:
                self.delete(f"{url}/{name.rstrip('/')}")
        self.delete(f"{url}/{DELETING}")
        self.delete_folder_object(url)


@dataclass(frozen=True)
class Slot:
    """One object of a store."""

    store: ObjectStore
    url: str

    def read(self) -> tuple[bytes, str] | None:
        """See `ObjectStore.read`."""
        return self.store.read(self.url)

    def put_new(self, content: bytes) -> bool:
        """See `ObjectStore.put_new`."""
        return self.store.put_new(self.url, content)

    def replace(self, content: bytes, tag: str) -> bool:
        """See `ObjectStore.replace`."""
        return self.store.replace(self.url, content, tag)
