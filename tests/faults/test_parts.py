"""What the fault suite relies on: a proxy that fails as it is asked to, and rows in which a loss would be seen."""

from __future__ import annotations

import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import pytest

from tests.faults.counters import misfits
from tests.faults.kinds import Kind, Missed, Tally, World
from tests.support.relay import Relay, relay

SOURCE = {1: 3, 2: 1}
RIGHT = [("c", 1, 1), ("u", 1, 2), ("u", 1, 3), ("c", 2, 1)]


@contextmanager
def echo() -> Iterator[int]:
    """The port of a server that says what it hears."""

    def answer(client: socket.socket) -> None:
        with suppress(OSError), client:
            while data := client.recv(1 << 16):
                client.sendall(data)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=answer, args=(listening.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=accept, daemon=True).start()
        yield listening.getsockname()[1]


@pytest.fixture
def network() -> Iterator[Relay]:
    with echo() as port, relay(port) as made:
        yield made


def connection(network: Relay) -> socket.socket:
    """One that has been used."""
    one = socket.create_connection(("127.0.0.1", network.port), 10)
    assert said(one, b"hello") == b"hello"
    return one


def said(one: socket.socket, data: bytes) -> bytes:
    """What comes back of data, up to its end or the connection's; raises OSError where that is reset."""
    one.sendall(data)
    got = b""
    while len(got) < len(data) and (more := one.recv(1 << 16)):
        got += more
    return got


def test_a_connection_ends_at_once(network: Relay) -> None:
    with closing(connection(network)) as one:
        assert network.cut() == 1
        with suppress(ConnectionError):
            assert said(one, b"more") == b""
    assert network.cut() == 0


def test_a_server_sees_that_a_client_was_reset() -> None:
    """Also while it says nothing itself, as one does that waits for the first bytes of a handshake."""
    with socket.create_server(("127.0.0.1", 0)) as listening, relay(listening.getsockname()[1]) as network:
        client = socket.create_connection(("127.0.0.1", network.port), 10)
        with closing(listening.accept()[0]) as server:
            server.settimeout(10)
            time.sleep(0.5)  # until the relay waits for what the server will say
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
            assert server.recv(1) == b""


@pytest.mark.parametrize("count", [1, 7, 100_000])
def test_a_connection_ends_after_any_byte(network: Relay, count: int) -> None:
    data = random.Random(count).randbytes(200_000)
    with closing(connection(network)) as one:
        network.cut(after=count)
        network.cut(after=count + 5)  # the first one counts
        threading.Thread(target=lambda: suppressed(lambda: one.sendall(data)), daemon=True).start()
        assert b"".join(received(one)) == data[:count]
    network.new_end_after = 3
    with closing(socket.create_connection(("127.0.0.1", network.port), 10)) as one:
        assert said(one, b"hello") == b"hel"
    assert network.truncated == 2


def received(one: socket.socket) -> Iterator[bytes]:
    with suppress(ConnectionError):
        while data := one.recv(1 << 16):
            yield data


def suppressed(does: object) -> None:
    assert callable(does)
    with suppress(OSError):
        does()


def test_what_is_slow_or_in_pieces_is_whole(network: Relay) -> None:
    data = random.Random(1).randbytes(300)
    with closing(connection(network)) as one:
        network.piece, network.delay = 7, 0.0001
        assert said(one, data) == data


def test_nothing_passes_until_it_flows(network: Relay) -> None:
    with closing(connection(network)) as one:
        network.flows.clear()
        one.settimeout(0.1)
        with pytest.raises(TimeoutError):
            said(one, b"hello")
        network.flows.set()
        one.settimeout(10)
        assert one.recv(5) == b"hello"


def test_new_connections_are_refused(network: Relay) -> None:
    network.refuses = True
    address = ("127.0.0.1", network.port)
    with suppress(ConnectionError), closing(socket.create_connection(address, 10)) as one:  # as it is made, or used
        assert said(one, b"hello") == b""
    assert network.refused == 1


@pytest.mark.parametrize(
    ("held", "wrong"),
    [
        (RIGHT, 0),
        ([("r", 1, 2), ("u", 1, 3), ("r", 2, 1)], 0),
        (RIGHT[:1] + RIGHT[2:], 1),  # one is lost in the middle
        (RIGHT[:2] + RIGHT[3:], 1),  # the last one
        (RIGHT[:3], 1),  # a row
        ([*RIGHT, ("u", 1, 3)], 1),  # one is there twice
        ([*RIGHT, ("u", 1, 4)], 1),  # one was rolled back
        ([*RIGHT, ("c", 3, 1)], 1),  # a row was invented
        ([("r", 1, 3), *RIGHT], 1),  # it was read, and its changes before that are there, too
        ([("r", 1, 3), ("r", 1, 3), ("r", 2, 1)], 1),  # it was read twice
    ],
)
def test_a_loss_is_seen(held: list[tuple[str, int, int]], wrong: int) -> None:
    assert len(misfits(held, SOURCE)) == wrong


def test_what_hit_nothing_is_not_counted() -> None:
    @contextmanager
    def missing(world: World) -> Iterator[None]:
        yield
        raise Missed

    @contextmanager
    def hitting(world: World) -> Iterator[None]:
        yield

    tally, world = Tally(), World(*[None] * 5)  # type: ignore[arg-type]
    world.rng = random.Random(1)
    kinds = [Kind("one", hitting, (0, 0)), Kind("other", missing, (0, 0))]
    assert [tally.inject(one, world, lambda _: None) for one in kinds] == [True, False]
    assert (dict(tally.made), dict(tally.missed)) == ({"one": 1}, {"other": 1})
    assert "other                                             0       1" in tally.table(kinds)
