"""Delta files written, committed and read without a job of Spark's, for tables in a folder that this process reaches.

- `change_files`: rows of bronze as files. `data_file`, `statistics`: one Parquet file.
- `commit`: files to a commit. `replacement`: files in the place of others. `file_listing`: the files of a commit.
- `newest_version`: what both commit on top of.
- `rust_table`: a bare table by deltalake, without a JVM. `creation`: the first version of one.
"""
