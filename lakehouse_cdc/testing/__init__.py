"""For demos, and for tests of pipelines: a real MySQL server on this machine, and a shop that never stops writing."""

from lakehouse_cdc.testing.server import MySqlServer
from lakehouse_cdc.testing.shop import Shop, ShopWriter
from lakehouse_cdc.testing.versions import VERSIONS, Version

__all__ = ["VERSIONS", "MySqlServer", "Shop", "ShopWriter", "Version"]
