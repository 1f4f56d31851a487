"""The command line; see the package."""

from __future__ import annotations

import argparse
import sys

from tests.mutations import GUARDS, PARTS
from tests.mutations.page import PAGE, with_tables
from tests.mutations.run import copied, survivors, unmutated


def main() -> int:
    """Run the guards that are named, or all."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description="Take guards out of the core.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="guards (default: all)")
    parser.add_argument("--list", action="store_true", help="print the guards and their rules, and run nothing")
    parser.add_argument("--page", action="store_true", help=f"make the tables of {PAGE.name} again, and run nothing")
    arguments = parser.parse_args()
    if unknown := sorted({*arguments.names} - GUARDS.keys()):
        parser.error(f"no guard is called {', '.join(unknown)}; --list prints all")
    chosen = [GUARDS[name] for name in arguments.names or GUARDS]
    if arguments.page:
        PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8"), PARTS), encoding="utf-8")
        return 0
    if arguments.list:
        for guard in chosen:
            sys.stdout.write(f"{guard.name:32} {guard.rule}\n")
        return 0
    with copied() as copy:
        if not unmutated(chosen, copy):
            sys.stdout.write("the tests do not pass with all guards in place\n")
            return 2
        left = survivors(chosen, copy)
    sys.stdout.write(f"{len(chosen) - len(left)} of {len(chosen)} caught\n")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
