"""A newcomer: somebody with an empty home, without Java and rights of root, at a terminal of 80 columns.

    uv run python -m tests.newcomer --python 3.13

installs the package from a wheel as the README says, in an environment of that Python, calls what the README shows
first, and prints what the terminal showed. `--picture docs/_static/demo.svg` makes the picture of the demo in the
documentation from that. It needs a network, and takes some minutes: PySpark is fetched and built, as it is for anybody.
"""
