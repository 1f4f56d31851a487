"""The small files that a pipeline keeps beside its tables: checkpoints, schemas, requests, notes.

- `port`: what is asked of the place that they are in, and which of them needs what.
- `folder`: a folder. `bucket`: a prefix of a bucket in S3. `choice`: which of the two a location is.
"""
