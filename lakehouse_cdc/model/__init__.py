"""The pure core: positions, GTID sets, offsets, the changelog and its fold, the as-of rule. No IO, no clients."""
