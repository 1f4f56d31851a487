"""Single objects of a store, put as a whole by one request, and on a condition: by obstore, without a JVM.

Invariant: of several that put an object where none is, or in the place of one version, one does.

Why it holds: the store looks at the condition in the same step. A put that fails may have been made nevertheless: where
the answer is lost the client asks again, and is refused for its own object. So after any failure the object is read,
and one with just these bytes counts as put. For that no two writers may put the same bytes: commits and leases each
have a random identifier in them. Where the object cannot be read either, the failure is raised.

The same is done for S3 in the JVM (`runtime/java_store/ObjectStore.java`).

Guards: tests/object_store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

from lakehouse_cdc.errors import codes
from lakehouse_cdc.lake.stores.port import ATTEMPTS

_RETRIES = {"max_retries": ATTEMPTS, "retry_timeout": timedelta(seconds=60)}
_PATIENCE = {"connect_timeout": "5s", "timeout": "60s"}


class Objects:
    """Those of a bucket, by their keys. `store` makes obstore's client; `plain` allows requests without TLS.

    Raises ConfigError for what the store refuses, or has no bucket for, and TransientError for what it fails to do.
    """

    def __init__(self, store: Callable[..., Any], *, plain: bool) -> None:
        self._store = store(client_options={**_PATIENCE, "allow_http": plain}, retry_config=_RETRIES)

    def read(self, key: str) -> tuple[bytes, str] | None:
        """The content of one version, and its tag; None where there is none."""
        with _failures(key):
            return self._read(key)

    def put(self, key: str, content: bytes) -> None:
        """Put an object, in the place of one that may be there."""
        with _failures(key):
            self._put(key, content, "overwrite")

    def put_new(self, key: str, content: bytes) -> bool:
        """Put an object; False where one has its name."""
        return self._put_if(key, content, "create")

    def replace(self, key: str, content: bytes, tag: str) -> bool:
        """Put an object in the place of the version that has the tag; False where that is there no more."""
        return self._put_if(key, content, {"e_tag": tag})

    def delete(self, key: str) -> None:
        """Delete an object; one that is gone is fine."""
        import obstore

        with _failures(key), suppress(FileNotFoundError):
            obstore.delete(self._store, key)

    def _put_if(self, key: str, content: bytes, condition: Any) -> bool:
        from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

        with _failures(key):
            try:
                self._put(key, content, condition)
                return True
            except (AlreadyExistsError, PreconditionError):
                there = self._read(key)
            except (BaseError, FileNotFoundError) as failure:
                there = self._read(key)
                if there is None:
                    raise failure from None
            return there is not None and there[0] == content

    def _read(self, key: str) -> tuple[bytes, str] | None:
        import obstore

        try:
            got = obstore.get(self._store, key)
            return bytes(got.bytes()), str(got.meta["e_tag"])
        except FileNotFoundError:
            return None

    def _put(self, key: str, content: bytes, mode: Any) -> None:
        import obstore

        obstore.put(self._store, key, content, mode=mode, use_multipart=False)


@contextmanager
def _failures(key: str) -> Iterator[None]:
    from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

    try:
        yield
    except (PermissionDeniedError, UnauthenticatedError, FileNotFoundError) as error:  # the last of a put: no bucket
        raise codes.OBJECT_STORE_REFUSED.error(f"the store refused: {error}", where=key) from error
    except BaseError as error:
        what = f"the store did not do what it was asked for: {error}"
        raise codes.OBJECT_STORE_UNAVAILABLE.error(what, where=key) from error
