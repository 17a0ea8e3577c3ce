"""Three pipes as the streams of one container: both outputs separate and complete, and failures that are reported."""

import fcntl
import os
import sys
import termios
import threading
from collections.abc import Iterator

import pytest

from sandbox.engine import STDERR, STDOUT
from sandbox.engines.oci.pipes import PipeStreams, piped
from sandbox.waiting import readable
from tests.waiting import until


@pytest.fixture
def pair() -> Iterator[tuple[PipeStreams, tuple[int, int, int]]]:
    """The host's ends and the container's ends."""
    wire, theirs = piped()
    yield wire, theirs
    wire.close()


def test_stdout_and_stderr_stay_separate_to_the_end(pair) -> None:
    wire, (stdin, stdout, stderr) = pair
    assert (wire.receive(), readable([wire], 0)) == ([], ())
    os.write(stdout, b"out")
    assert wire.receive() == [(STDOUT, b"out")]
    os.close(stdout)
    assert wire.receive() == []
    os.write(stderr, b"err")
    assert wire.receive() == [(STDERR, b"err")]
    os.close(stderr)
    assert [wire.receive() for _ in range(2)] == [None, None]
    assert readable([wire], 0) == (wire,)  # so that a thread that waits for the end is notified
    os.close(stdin)


def test_unread_and_missing_containers_are_distinguished(pair) -> None:
    wire, theirs = pair
    with pytest.raises(TimeoutError):
        wire.send(bytes(1 << 20), 0.05)
    for pipe in theirs:
        os.close(pipe)
    with pytest.raises(BrokenPipeError):
        wire.send(b"more", 1.0)


def test_closed_it_says_so_and_nothing_more(pair) -> None:
    wire, (stdin, *others) = pair
    wire.close()
    assert (wire.fileno(), wire.receive()) == (-1, None)
    with pytest.raises(OSError):
        wire.send(b"more", 1.0)
    assert os.read(stdin, 1) == b""  # the end of its stdin
    for pipe in (stdin, *others):
        os.close(pipe)


def test_closing_breaks_a_send_in_another_thread(pair) -> None:
    wire, (stdin, *others) = pair
    raised: list[OSError] = []

    def send() -> None:
        try:
            wire.send(bytes(1 << 22), 30.0)
        except OSError as error:
            raised.append(error)

    sender = threading.Thread(target=send)
    sender.start()
    until(lambda: _waiting_bytes(stdin) >= 1 << 16)  # the pipe is full, and the sender waits for room
    wire.close()
    for pipe in (stdin, *others):
        os.close(pipe)
    sender.join(30)
    assert [type(error) for error in raised] == [BrokenPipeError]


def _waiting_bytes(descriptor: int) -> int:
    return int.from_bytes(fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)), sys.byteorder)
