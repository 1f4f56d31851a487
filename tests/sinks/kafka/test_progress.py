"""What is sent after crashes, with whatever checkpoint Spark comes back: each row of bronze once, in bronze's order."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.sinks.kafka.progress import Part, Progress, is_lost, parts

ID = "a-table"


@dataclass
class Model:
    """Commits of so many rows each, what of them was sent, and the ledger."""

    commits: list[int]
    sent: list[tuple[int, int]] = field(default_factory=list)
    ledger: Progress | None = None

    def rows(self, versions: Versions) -> list[tuple[int, int]]:
        first = 0 if versions.after is None else versions.after + 1
        return [(version, row) for version in range(first, versions.last + 1) for row in range(self.commits[version])]

    def apply(self, batch: Versions, size: int, crash_after: int) -> bool:
        """Transactions of `size` rows; False if the process ends after so many of them."""
        for part in parts(self.ledger, ID, batch):
            rows = self.rows(part.versions)
            for start in [*range(part.skip, len(rows), size)] or [part.skip]:
                if crash_after == 0:
                    return False
                crash_after -= 1
                end = min(start + size, len(rows))
                self.sent += rows[start:end]
                self.ledger = Progress(ID, part.versions.after, part.versions.last, end, end == len(rows))
        return True


@given(
    st.lists(st.integers(0, 7), min_size=1, max_size=12),
    st.lists(
        st.tuples(st.integers(0, 11), st.integers(1, 3), st.integers(0, 5), st.integers(0, 3), st.booleans()),
        max_size=30,
    ),
)
def test_each_row_is_sent_once(commits: list[int], steps: list[tuple[int, int, int, int, bool]]) -> None:
    """A step is a batch of some commits, as far as the checkpoint says, or of an older checkpoint."""
    model = Model(commits)
    done: list[int | None] = [None]  # ends of batches that the checkpoint has
    planned: Versions | None = None
    for size, more, crash_after, older, restored in steps:
        if restored:  # an older checkpoint is put back: it has fewer batches, and plans others
            done, planned = done[: max(1, len(done) - older)], None
        after = done[-1]
        last = min((-1 if after is None else after) + more, len(commits) - 1)
        if planned is None and last == (-1 if after is None else after):
            continue
        planned = planned or Versions(after, last)
        assert not is_lost(model.ledger, ID, planned)
        if model.apply(planned, size + 1, crash_after):
            done.append(planned.last)
            planned = None
    end = len(commits) - 1
    model.apply(Versions(done[-1], end) if done[-1] != end else Versions(None, end), 3, 10**6)
    assert model.sent == model.rows(Versions(None, end))


def test_another_bronze_is_sent_from_its_beginning() -> None:
    done = Progress(ID, None, 9, 100, True)
    assert parts(done, "another", Versions(None, 0)) == [Part(Versions(None, 0))]
    assert not is_lost(done, "another", Versions(None, 0))
    assert is_lost(done, "another", Versions(3, 4))


def test_a_ledger_that_is_behind_the_checkpoint_is_lost() -> None:
    assert is_lost(None, ID, Versions(3, 4))
    assert is_lost(Progress(ID, None, 2, 5, True), ID, Versions(3, 4))
    assert not is_lost(Progress(ID, None, 3, 5, True), ID, Versions(3, 4))


def test_the_ledger_s_record_is_read_as_it_was_written() -> None:
    for progress in (Progress(ID, None, 9, 100, True), Progress(ID, 9, 12, 3, False, by_files=True)):
        assert Progress.from_json(progress.to_json()) == progress


def test_a_part_is_continued_in_the_order_in_which_it_was_begun() -> None:
    """A record of a release that knew one order does not name it."""
    earlier = Progress.from_json(b'{"bronze":"a-table","after":9,"last":12,"rows":3,"done":false}')
    for begun, by_files in ((earlier, False), (Progress(ID, 9, 12, 3, False, by_files=True), True)):
        assert parts(begun, ID, Versions(9, 13)) == [Part(Versions(9, 12), 3, by_files), Part(Versions(12, 13))]
