"""Which tables of which servers are captured, and how: every engine by every key, and tables of a kind of their own.

`python -m tests.census > docs/reference/captured-tables.md` asks the servers again and writes the page; `test_census`
holds that each server's column is what the page says, and that what is captured is exact.

- `tables`: the tables, as the server is asked to make them.
- `outcome`: what a stream made of each of them.
- `page`: the page, and its columns read back.
"""
