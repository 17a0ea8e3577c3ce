"""The remote data of one call: answers for its container, the first failure, and the record of what was read."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

import structlog

from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.remote.address import Address, plain_name
from gdal_mcp.remote.budgets import CallBudget, Meter, Missing, ReadFailed
from gdal_mcp.remote.copies import BLOCK
from gdal_mcp.remote.files import FetchDeps, RemoteFile
from gdal_mcp.remote.listing import listed
from gdal_mcp.remote.record import SourceRead, joined
from gdal_mcp.remote.trees import KeyIndex, index_of_names, index_of_zarr
from sandbox.outcome import Exited, HostReadFailed, Outcome
from sandbox.questions import MAX_READ_BYTES, Answer, Kind, Op, Question, Status, pack_look

_log = structlog.get_logger()

AT_ONCE: Final = 8  # concurrent requests of one call
_MOMENT: Final = 0.5  # seconds; longer than a silent read needs to notice that its call has ended
_MAX_KEYS: Final = 200_000  # keys of a tree, if its bucket lists them
_PARSING: Final = threading.Lock()  # one parse at a time on the whole server, which limits the peak of memory
_MAX_METADATA: Final = 16 << 20  # bytes; the metadata of a thousand arrays take a few megabytes
_FIRST_READ: Final = 16 * BLOCK  # bytes; the first read of a file in a tree, because most chunks are smaller
# bytes; the first read of a FlatGeobuf, for the upper levels of its index, where every search begins
_LONG_HEAD: Final = 4 * BLOCK
_METADATA: Final = (".zmetadata", "zarr.json")


class RemoteFiles:
    """The files of one address: a file with its sidecar files, or a tree. Creating it checks that they exist."""

    def __init__(self, address: Address, requested: Address, deps: FetchDeps, meter: Meter) -> None:
        """`requested` is the address as the caller wrote it. Raises ReadFailed."""
        self._address, self._named, self._deps, self._meter = address, requested, deps, meter
        self._beside = (
            {} if address.is_tree else {plain_name(sidecar): sidecar for sidecar in address.sidecars}
        )
        self._files: dict[str, RemoteFile] = {}
        self._lock = threading.Lock()
        try:
            self._keys = self._key_index()
            # failures are ignored here, because needed files are requested again
            for name in self._keys.first()[:AT_ONCE]:
                deps.work.submit(self._file(name).look)
        except (
            BaseException
        ):  # re-raised, for example if the call has ended: nothing else closes a partly created source
            self.close()
            raise

    def look(self, name: str) -> bytes | None:
        """The answer of `sandbox.questions.pack_look` for a name; None if it does not exist.

        Raises ReadFailed if the file must exist and cannot be read.
        """
        key = self._key(name)
        state = self._keys.presence(key)
        if state == "folder":
            return pack_look(Kind.DIRECTORY, 0, 0)
        if state == "none":
            return None
        file = self._file(key)
        try:
            version = file.look()
        except Missing as error:
            if state == "maybe":
                return None
            raise ReadFailed(f"{error}, though it was there or was listed") from error
        begins = file.read([(0, min(BLOCK, version.length))])
        return pack_look(Kind.FILE, version.length, version.seconds, begins)

    def read(self, name: str, ranges: Sequence[tuple[int, int]]) -> bytes:
        key = self._key(name)
        if self._keys.presence(key) not in ("listed", "maybe"):
            raise Missing(f"{self._address.host}: there is no such file")
        return self._file(key).read(ranges)

    def list_dir(self, name: str) -> Sequence[str] | None:
        """The names in a folder, without chunks; None if the folder does not exist."""
        if name:
            key = self._key(name)
            return self._keys.list_dir(key) if self._keys.presence(key) == "folder" else None

        def is_there(sidecar: str) -> bool:
            try:
                self._file(sidecar).look()
            except Missing:
                return False
            return True

        beside = tuple(self._beside)
        there = self._deps.work.map(is_there, beside)
        return (*(sidecar for sidecar, exists in zip(beside, there, strict=True) if exists), self._named.name)

    def record(self) -> SourceRead:
        with self._lock:
            files = dict(self._files)
        rows = {name: row for name, file in sorted(files.items()) if (row := file.record()) is not None}
        if len(rows) == 1 and not self._address.is_tree:
            [row] = rows.values()
            return replace(row, address=str(self._named))
        return joined(str(self._named), rows, self._meter.requests, self._meter.read)

    def close(self) -> None:
        with self._lock:
            for file in self._files.values():
                file.close()

    def _key(self, name: str) -> str:
        """The key for a name. In a tree, the name's first part is the tree's own name and is removed."""
        if not self._address.is_tree or not name:
            return name
        top, _, key = name.partition("/")
        return key if top == self._named.name else "\0"  # a key that no tree contains

    def _key_index(self) -> KeyIndex:
        if not self._address.is_tree:
            self._file(self._named.name).look()
            return KeyIndex((self._named.name,), maybe=frozenset(self._beside))
        for name in _METADATA:
            file = self._file(name)
            try:
                length = file.look().length
            except Missing:
                continue
            if length > _MAX_METADATA:
                raise ReadFailed(
                    f"{self._address.host}: a tree's metadata has at most {_MAX_METADATA >> 20} MiB"
                )
            text = file.read([(0, length)])
            with _PARSING:
                keys = index_of_zarr(name, text)
            if keys is not None:
                return keys
        if self._address.port:
            raise ReadFailed(
                f"{self._address.host}: the tree has no consolidated metadata, so its files are not known; a bucket's would be"
            )
        rows = listed(self._address, self._deps.checks, self._meter, deep=True, most=_MAX_KEYS)
        return index_of_names(row.name for row in rows)

    def _file(self, key: str) -> RemoteFile:
        with self._lock:
            if key not in self._files:
                address, first = self._address, BLOCK
                if address.is_tree:
                    address, first = address.beside(key), _FIRST_READ
                elif key in self._beside:
                    address = address.beside(self._beside[key])
                elif address.path.lower().endswith(".fgb"):
                    first = _LONG_HEAD
                self._files[key] = RemoteFile(address, self._meter, self._deps, first)
            return self._files[key]


@dataclass(slots=True, eq=False)
class RemoteReading:
    """Answers the requests of one container. `close` ends pending requests and must always be called."""

    # by the source's number in the container's paths, such as 1 in /vsihost/1/x.tif
    sources: Mapping[str, "Future[RemoteFiles]"]
    call: CallBudget
    work: tuple[ThreadPoolExecutor, ...]
    closing: Callable[[], None]  # called once none of its threads is running
    failure: ToolError | None = None  # the first failed read, which makes the call fail
    _closed: bool = False

    def answer(self, question: Question) -> Answer:
        """Answers one request. Can be called from several threads at once, and never raises.

        A name that does not belong to this call is answered without a network request.
        """
        try:
            if self.failure is None:
                with explained():
                    body = self._body(question)
                return Answer(Status.ENOENT) if body is None else Answer(Status.OK, body)
        except ToolError as error:
            self._fail(error)
        except Exception:  # noqa: BLE001 - the outermost handler of a thread of the session: an internal error fails the read
            _log.exception("read_failed")
            self._fail(_unread("an internal error of the server; its log has details"))
        return Answer(Status.EIO)

    def require_read(self, outcome: Outcome) -> None:
        """Raises ToolError if a read failed, even if the job continued without it.

        After a successful job, this includes sources that the job never read.
        """
        if self.failure is not None and isinstance(outcome, Exited | HostReadFailed):
            raise self.failure
        if outcome == Exited(0):
            self.require_found()

    def require_found(self) -> None:
        """Waits until every address was looked up. Raises ToolError: NOT_FOUND, NETWORK_BLOCKED, REMOTE_ERROR."""
        for future in self.sources.values():
            with explained():
                future.result()

    def record(self) -> tuple[SourceRead, ...]:
        """What was read of each address, without secrets."""
        return tuple(source.record() for source in self._opened_sources())

    def close(self) -> None:
        """Ends all requests and waits half a second for them. A name server or a connection may take longer to end."""
        if not self._closed:
            self._closed = True
            self.call.ended.set()
            ending = threading.Thread(target=self._end, name="remote-end")
            ending.start()
            ending.join(_MOMENT)

    def _end(self) -> None:
        for pool in self.work:
            pool.shutdown(cancel_futures=True)
        for source in self._opened_sources():
            source.close()
        self.closing()

    def _opened_sources(self) -> Iterator[RemoteFiles]:
        for future in self.sources.values():
            if future.done() and not future.cancelled() and future.exception() is None:
                yield future.result()

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
                    raise ReadFailed("a request for more bytes than the limit")
                return source.read(name, question.ranges)
            case Op.LIST:
                names = source.list_dir(name)
                return None if names is None else "\n".join(names).encode()


@contextmanager
def explained() -> Iterator[None]:
    """Raises a failed read as the ToolError of its call."""
    try:
        yield
    except Missing as error:
        advice = "Check the address; remote_list shows what a bucket holds."
        raise ToolError(Code.NOT_FOUND, Stage.RESOLVE, f"{error}.", advice) from error
    except (ReadFailed, CancelledError) as error:
        raise _unread(str(error) or "the call ended") from error


def _unread(why: str) -> ToolError:
    what = f"remote data could not be read: {why}."
    advice = "Nothing was published. Check the address, or try again later if the server that holds the data was at fault."
    return ToolError(Code.REMOTE_ERROR, Stage.RUN, what, advice)
