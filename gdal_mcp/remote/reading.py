"""What one call reads: the answers to its container's questions, the first failure, and the record of what was read."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final

import structlog

from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.remote.address import Address, plain_name
from gdal_mcp.remote.copies import BLOCK
from gdal_mcp.remote.files import Means, RemoteFile
from gdal_mcp.remote.limits import Allowance, Meter, Missing, ReadFailed
from gdal_mcp.remote.listing import listed
from gdal_mcp.remote.record import SourceRead
from gdal_mcp.remote.trees import Keys, of_zarr
from sandbox.outcome import Exited, Outcome, Unanswered
from sandbox.questions import MAX_READ_BYTES, Answer, Kind, Op, Question, Status, looked

_log = structlog.get_logger()

AT_ONCE: Final = 8  # requests of one call
_MOMENT: Final = 0.5  # seconds: longer than a silent read takes to notice that its call has ended
_MAX_KEYS: Final = 200_000  # of a tree that its bucket lists
_MAX_METADATA: Final = 32 << 20  # bytes
_WHOLE_CHUNK: Final = 16 * BLOCK  # what is read of a file of a tree to begin with: most chunks are smaller
_LONG_HEAD: Final = 4 * BLOCK  # of a FlatGeobuf: the upper levels of its index, which a search begins with
_METADATA: Final = (".zmetadata", "zarr.json")


class _OneFile:
    """A file, and those beside it that belong to it. Made once the file is known to be there."""

    def __init__(self, address: Address, asked: Address, call: Allowance, means: Means) -> None:
        """`asked` is as the caller wrote it. Raises ReadFailed."""
        self._asked = asked
        self._means = means
        self._main = asked.name
        self._meter = meter = Meter(call)
        beside = {plain_name(name): address.beside(name) for name in address.sidecars}
        self._files = {name: RemoteFile(one, meter, means) for name, one in beside.items()}
        first = _LONG_HEAD if address.path.lower().endswith(".fgb") else BLOCK
        self._files[self._main] = RemoteFile(address, meter, means, first)
        self._files[self._main].look()

    def look(self, name: str) -> bytes | None:
        if not name:
            return looked(Kind.DIRECTORY, 0, 0)
        return _look_at(self._files[name], optional=name != self._main) if name in self._files else None

    def read(self, name: str, ranges: Sequence[tuple[int, int]]) -> bytes:
        return self._files[name].read(ranges)

    def below(self, name: str) -> Sequence[str] | None:
        if name:
            return None
        there = self._means.work.map(lambda one: _is_there(one[1]), self._files.items())
        return [one for one, found in zip(self._files, there, strict=True) if found]

    def record(self) -> SourceRead | None:
        rows = {name: row for name, one in self._files.items() if (row := one.record()) is not None}
        if self._main not in rows:
            return None
        if len(rows) == 1:
            return replace(rows[self._main], address=str(self._asked))
        return _joined(self._asked, rows, self._meter)

    def close(self) -> None:
        for one in self._files.values():
            one.close()


class _Tree:
    """All files below a folder that its metadata, or its bucket, tells of."""

    def __init__(self, address: Address, asked: Address, call: Allowance, means: Means) -> None:
        """Raises ReadFailed."""
        self._address, self._asked, self._means = address, asked, means
        self._meter = Meter(call)
        self._files: dict[str, RemoteFile] = {}
        self._lock = threading.Lock()
        try:
            self._keys = self._found()
        except ReadFailed:
            self.close()
            raise

    def look(self, name: str) -> bytes | None:
        key = self._key(name)
        held = "none" if key is None else self._keys.held(key)
        if not name or held == "folder":
            return looked(Kind.DIRECTORY, 0, 0)
        return _look_at(self._file(key), optional=held == "chunk") if key and held != "none" else None

    def read(self, name: str, ranges: Sequence[tuple[int, int]]) -> bytes:
        key = self._key(name)
        if not key or self._keys.held(key) not in ("listed", "chunk"):
            raise Missing(f"{self._address.host}: there is no such file in the tree")
        return self._file(key).read(ranges)

    def below(self, name: str) -> Sequence[str] | None:
        key = self._key(name)
        if key is None:
            return None if name else (self._asked.name,)
        return self._keys.below(key) if self._keys.held(key) == "folder" else None

    def record(self) -> SourceRead | None:
        with self._lock:
            files = dict(self._files)
        rows = {name: row for name, one in sorted(files.items()) if (row := one.record()) is not None}
        return _joined(self._asked, rows, self._meter)

    def close(self) -> None:
        with self._lock:
            for one in self._files.values():
                one.close()

    def _key(self, name: str) -> str | None:
        """The key below the tree, "" for the tree itself; None for a name that is not in it."""
        top, _, key = name.partition("/")
        return key if top == self._asked.name else None

    def _found(self) -> Keys:
        for name in _METADATA:
            file = self._file(name)
            try:
                length = file.look().length
            except Missing:
                continue
            if length > _MAX_METADATA:
                raise ReadFailed(
                    f"{self._address.host}: the metadata of the tree is longer than {_MAX_METADATA} bytes"
                )
            keys = of_zarr(name, file.read([(0, length)]))
            if keys is not None:
                return keys
        if self._address.port:
            raise ReadFailed(
                f"{self._address.host}: the tree has no consolidated metadata, so its files are not known; a bucket's would be"
            )
        rows = listed(self._address, self._means.checks, self._meter, deep=True, most=_MAX_KEYS)
        return Keys(frozenset(row.name for row in rows))

    def _file(self, name: str) -> RemoteFile:
        with self._lock:
            if name not in self._files:
                self._files[name] = RemoteFile(
                    self._address.beside(name), self._meter, self._means, _WHOLE_CHUNK
                )
            return self._files[name]


Source = _OneFile | _Tree


@dataclass(slots=True, eq=False)
class Reading:
    """Answers the questions of one container. `close` ends what is under way; it is to be called, always."""

    names: tuple[str, ...]  # as the container sees the addresses, in their order: /vsihost/1/x.tif
    sources: Mapping[str, "Future[Source]"]  # by the number in their names
    call: Allowance
    work: tuple[ThreadPoolExecutor, ...]
    closing: Callable[[], None]  # called when nothing of it runs any more
    failure: ToolError | None = None  # of the first read that failed; the call has failed with it
    _closed: bool = False

    def answer(self, question: Question) -> Answer:
        """From any thread, several at once; never raises. A name that is not of this call is answered without a request."""
        try:
            if self.failure is None:
                with explained():
                    body = self._body(question)
                return Answer(Status.ENOENT) if body is None else Answer(Status.OK, body)
        except ToolError as error:
            self._fail(error)
        except Exception:  # noqa: BLE001 - the outermost handler of a thread of the session: a fault of ours fails the read
            _log.exception("read_failed")
            self._fail(_unread("the server met a fault of its own; its log says more"))
        return Answer(Status.EIO)

    def require_read(self, outcome: Outcome) -> None:
        """Raises ToolError where a read failed, however the job took it; of one that was done, also for what it never asked for."""
        if self.failure is not None and isinstance(outcome, Exited | Unanswered):
            raise self.failure
        if outcome == Exited(0):
            self.require_found()

    def require_found(self) -> None:
        """Waits until every address was found, or is known not to be there. Raises ToolError: NOT_FOUND, NETWORK_BLOCKED, REMOTE_ERROR."""
        for one in self.sources.values():
            with explained():
                one.result()

    def record(self) -> tuple[SourceRead, ...]:
        """What was read of each address, without secrets."""
        rows = (one.record() for one in self._found())
        return tuple(row for row in rows if row is not None)

    def close(self) -> None:
        """Waits a moment for what is under way; a name server or a connection may take longer to give up."""
        if not self._closed:
            self._closed = True
            self.call.ended.set()
            ending = threading.Thread(target=self._end, name="remote-end")
            ending.start()
            ending.join(_MOMENT)

    def _end(self) -> None:
        for one in self.work:
            one.shutdown(cancel_futures=True)
        for source in self._found():
            source.close()
        self.closing()

    def _found(self) -> Iterator[Source]:
        for one in self.sources.values():
            if one.done() and not one.cancelled() and one.exception() is None:
                yield one.result()

    def _fail(self, error: ToolError) -> None:
        if not self._closed:
            self.failure = self.failure or error

    def _body(self, question: Question) -> bytes | None:
        number, _, name = question.name.partition("/")
        finding = self.sources.get(number)
        if finding is None or ".." in name.split("/"):
            return None
        source = finding.result()
        match question.op:
            case Op.LOOK:
                return source.look(name)
            case Op.READ:
                if sum(length for _, length in question.ranges) > MAX_READ_BYTES:
                    raise ReadFailed("a question for more bytes than one may ask for")
                return source.read(name, question.ranges)
            case Op.LIST:
                names = source.below(name)
                return None if names is None else "\n".join(names).encode()


def opened(address: Address, asked: Address, call: Allowance, means: Means) -> Source:
    """What an address stands for, once it is known to be there. Raises ReadFailed."""
    return (_Tree if address.is_tree else _OneFile)(address, asked, call, means)


@contextmanager
def explained() -> Iterator[None]:
    """A failed read as the error of its call."""
    try:
        yield
    except Missing as error:
        advice = "Check the address; remote_list shows what a bucket holds."
        raise ToolError(Code.NOT_FOUND, Stage.RESOLVE, f"{error}.", advice) from error
    except (ReadFailed, CancelledError) as error:
        raise _unread(str(error) or "the call ended") from error


def _unread(why: str) -> ToolError:
    return ToolError(
        Code.REMOTE_ERROR,
        Stage.RUN,
        f"remote data could not be read: {why}.",
        "Nothing was published. Check the address, or try again later if the server that holds the data was at fault.",
    )


def _look_at(file: RemoteFile, *, optional: bool) -> bytes | None:
    """Raises ReadFailed, also where a file is missing that has to be there."""
    try:
        version = file.look()
    except Missing as error:
        if optional:
            return None
        raise ReadFailed(f"{error}, though it was there or was listed") from error
    return looked(Kind.FILE, version.length, version.seconds, file.first())


def _is_there(file: RemoteFile) -> bool:
    try:
        file.look()
    except Missing:
        return False
    return True


def _joined(asked: Address, rows: Mapping[str, SourceRead], meter: Meter) -> SourceRead:
    """One row for several files."""
    total = sha256()
    read = {name: row for name, row in rows.items() if row.ranges}
    for name, row in sorted(read.items()):
        total.update(f"{name} {row.etag} {row.sha256}\n".encode())
    weakest = ("none", "last-modified", "weak etag", "etag")
    return SourceRead(
        address=str(asked),
        final=str(asked),
        length=sum(row.length for row in rows.values()),
        files=len(read),
        validator=min((row.validator for row in read.values()), key=weakest.index, default="none"),
        sha256=total.hexdigest() if read else "",
        requests=meter.requests,
        bytes=meter.read,
        cached_bytes=sum(row.cached_bytes for row in rows.values()),
    )
