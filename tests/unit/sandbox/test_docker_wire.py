"""The engine's attach stream, split into the container's stdout and stderr, over a real socket pair."""

import os
import socket
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.engine import STDERR, STDOUT
from sandbox.engines.docker import DockerStreams
from sandbox.errors import EngineUnavailable
from sandbox.waiting import readable
from tests.engines.kit import unanswered


class Pair:
    """A wire and the engine's end of its connection."""

    def __init__(self):
        self.engine, ours = socket.socketpair()
        self.wire = DockerStreams(ours.makefile("rb", buffering=0))
        ours.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.wire.close()
        self.engine.close()

    def drain(self):
        """All data until the end, as (stream, bytes)."""
        received = {STDOUT: b"", STDERR: b""}
        while True:
            readable([self.wire], 10)
            if (pieces := self.wire.receive()) is None:
                return received
            for stream, data in pieces:
                received[stream] += data


@pytest.fixture
def pair():
    with Pair() as new_pair:
        yield new_pair


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([STDOUT, STDERR]), st.binary(max_size=300)), max_size=10),
    st.lists(st.integers(1, 50), max_size=60),
)
def test_each_stream_stays_complete_and_ordered(frames, sizes):
    data = b"".join(struct.pack(">BxxxI", stream, len(text)) + text for stream, text in frames)
    with Pair() as pair:
        received = {STDOUT: b"", STDERR: b""}
        for size in [*sizes, len(data)]:
            piece, data = data[:size], data[size:]
            pair.engine.sendall(piece)
            for stream, text in pair.wire.receive() or ():
                received[stream] += text
        assert received == {
            kind: b"".join(text for stream, text in frames if stream == kind) for kind in received
        }


def test_nothing_yet_is_not_the_end(pair):
    assert pair.wire.receive() == []
    pair.engine.close()
    assert pair.wire.receive() is None


def test_long_frame_is_forwarded_as_it_arrives(pair):
    """At most one read is buffered, so that a container cannot fill the host's memory."""
    pair.engine.sendall(struct.pack(">BxxxI", STDOUT, 1 << 31))
    total = 0
    for _ in range(200):
        pair.engine.sendall(b"x" * 65536)
        total += sum(len(data) for _, data in pair.wire.receive())
    assert total == 200 * 65536
    assert len(pair.wire._buffer) <= 8


def test_a_reset_connection_is_the_end(pair):
    pair.wire.send(b"never read", 5)
    pair.engine.close()  # with unread data, so that the other side is reset
    assert pair.wire.receive() is None


def test_nothing_is_sent_once_the_time_is_over(pair):
    with pytest.raises(TimeoutError):
        pair.wire.send(b"x", 0)


def test_container_that_does_not_read_is_given_up(pair):
    with pytest.raises(TimeoutError):
        pair.wire.send(bytes(64 << 20), 0.05)


def test_missing_container_is_an_os_error(pair):
    pair.engine.close()
    with pytest.raises(OSError):
        pair.wire.send(bytes(1 << 20), 5)


def test_closing_ends_container_stdin_and_leaks_no_descriptor():
    before = os.listdir("/proc/self/fd")
    with Pair() as pair:
        pair.wire.close()
        assert pair.engine.recv(1) == b""
    assert os.listdir("/proc/self/fd") == before


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_unaccepted_connection_is_closed_despite_its_stored_error():
    engine, before = unanswered(), os.listdir("/proc/self/fd")
    with pytest.raises(EngineUnavailable) as caught:
        engine.container("any").state()
    assert os.listdir("/proc/self/fd") == before
    assert caught.value.__cause__ is not None
