"""A batch applied to many silver tables by one job of Spark's, in which tasks call deltalake; no plan for any table.

Purpose: Spark takes seconds for each MERGE, however little it changes, and makes them side by side only as far as one
driver carries. Here the driver says which files of bronze hold a table's part of the batch, and a task does the rest.

Invariant: a table may be changed by either engine between any two commits, and is the same as if one had made all.

Why it holds:

- **One contract.** Both do the same steps from the same files: the batch's tombstones, once; then what the rows before
  have overtaken is left out; then one commit, of which every clause compares seqs. The steps are commits of the same
  application and batch (`lake.commits.application`), which are part of the table. So each knows what the other did.
- **Replays are exact.** A batch that is in is skipped by whichever engine meets it. Should it be met as one that Delta
  does not know (another checkpoint, or of type 1 a MERGE that changed nothing and wrote no version), the seqs decide: a
  row is written where its seq is greater, a row that is not there is inserted unless a tombstone, a barrier or the
  horizon is newer. So the same rows come out.
- **A crash between tombstones and rows** leaves deletes in the tombstones whose rows are still there. The batch comes
  again. Its tombstones are skipped, being tied to it; they overtake only what is older than they are, and no delete.
  So its rows come as they would have come.
- **Nothing is half done.** A task gives up before it commits at anything that is not the plain case, and says why; so
  it does where deltalake fails, at any point. Spark then does the part, of which the steps that are in are skipped.
  What keeps memory of a table between batches takes the tombstones' guards from the answer, or looks again.
- **Nothing waits for ever.** A task that takes too long ends its process, the job fails, and all of it is Spark's.
- **Tasks that run twice**, or that nobody waits for any more, commit what is not committed yet, or are refused (see
  `lake.direct.rust_table`).
- **Order.** Forms that depend on the order of changes take here only a batch that is newer than all that the table
  holds, as it is for Spark's writers; with any other, Spark makes the table again. So that an older one is known as
  such, each batch leaves a commit, also where it changes nothing. What is made of a key's changes is the model's fold.
- **A new table** is made by the driver, whole or not at all (`lake.direct.creation`), tombstones first. Nothing is
  applied to it then, which its commits say. A task may fill it with the batch where bronze has nothing of it before
  that; also when a crash has left it so, and the batch comes again.
- **A change of the schema** cuts a table's part into segments, each of which is a part of its own: tasks do the first
  of all tables in one job, the driver takes each table through its change, tasks do the second, and so on. A change is
  one commit here (`apply.evolution_at_once`), after which the table is of the new schema and holds all that is older;
  so a batch that comes again passes over what is in, as Spark's does, and either may continue at any segment. A change
  that takes Spark, and all after it in the batch, is Spark's. What needs a feature of Delta's that deltalake lacks
  first hands the table over, in one commit (see `definition.engine`). From then on a task gives up: it looks for that
  in the very version on top of which it would commit.

- `work`: what a task is given, does, and answers. `changes`: the rows of bronze's files. `job`: the tasks' job.
- `current`, `folded`, `counted`, `appended`: what is done by form.

Guards: tests/silver/test_table_tasks.py, tests/silver/test_engine.py; tests/silver/test_fold.py runs over both engines.
"""
