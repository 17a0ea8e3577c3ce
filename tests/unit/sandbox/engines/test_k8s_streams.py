"""The WebSocket over real TLS: complete, bounded in time, safe for any bytes; and no data waits where a poll cannot
see it.
"""

import base64
import hashlib
import json
import os
import re
import socket
import ssl
import struct
import threading
import time
from dataclasses import replace

import pytest

from sandbox.engine import STDERR, STDOUT, ClusterOptions
from sandbox.engines.k8s import api
from sandbox.engines.k8s.api import Api
from sandbox.engines.k8s.cluster import Cluster
from sandbox.engines.k8s.engine import KubernetesEngine
from sandbox.engines.k8s.watch import PodWatch
from sandbox.engines.k8s.websocket import StreamRefused, attach
from sandbox.errors import EngineUnavailable
from sandbox.labels import DEADLINE, OWNER, STARTED, Moment, overdue
from sandbox.waiting import readable
from tests.certificates import of_plain_authority, self_signed
from tests.waiting import until

SECONDS = 20
MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # of RFC 6455
LATER = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 10\r\n\r\nnot there."


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return self_signed(tmp_path_factory.mktemp("tls"), "127.0.0.1")[1]


class Server:
    """Answers one connection with `play`, which receives it and ends when it returns."""

    def __init__(self, certificate, play):
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(certificate)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._play = play
        self.error = None
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        address = f"https://127.0.0.1:{self._listening.getsockname()[1]}"
        trust = ssl.create_default_context(cafile=str(certificate))
        self.cluster = Cluster(address, "calls", trust, lambda: "the-token")

    def _serve(self):
        plain, _ = self._listening.accept()
        try:
            with self._tls.wrap_socket(plain, server_side=True) as connection:
                connection.settimeout(SECONDS)
                self._play(connection)
        except OSError:  # the client disconnected, as some tests intend
            return
        except AssertionError as error:
            self.error = error
        finally:
            plain.close()

    def done(self):
        self._thread.join(SECONDS)
        self._listening.close()
        assert self.error is None, self.error


def request(connection):
    data = b""
    while not data.endswith(b"\r\n\r\n"):
        data += connection.recv(1)
    return data.decode()


def upgraded(request_text):
    """The answer that accepts a request for a WebSocket."""
    (key,) = re.findall(r"(?i)^sec-websocket-key: (\S+)", request_text, re.MULTILINE)
    token = base64.b64encode(hashlib.sha1(f"{key}{MAGIC}".encode(), usedforsecurity=False).digest()).decode()
    lines = [
        "HTTP/1.1 101 Switching Protocols",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Accept: {token}",
        "Sec-WebSocket-Protocol: v4.channel.k8s.io",
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def accept(connection):
    request_text = request(connection)
    assert "Bearer the-token" in request_text
    connection.sendall(upgraded(request_text))


def exactly(connection, count):
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            raise OSError("closed")
        data += piece
    return data


def message(connection):
    """One complete frame of a client: kind and body. It must be masked."""
    head, length = exactly(connection, 2)
    assert length & 0x80
    length &= 127
    if length > 125:
        length = int.from_bytes(exactly(connection, 2 if length == 126 else 8), "big")
    mask = exactly(connection, 4)
    body = exactly(connection, length)
    return head & 15, bytes(byte ^ mask[at % 4] for at, byte in enumerate(body)) if any(mask) else body


def frame(body, kind=2, last=True):
    size = len(body)
    if size < 126:
        length = bytes([size])
    else:
        length = b"\x7e" + struct.pack(">H", size) if size < 1 << 16 else b"\x7f" + struct.pack(">Q", size)
    return bytes([(0x80 if last else 0) | kind]) + length + body


def received_data(wire, enough):
    """Data from both streams until `enough` bytes have arrived, or the end."""
    received, end = {STDOUT: b"", STDERR: b""}, time.monotonic() + SECONDS
    while sum(map(len, received.values())) < enough and time.monotonic() < end:
        if not readable([wire], SECONDS):
            break
        pieces = wire.receive()
        if pieces is None:
            break
        for stream, data in pieces:
            received[stream] += data
    return received


def opened(server):
    return attach(server.cluster, "call-0", "worker")


def test_a_refusal_is_told_with_its_status(certificate):
    def play(connection):
        assert "v4.channel.k8s.io" in request(connection)
        connection.sendall(LATER)

    server = Server(certificate, play)
    with pytest.raises(StreamRefused) as refused:
        opened(server)
    assert refused.value.status == 500
    server.done()


def test_streams_are_separate_and_complete_in_any_pieces(certificate):
    """Frames of every header length, one of them fragmented, a ping between them, and the API's own channel, which is
    not output.
    """
    big = os.urandom(3_000_000)

    def play(connection):
        accept(connection)
        connection.sendall(frame(b"\x01") + frame(b"\x02") + frame(b"\x01a") + frame(b"\x02" + b"e" * 300))
        connection.sendall(
            frame(b"\x01" + big[:70_000], last=False) + frame(b"", kind=9) + frame(big[70_000:], kind=0)
        )
        connection.sendall(frame(b"\x03{}") + frame(b"\x01z"))
        assert message(connection)[0] == 10

    server = Server(certificate, play)
    wire = opened(server)
    received = received_data(wire, len(big) + 302)
    assert hashlib.sha256(received[STDOUT]).digest() == hashlib.sha256(b"a" + big + b"z").digest()
    assert received[STDERR] == b"e" * 300
    server.done()
    assert received_data(wire, 1) == {STDOUT: b"", STDERR: b""}  # and ends
    wire.close()


def test_what_came_before_an_end_is_read_whole(certificate):
    """Another thread ends the connection while received data is not read yet."""
    sent, ended = threading.Event(), threading.Event()

    def play(connection):
        accept(connection)
        for _ in range(8):
            connection.sendall(frame(b"\x01" + b"o" * 1000))
        sent.set()
        ended.wait(SECONDS)

    server = Server(certificate, play)
    wire = opened(server)
    assert sent.wait(SECONDS)
    wire.end()
    ended.set()
    assert received_data(wire, 1 << 20)[STDOUT] == b"o" * 8000
    server.done()
    wire.close()


def test_what_is_sent_arrives_whole_while_it_speaks(certificate):
    """Neither side waits for the other: another thread reads the answers while this one sends."""
    sent, back = os.urandom(5_000_000), []

    def play(connection):
        accept(connection)
        left = len(sent)
        while left:
            _, body = message(connection)
            assert body[:1] == b"\0"
            left -= len(body) - 1
            connection.sendall(frame(b"\x01" + body[1:]))

    server = Server(certificate, play)
    wire = opened(server)
    sender = threading.Thread(target=wire.send, args=(sent, SECONDS))
    sender.start()
    back = received_data(wire, len(sent))[STDOUT]
    sender.join()
    assert back == sent
    wire.close()
    server.done()


def test_unread_send_times_out_and_closing_ends_it(certificate):
    hold = threading.Event()

    def play(connection):
        accept(connection)
        hold.wait(SECONDS)

    for end in ("time", "close"):
        server = Server(certificate, play)
        wire = opened(server)
        if end == "close":
            threading.Timer(0.2, wire.close).start()
        with pytest.raises(OSError):  # TimeoutError is a subclass
            wire.send(bytes(1 << 26), 0.5 if end == "time" else SECONDS)
        wire.close()
        hold.set()
        server.done()
        hold.clear()


def test_untrusted_api_server_gets_no_token(certificate, tmp_path):
    def play(_connection):
        raise AssertionError("it got past the handshake")

    server = Server(certificate, play)
    stranger = Cluster(server.cluster.server, "calls", ssl.create_default_context(), lambda: "the-token")
    with pytest.raises(EngineUnavailable):
        attach(stranger, "call-0", "worker")
    server.done()


def test_unused_watch_ends_and_restarts_on_demand():
    """The watch of an engine that was lost while calls ran: nobody closes it."""
    needed = threading.Event()
    nobody = Cluster("https://127.0.0.1:9", "calls", ssl.create_default_context())
    watch = PodWatch(Api(nobody), "app=call", lambda _: None, needed.is_set)

    def runs():
        return any(thread.name == "pods" for thread in threading.enumerate())

    for _ in range(2):
        needed.set()
        watch.wait_for("call", lambda _: False, 1.0)
        assert runs()
        needed.clear()
        until(lambda: not runs())
    watch.close()
    watch.wait_for("call", lambda _: False, 0.01)
    assert not runs()


def test_watch_reports_changes_promptly_and_closes_while_idle(certificate):
    """An event in two chunks, after which the API is silent."""
    hold, events = threading.Event(), []
    pod = {"metadata": {"name": "call-1"}, "spec": {"nodeName": "node"}, "status": {}}
    event = json.dumps({"type": "ADDED", "object": pod}).encode() + b"\n"

    def play(connection):
        assert "labelSelector=app" in request(connection)
        listed = b'{"metadata": {"resourceVersion": "7"}, "items": []}'
        head = b"HTTP/1.1 200 OK\r\nDate: Mon, 23 Nov 2026 15:00:00 GMT\r\n"
        connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(listed) + listed)
        assert "resourceVersion=7" in request(connection)
        connection.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n")
        for part in (event[:30], event[30:]):
            connection.sendall(b"%x\r\n" % len(part) + part + b"\r\n")
        hold.wait(3 * SECONDS)

    server = Server(certificate, play)
    watch = PodWatch(Api(server.cluster), "app=call", events.append, lambda: True)
    watch.wait_for("call-1", lambda known: known is not None, SECONDS)
    assert (watch.known("call-1"), events) == (pod, [pod])
    closing = threading.Thread(target=watch.close, daemon=True)
    closing.start()
    closing.join(SECONDS)
    assert not closing.is_alive()
    hold.set()
    server.done()


def test_gateway_path_is_used_for_streams_too(certificate):
    requests = []

    def play(connection):
        requests.append(request(connection))
        connection.sendall(upgraded(requests[0]))

    server = Server(certificate, play)
    cluster = replace(server.cluster, server=f"{server.cluster.server}/k8s/clusters/c-1")
    attach(cluster, "call-0", "worker").close()
    server.done()
    assert requests[0].split()[1].startswith("/k8s/clusters/c-1/api/v1/namespaces/calls/pods/call-0/attach?")


def listing(*pods):
    def play(connection):
        request(connection)
        body = json.dumps({"metadata": {"resourceVersion": "7"}, "items": pods}).encode()
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    return play


def test_list_without_date_ends_no_running_pod(certificate):
    """A proxy may leave out the date. Then the age of a Pod is unknown, so none is overdue."""
    marks = {OWNER: "another machine's", DEADLINE: "10.0", STARTED: "0.0"}
    metadata = {"name": "call-0", "annotations": marks, "creationTimestamp": "2020-01-01T00:00:00+00:00"}
    server = Server(certificate, listing({"metadata": metadata, "spec": {"nodeName": "node"}, "status": {}}))
    engine = KubernetesEngine(server.cluster)
    (container,) = engine.leftovers()
    with pytest.raises(ValueError):
        overdue(container.labels, Moment.now())
    engine.close()
    server.done()


@pytest.mark.parametrize("bound", ["_MAX_BYTES", "MAX_VALUES"])
def test_oversized_api_answer_is_an_engine_error(certificate, monkeypatch, bound):
    monkeypatch.setattr(api, bound, 1000)
    server = Server(certificate, listing(*({} for _ in range(1000))))
    engine = KubernetesEngine(server.cluster)
    with pytest.raises(EngineUnavailable):
        engine.leftovers()
    engine.close()
    server.done()


def test_authority_without_key_identifiers_needs_operator_consent(tmp_path, monkeypatch):
    """Many clusters have such an authority. Python checks authorities strictly since 3.13."""
    real = ssl.create_default_context

    def strict(**options):
        context = real(**options)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", strict)
    file = tmp_path / "config"
    trusted, signed = of_plain_authority(tmp_path, "127.0.0.1")

    def connected(options, authority=trusted):
        server = Server(signed, accept)
        entry = {"server": server.cluster.server, "certificate-authority": str(authority)}
        both = {"cluster": "c", "user": "u"}
        configuration = {
            "clusters": [{"name": "c", "cluster": entry}],
            "users": [{"name": "u", "user": {"token": "the-token"}}],
            "contexts": [{"name": "one", "context": both}],
            "current-context": "one",
        }
        file.write_text(json.dumps(configuration))
        monkeypatch.setenv("KUBECONFIG", str(file))
        try:
            attach(Cluster.from_address("k8s://", options), "call-0", "worker").close()
        except EngineUnavailable:
            return False
        finally:
            server.done()
        return True

    stranger, _ = self_signed(tmp_path, "127.0.0.1")
    lenient = ClusterOptions(lenient_ca=True)
    assert [connected(ClusterOptions()), connected(lenient), connected(lenient, stranger)] == [
        False, True, False,
    ]  # fmt: skip
