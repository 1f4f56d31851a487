"""The plan by which a silver table goes from one schema to the next: pure, and the same after a crash at any step.

A plan is made from what the table is now, never from what was done before. Each step is one commit. A change has two
phases, and the table itself says which it is in (`Enter`), so a name never has two meanings:

- **Parting.** Nothing comes into being under a name that the old schema holds, in whatever case. What must go goes: a
  column kept from earlier, or one dropped now, whose name the new schema needs. What gets another name leaves for it,
  if the old schema does not hold that name; else for a temporary one, which is longer than any of MySQL's and says
  where it goes. So here a name of the old schema always is the old column, and a rename is yet to be done if and only
  if its old name is there. A name that the new schema needs and the old one lacks is an older, kept column as long as
  the rename to it is not done, and is dropped first. (Swaps, chains and changes of case go over temporary names.)
- **Joining.** Nothing is left under a name of the new schema but what belongs there. So here a temporary name goes to
  its end, a column that is not there is yet to be added (and filled, where all rows hold a constant in it), and one of
  another type is yet to be widened or rewritten.

After a crash in either phase the steps that are found are those that are not yet done. `Enter` comes before the first
step, so as long as it is not there the table is as it was, and batches are applied to it by the old schema; once it is
there, all that is older than the change has been applied, and is not applied again. `Finish` comes last, in one commit.

A column that the new schema lacks is kept, under its name, or dropped while joining, as configured. One that is kept
and whose name comes to be needed goes; where every version of a row is kept it gets a name that is free instead. One
whose type changes, other than to a wider one, is rewritten; or, as configured, it stays beside a new one. Then it parts
under a name that says whose it was, and while joining the new one takes over its values before it gets a name that is
free.

A value is carried over only where the way back gives the same value again, so no two keys become one; else it is NULL.
Whatever the source holds otherwise it reads again (see `model.migration`). Still two rows may meet under a key of other
columns, where an earlier change of the key has not been read to its end: a row that the source has and one that it has
no more. They would be one to every MERGE from then on, and stay two, so both go, and the one returns with the read that
follows every change of the key.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from lakehouse_cdc.errors import codes
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.schema.types import require
from lakehouse_cdc.silver.definition.casts import widens
from lakehouse_cdc.silver.definition.form import Form
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.evolution.steps import (
    AddColumn,
    DropColumn,
    Enter,
    Fill,
    Finish,
    Forget,
    Phase,
    Recast,
    RenameColumn,
    Rewrite,
    Step,
    TakeOver,
    Unite,
    Widen,
)

# longer than the 64 characters of a MySQL name
_ON_ITS_WAY = "_lakehouse_cdc: this column is about to be renamed by the pipeline to "
_ASIDE = "_lakehouse_cdc: this column is about to be kept by the pipeline beside the new "
assert min(len(_ON_ITS_WAY), len(_ASIDE)) > 64


_DEFAULT = Policy()


def evolution(
    old: TableSchema,
    new: TableSchema,
    origin: Mapping[str, str],
    present: Mapping[str, str],
    phase: Phase,
    filled: Mapping[str, str] | None = None,
    policy: Policy = _DEFAULT,
) -> list[Step]:
    """The steps that are left, in order.

    `origin` maps the new schema's columns to the old one's, where these existed; `filled` has the text of what all rows
    hold in some of the others. `present` are the table's columns and their types, without those that silver adds.
    Raises DefiniteError for an origin that is none.
    """
    _check(old, new, origin)
    steps: list[Step] = []
    columns = dict(present)
    if phase is not Phase.JOINING:
        steps = _parting(old, new, origin, columns, policy)
        columns = _after(columns, steps)
        if steps and phase is Phase.BEFORE:
            steps.insert(0, Enter(Phase.PARTING))
    joining = _joining(old, new, origin, columns, filled or {}, policy)
    if joining and phase is not Phase.JOINING:
        steps.append(Enter(Phase.JOINING))
    return [*steps, *joining, Finish()]


def _check(old: TableSchema, new: TableSchema, origin: Mapping[str, str]) -> None:
    was, now = {c.name for c in old.columns}, {c.name for c in new.columns}
    if not (origin.keys() <= now and set(origin.values()) <= was and len(set(origin.values())) == len(origin)):
        raise codes.SCHEMA_CHANGE_INCOMPLETE.error(
            f"a change of the schema of {new.name} does not say where its columns come from",
            where=new.name,
            hint="bronze was written by another release; move it away, with its checkpoint, to begin again",
        )


def _parting(
    old: TableSchema, new: TableSchema, origin: Mapping[str, str], present: Mapping[str, str], policy: Policy
) -> list[Step]:
    was = {c.name for c in old.captured}
    taken = {name.lower() for name in was}
    needed = {c.name.lower() for c in new.captured}
    comes_from = {c.name: origin[c.name] for c in new.captured if origin.get(c.name) in was}
    aside = {n: source for n, source in comes_from.items() if policy.beside and _stays_beside(new, n, source, present)}
    moves = {source: name for name, source in comes_from.items() if source != name and name not in aside}
    straight = {name for name in moves.values() if name.lower() not in taken}
    # an old name stays or leaves; a new one that the old schema lacks is there either because its rename is done ...
    belongs = set(comes_from.values()) | {n for s, n in moves.items() if n in straight and s not in present}
    # ... or as a column kept from earlier
    gone = [
        name for name in present if name.lower() in needed and name not in belongs and not name.startswith(_ON_ITS_WAY)
    ]
    names = _Names([*present, *was, *(c.name for c in new.captured)])
    keeps_versions = policy.form.has_versions
    steps: list[Step] = [
        RenameColumn(name, names.free(f"{name}__dropped")) if keeps_versions else DropColumn(name) for name in gone
    ]
    for source, name in moves.items():
        if source in present:
            steps.append(RenameColumn(source, name if name in straight else _ON_ITS_WAY + name))
    return steps + [RenameColumn(source, _ASIDE + name) for name, source in aside.items() if source in present]


def _stays_beside(new: TableSchema, name: str, source: str, present: Mapping[str, str]) -> bool:
    """Whether a column of the old schema gets a type that it cannot be widened to, or has gone aside for that."""
    kind = {c.name: require(c, new.name).silver for c in new.captured}[name]
    held = present.get(source, kind)
    return _ASIDE + name in present or not (held == kind or widens(held, kind))


def _joining(
    old: TableSchema,
    new: TableSchema,
    origin: Mapping[str, str],
    present: Mapping[str, str],
    filled: Mapping[str, str],
    policy: Policy,
) -> list[Step]:
    on_their_way = [name for name in present if name.startswith(_ON_ITS_WAY)]
    steps: list[Step] = [RenameColumn(name, name.removeprefix(_ON_ITS_WAY)) for name in on_their_way]
    held = _after(present, steps)
    if policy.drops:
        steps += [DropColumn(name) for name in held if name not in {c.name for c in new.captured}]
    recast: list[Recast] = []
    over: list[tuple[str, Recast]] = []
    before: str | None = None
    for column in new.captured:
        kind = require(column, new.name).silver
        if column.name not in held:
            steps.append(AddColumn(column.name, kind, before))
        elif held[column.name] != kind and widens(held[column.name], kind):
            steps.append(Widen(column.name, kind))
        elif held[column.name] != kind:
            recast.append(Recast(column.name, held[column.name], kind))
        if (other := _ASIDE + column.name) in held:
            over.append((column.name, Recast(other, held[other], kind)))
        before = column.name
    if over:
        steps += _kept_beside(new, origin, held, over)
    if constants := tuple(
        (c.name, require(c, new.name).silver, filled[c.name]) for c in new.captured if c.name in filled
    ):
        steps.append(Fill(constants))  # done once more after a crash: no row has come since
    if recast:
        again = {one.name for one in recast}
        steps.append(Rewrite(tuple(recast), tuple(name for name in new.key if name not in again)))
    return steps + _of_key(old, new, origin, form=policy.form)


def _kept_beside(
    new: TableSchema, origin: Mapping[str, str], held: Mapping[str, str], over: Sequence[tuple[str, Recast]]
) -> list[Step]:
    """New columns take over what they can, then those that they were get names that are free."""
    steps: list[Step] = [TakeOver(tuple(over))]
    names = _Names([*held, *(c.name for c in new.captured)])
    for name, one in over:
        stem = f"{origin[name]}__{re.sub('[^a-z0-9]+', '_', one.held).strip('_')}"
        steps.append(RenameColumn(one.name, names.free(stem)))
    return steps


class _Names:
    """Those that are taken, in whatever case."""

    def __init__(self, names: Iterable[str]) -> None:
        self._taken = {name.lower() for name in names}

    def free(self, stem: str) -> str:
        """One that is not, and is from now on."""
        name = next(n for n in (stem, *(f"{stem}_{i}" for i in range(2, 1000))) if n.lower() not in self._taken)
        self._taken.add(name.lower())
        return name


def _of_key(old: TableSchema, new: TableSchema, origin: Mapping[str, str], *, form: Form) -> list[Step]:
    """What a change of the key asks for. It does not show in the table's columns, so it is done again after a crash."""
    held, wanted = ([(c.name, require(c, s.name).silver) for c in s.key_columns] for s in (old, new))
    if held == wanted:
        return []
    same = [origin.get(name) for name in new.key] == [*old.key]
    if same and all(a == b or widens(a, b) for (_, a), (_, b) in zip(held, wanted, strict=True)):
        return [Forget()] if form.has_tombstones else []
    return [Unite(), Forget()] if form.has_tombstones else [Unite()]


def _after(present: Mapping[str, str], steps: Sequence[Step]) -> dict[str, str]:
    """The columns after drops and renames."""
    columns = dict(present)
    for step in steps:
        if isinstance(step, DropColumn):
            del columns[step.name]
        elif isinstance(step, RenameColumn):
            columns[step.to] = columns.pop(step.name)
    return columns
