"""`python -m tests.mysql.census [SERVER ...]` runs the census on servers, and keeps its numbers.

`--page` writes the page of the documentation.
"""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import closing

from lakehouse_cdc.testing import VERSIONS, MySqlServer, Version
from tests.mysql.census.columns import of_server
from tests.mysql.census.page import PAGE, page, read_results, write_results
from tests.mysql.census.run import Census, counts


def main(arguments: list[str]) -> int:
    """Exit code 1 where a proof does not hold."""
    wrong = 0
    chosen: list[Version] = [version for version in VERSIONS if version in arguments]
    for version in chosen:
        with MySqlServer.start(version=version) as server:
            found = []
            with closing(Census(server, "census")) as census:
                for old in of_server(version):
                    print(f"{version}: {old.name}", flush=True)
                    found += list(census.pairs(old, of_server(version)))
        faults = [one for one in found if one.wrong]
        same = Counter((one.old.name, one.new.name) for one in found if one.verdict == "again, but the same")
        print(*(f"read again, though the same: {old} -> {new}" for old, new in same), sep="\n")
        print(*(f"WRONG: {one.old.name} -> {one.new.name} [{one.mode}]: {one.wrong}" for one in faults), sep="\n")
        wrong += len(faults)
        write_results(counts(version, found))
    if "--page" in arguments:
        PAGE.write_text(page(read_results()), encoding="utf-8")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
