"""Which words of the grammar cannot be a name without quotes: all those that a server reserves.

Sources: MySQL Reference Manual, "Keywords and Reserved Words"; MariaDB Server Documentation, "Reserved Words". Only the
words that the grammar has matter here; a test asks each server for every one of them.
"""

from __future__ import annotations

from functools import cache

from lakehouse_cdc.schema.grammar.notation import GROUPS, SERVERS

_EVERYWHERE = """
ADD ALTER ANALYZE AND AS ASC BEFORE BETWEEN BIGINT BINARY BLOB BOTH BY CALL CASCADE CASE CHANGE CHAR CHARACTER CHECK
COLLATE COLUMN CONSTRAINT CONVERT CREATE CROSS CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP DATABASE DATABASES DEC
DECIMAL DEFAULT DELETE DESC DISTINCT DIV DOUBLE DROP ELSE EXISTS FLOAT FLOAT4 FLOAT8 FOR FORCE FOREIGN FROM FULLTEXT
GRANT GROUP HAVING IF IGNORE IN INDEX INNER INSERT INT INT1 INT2 INT3 INT4 INT8 INTEGER INTO IS JOIN KEY KEYS LEFT
LIKE LOAD LOCALTIME LOCALTIMESTAMP LONG LONGBLOB LONGTEXT MATCH MAXVALUE MEDIUMBLOB MEDIUMINT MEDIUMTEXT MIDDLEINT MOD
NATURAL NOT NO_WRITE_TO_BINLOG NULL NUMERIC ON OPTIMIZE OR ORDER OUTER PARTITION PRECISION PRIMARY RANGE READ REAL
REFERENCES RELEASE RENAME REPLACE RESTRICT REVOKE RIGHT SCHEMA SCHEMAS SELECT SET SMALLINT SPATIAL SQL TABLE TERMINATED
THEN TINYBLOB TINYINT TINYTEXT TO TRIGGER TRUE FALSE UNION UNIQUE UNSIGNED UPDATE USE USING VALUES VARBINARY VARCHAR
VARCHARACTER VARYING WHEN WHERE WITH WRITE XOR ZEROFILL
"""
_SOME = {
    "mysql": "GENERATED STORED VIRTUAL",
    "mysql8": "FUNCTION SYSTEM",
    "mariadb": "",
}


@cache
def reserved(servers: frozenset[str]) -> frozenset[str]:
    """The words that all of these servers reserve."""
    words = [set(_EVERYWHERE.split()) for _ in SERVERS]
    for group, some in _SOME.items():
        for server in GROUPS[group]:
            words[SERVERS.index(server)] |= set(some.split())
    return frozenset(set.intersection(*(words[SERVERS.index(server)] for server in sorted(servers))))
