"""From one schema of a silver table to the next: pure.

- `plan`: the steps, planned from what the table is now, never from what was done before.
- `steps`: the kinds of step, each one commit; and the phases of a change.
"""
