"""Names of topics: every table has one, and two tables have two."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.model.table_name import join
from lakehouse_cdc.sinks.kafka.topics import TopicNames, topic_name

_parts = st.text(st.sampled_from("ab._-x0120é日 `"), min_size=1, max_size=8)


@given(st.tuples(_parts, _parts), st.tuples(_parts, _parts))
def test_two_tables_have_two_topics(one: tuple[str, str], other: tuple[str, str]) -> None:
    topics = [topic_name("{database}.{table}", join(*table)) for table in (one, other)]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+", topic) for topic in topics)
    assert (topics[0] == topics[1]) == (one == other)


def test_ordinary_names_stay() -> None:
    assert topic_name("cdc.{database}.{table}", "shop.order_lines-2") == "cdc.shop.order_lines-2"
    assert topic_name("{database}.{table}", "shop.a b") == "shop.a_x0020_b"
    assert topic_name("{database}.{table}", "shop.a_x0020_b") == "shop.a_x005f_x0020_b"


def test_a_shared_topic_is_refused() -> None:
    names = TopicNames("all.{table}", {"a.t", "a.u"})
    assert names.of("a.t") == "all.t"
    with pytest.raises(DefiniteError, match=r"a\.t and b\.t would share the topic all\.t") as caught:
        names.of("b.t")
    assert caught.value.code is codes.KAFKA_TOPIC_UNUSABLE
    with pytest.raises(DefiniteError, match="can be called"):
        topic_name("{database}.{table}", join("d", "é" * 64))
