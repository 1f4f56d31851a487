"""One process at a time, on whatever machine, where tables are in an object store: a lease with an owner.

Purpose: commits to a table in a store exclude each other, but two runs of one pipeline, each with checkpoints of its
own, would both append what they read. So who writes holds an object beside the tables, and renews it every
`RENEWED` seconds; another one is refused, and takes over from an owner that is dead.

Invariant: no two processes hold the lease at the same moment, and who does not hold it makes no commit.

Why it holds, without comparing clocks of two machines:

- The object is only ever put where none is, or in the place of the version that was read, which the store looks at in
  the same step. So of several who take it one gets it.
- An owner holds it for `DEAD - RENEWED` seconds after it began the last put that went through. Another takes over only
  after it has seen the same content for `DEAD` seconds, by a clock that counts the sleep of a machine, too. It read
  that content after it was put, so the owner's time is over by then. An owner on the same machine that is no process
  any more needs no waiting.
- Each commit asks first whether the lease is held (`failpoints.guarded_by`). What was begun before that and is
  committed late, as by a process that was suspended, is refused by Delta: who takes over first changes a property of
  the change table, which conflicts with every append that was begun before (`fence`). Silver's commits are idempotent.

Guards: tests/pipeline/test_lease.py (an owner and others under random clocks), tests/object_store.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from lakehouse_cdc.errors import CdcError, codes
from lakehouse_cdc.lake.failpoints import guarded_by

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse_cdc.model.table_layout import Layout

RENEWED, DEAD = 10.0, 60.0  # seconds
_LOOK = 1.0  # seconds between two looks at another's lease
_WRITER = "lakehouse_cdc.writer"
_log = logging.getLogger(__name__)


def _awake_or_not() -> float:
    """Seconds since some moment; those in which the machine sleeps count, where the system says them."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class Clock(NamedTuple):
    """The time, in seconds since any moment, and a way to wait."""

    now: Callable[[], float] = _awake_or_not
    sleep: Callable[[float], None] = time.sleep


class Slot(Protocol):
    """One object of a store; see `lake.object_store.ObjectStore` for what its functions promise."""

    def read(self) -> tuple[bytes, str] | None:
        """The content, and the tag of that version or of an older one; None where there is none."""

    def put_new(self, content: bytes) -> bool:
        """Put it; False where there is one."""

    def replace(self, content: bytes, tag: str) -> bool:
        """Put it in the place of the version with the tag; False where that is there no more."""


class Lease:
    """That of one slot, for this process. `where` and `hint` are for errors."""

    def __init__(self, slot: Slot, where: str, hint: str, clock: Clock | None = None) -> None:
        self._slot, self._where, self._hint, self._clock = slot, where, hint, clock or Clock()
        self.owner = uuid.uuid4().hex
        self.took_over = False
        self._beats = 0
        self._until = float("-inf")

    def acquire(self) -> None:
        """Return when it is held. Raises DefiniteError where another process holds it, within `RENEWED` seconds."""
        first: bytes | None = None
        since = 0.0
        while True:
            held = self._slot.read()
            if held is None:
                if self._put(self._slot.put_new):
                    return
                continue
            content, tag = held
            if first is None:
                first, since = content, self._clock.now()  # it was put before that, however long the answer took
            over = _is_over(content) or (content == first and self._clock.now() - since >= DEAD)
            if over and self._put(lambda new, tag=tag: self._slot.replace(new, tag)):  # type: ignore[misc]
                self.took_over = not _is_fenced(content)
                return
            if content != first or over:  # it was renewed, or somebody else was first
                raise codes.TABLES_LOCKED.error(
                    f"another process writes to these tables: {_described(content)}", where=self._where, hint=self._hint
                )
            self._clock.sleep(_LOOK)

    def renew(self) -> None:
        """Hold it for longer; nothing where it is lost. Raises what the store does."""
        held = self._slot.read()
        if not (held and self._is_own(held[0]) and self._put(lambda content: self._slot.replace(content, held[1]))):
            self._until = float("-inf")

    def release(self) -> None:
        """Give it to the next one; nothing where it is lost. Raises what the store does."""
        self._until = float("-inf")  # first: as soon as it is put, another one may have it
        held = self._slot.read()
        if held is not None and self._is_own(held[0]):
            released = {"owner": None, "was": self.owner, "fenced": not self.took_over}
            self._slot.replace(json.dumps(released).encode(), held[1])

    def _is_own(self, content: bytes) -> bool:
        """Whether it is of this lease, also by a put that failed and was made nevertheless."""
        return bool(json.loads(content)["owner"] == self.owner)

    @property
    def is_held(self) -> bool:
        """Whether nobody else can hold it now."""
        return self._clock.now() < self._until

    def require(self) -> None:
        """Raise TransientError unless it is held."""
        if not self.is_held:
            raise codes.LEASE_LOST.error("this process may no longer write to the tables", where=self._where)

    def _put(self, put: Callable[[bytes], bool]) -> bool:
        self._beats += 1
        content = json.dumps({"owner": self.owner, "beat": self._beats, **_this_process()}).encode()
        began = self._clock.now()
        if not put(content):
            return False
        self._until = began + DEAD - RENEWED
        return True


def _this_process() -> dict[str, str | int]:
    """Who this is, for people, and for others on this machine (Linux alone)."""
    return {"host": socket.gethostname(), "pid": os.getpid(), "machine": _machine(), "began": _began(os.getpid())}


def _machine() -> str:
    """What processes have in common that see each other by number: one start of one system, and a name space."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _began(pid: int) -> str:
    """When a process of this machine began, in the system's ticks; "" where there is none, or nobody says it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def _is_over(content: bytes) -> bool:
    """Whether a lease was released, or its owner was a process of this machine, and is none any more.

    One of this process is over, too: it could not be released (see `leased`, where those that are held are shared).
    """
    said = json.loads(content)
    if said["owner"] is None:
        return True
    if not said["machine"] or said["machine"] != _machine():
        return False
    return said["pid"] == os.getpid() or _began(int(said["pid"])) != str(said["began"])


def _is_fenced(content: bytes) -> bool:
    """Whether it was released by an owner after whom, and before whom, nothing is left to be refused (see `fence`)."""
    said = json.loads(content)
    return said["owner"] is None and bool(said["fenced"])


def _described(content: bytes) -> str:
    said = json.loads(content)
    return f"process {said['pid']} on {said['host']}" if said["owner"] else "it has just begun"


# ---------------------------------------------------------------- held by this process


class _Held:
    """A lease that this process holds and renews; the last one that leaves releases it."""

    def __init__(self, lease: Lease) -> None:
        self.lease, self.holders = lease, 1
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="lease", daemon=True)
        self._thread.start()

    def _renew(self) -> None:
        while not self._ended.wait(RENEWED):
            with _logged("renewed"):  # it is held for some time yet, and tried again meanwhile
                self.lease.renew()

    def end(self) -> None:
        """Stop, and release it; a store that fails then has the next one wait."""
        self._ended.set()
        self._thread.join()
        with _logged("released"):
            self.lease.release()


@contextmanager
def _logged(what: str) -> Iterator[None]:
    """What a store fails to do in the block is logged, and nothing more."""
    try:
        yield
    except CdcError as error:
        _log.warning("the lease was not %s: %s", what, error)


_held: dict[str, _Held] = {}
_turn = threading.Lock()


@contextmanager
def leased(slot: Slot, where: str, hint: str) -> Iterator[Lease]:
    """Hold the lease of a slot, named by `where`; this process may do so more than once.

    Raises DefiniteError while another one does. Each commit that is made meanwhile asks first whether it is held.
    """
    with _turn:
        if where in _held:
            _held[where].holders += 1
        else:
            lease = Lease(slot, where, hint)
            lease.acquire()
            _held[where] = _Held(lease)
        held = _held[where]
    try:
        with guarded_by(held.lease.require):
            yield held.lease
    finally:
        with _turn:
            held.holders -= 1
            if not held.holders:
                del _held[where]
                held.end()


def fence(spark: SparkSession, layout: Layout, lease: Lease) -> None:
    """After a lease was taken over: have Delta refuse what its last owner has begun to append, and not committed."""
    from lakehouse_cdc.lake.tables import exists, require_owner, set_properties

    if lease.took_over:
        if exists(spark, layout.changes):
            require_owner(spark, layout.changes, layout.pipeline)
            set_properties(spark, layout.changes, {_WRITER: lease.owner})
        lease.took_over = False
