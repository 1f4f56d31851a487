"""`python -m lakehouse_cdc` is the command `lakehouse-cdc`."""

from __future__ import annotations

from lakehouse_cdc.cli.main import main

if __name__ == "__main__":
    main()
