"""Figures about calls, from the registry and nothing else; and what of them is on this host now.

A figure counts what the registry holds: every call that reached a container or was refused on the way there. What was
answered without one (a search, a description, the check of a call) is in the audit log alone.

Invariants:
* reading changes nothing: the database is opened for reading, and an absent one is an empty one;
* whatever names clients invent, there are no more rows than the product has tools and outcomes: the rest is `other`;
* what a container says of its own use is believed up to the limits that it ran under;
* each finished call is counted once, however often and by whomever the figures are read.
"""

import json
import math
import sqlite3
from collections import Counter
from collections.abc import Container, Iterator, Mapping
from contextlib import closing, contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final

from gdal_mcp.access.admission import Load
from gdal_mcp.errors import Code
from gdal_mcp.ledger.schema import MIGRATIONS, RegistryUnavailable, explained
from sandbox.engine import Engine
from sandbox.errors import SandboxError
from sandbox.labels import OWNER
from sandbox.outputs.filetree import listed
from sandbox.owner import Owner
from sandbox.workspace import RESERVED, Workspace, open_folder

OTHER: Final = "other"
OUTCOMES: Final = frozenset({"OK", *map(str, Code)})
POOLS: Final = ("warm", "cold")
# as it is shown, and as it is recorded; to start is to be given a container, whether one waits or has to be made
PHASES: Final[Mapping[str, str]] = {"queue": "queue", "start": "claim", "run": "run", "publish": "publish"}
TOTAL: Final = "total"  # of a call that ran: from its first record to its last
_OLDEST: Final = 2  # the format from which on calls say which files they wrote
_BUSY_SECONDS: Final = 5.0
_ROWS: Final = """SELECT rowid, tool, outcome, started, finished, durations, receipt, limits, files
    FROM calls WHERE rowid > ? ORDER BY rowid"""


@dataclass(slots=True)
class Spread:
    """How amounts are spread: counted by their first three digits, so that it stays small however many there are."""

    counts: Counter[float] = field(default_factory=Counter)
    total: float = 0.0
    highest: float = 0.0

    def add(self, amount: float) -> None:
        self.counts[float(f"{amount:.2e}")] += 1
        self.total += amount
        self.highest = max(self.highest, amount)

    @property
    def number(self) -> int:
        return self.counts.total()

    def up_to(self, bound: float) -> int:
        """How many are not above a bound of at most three digits."""
        return sum(count for amount, count in self.counts.items() if amount <= bound)

    def quantile(self, part: float) -> float | None:
        """The smallest amount that `part` of all are not above; None of none."""
        wanted, seen = math.ceil(part * self.number), 0
        for amount in sorted(self.counts):
            seen += self.counts[amount]
            if seen >= wanted:
                return amount
        return None


@dataclass(slots=True)
class Tally:
    """Calls that ended, added up. `calls` by tool and outcome, `pool` by how their container was found."""

    calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    pool: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, Spread] = field(default_factory=lambda: {name: Spread() for name in (*PHASES, TOTAL)})
    peak_memory: Spread = field(default_factory=Spread)  # bytes
    cpu_seconds: float = 0.0
    output_files: int = 0
    output_bytes: int = 0

    @property
    def number(self) -> int:
        return self.calls.total()

    @property
    def hit_rate(self) -> float | None:
        """The part of the calls with a container that found one waiting; None without such calls."""
        served = self.pool.total()
        return self.pool["warm"] / served if served else None

    def add(self, call: "Ended", known: Container[str]) -> None:
        """Adds a call; a tool that is not `known` is another one."""
        tool = call.tool if call.tool in known else OTHER
        self.calls[tool, call.outcome if call.outcome in OUTCOMES else OTHER] += 1
        for phase, seconds in call.phases():
            self.seconds[phase].add(seconds)
        if (pool := call.receipt.get("pool")) in POOLS:
            self.pool[pool] += 1
        limits = call.limits
        if peak := _amount(call.receipt.get("peak_memory_bytes"), limits.get("memory_bytes", 0)):
            self.peak_memory.add(peak)
        most = (_amount(limits.get("cpus")) or 0) * (_amount(limits.get("wall_seconds")) or 0)
        self.cpu_seconds += _amount(call.receipt.get("cpu_seconds"), most) or 0
        self.output_files += len(call.files)
        self.output_bytes += sum(int(_amount(one.get("bytes")) or 0) for one in call.files)


@dataclass(frozen=True, slots=True)
class Ended:
    """What the registry holds of one call that ended. Times in seconds since the epoch."""

    tool: str
    outcome: str
    started: float
    finished: float
    durations: Mapping[str, Any]
    receipt: Mapping[str, Any]
    limits: Mapping[str, Any]
    files: tuple[Mapping[str, Any], ...]

    def phases(self) -> Iterator[tuple[str, float]]:
        """The seconds of each phase that there was."""
        for phase, recorded in PHASES.items():
            if (seconds := _amount(self.durations.get(recorded))) is not None:
                yield phase, seconds
        if "run" in self.durations:
            yield TOTAL, max(self.finished - self.started, 0.0)


@dataclass(frozen=True, slots=True)
class Now:
    """What there is at this moment; None of what cannot be seen from here."""

    running: int = 0  # calls that have not ended, of all servers of one state folder
    containers: Mapping[tuple[str, str], int] | None = None  # as `containers` counts them
    staging: Mapping[str, int | None] = field(default_factory=dict)  # folders by place
    load: Load | None = None
    slots: Mapping[str, int] | None = None  # of this server's pool, by what they do


@dataclass(slots=True)
class Ledger:
    """The calls of a registry, added up over and over: what has ended for good is read once.

    A row that is finished never changes, so that all before the first unfinished one is settled.
    """

    path: Path
    known: Container[str]
    _settled: Tally = field(default_factory=Tally)
    _after: int = 0

    def total(self) -> tuple[Tally, int]:
        """All calls that ended, and how many have not. Raises RegistryUnavailable."""
        settled, running = True, 0
        total: Tally = self._settled
        for number, call in rows(self.path, self._after):
            if call is None:
                running += 1
                if settled:
                    settled, total = False, deepcopy(self._settled)
            else:
                total.add(call, self.known)
                self._after = number if settled else self._after
        return deepcopy(total), running


def tallies(path: Path, known: Container[str], since: float) -> tuple[Tally, Tally, int]:
    """The calls that ended `since` a time (seconds since the epoch), all of them, and how many have not ended.

    Raises RegistryUnavailable.
    """
    lately, total, running = Tally(), Tally(), 0
    for _, call in rows(path):
        if call is None:
            running += 1
            continue
        total.add(call, known)
        if call.finished >= since:
            lately.add(call, known)
    return lately, total, running


def rows(path: Path, after: int = 0) -> Iterator[tuple[int, Ended | None]]:
    """The calls behind row `after`, with their numbers, as they came; None of one that has not ended."""
    if not path.exists():
        return
    with explained(path), _reading(path) as database:
        for row in database.execute(_ROWS, [after]):
            yield row["rowid"], _ended(row) if row["finished"] is not None else None


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    uri = f"{path.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS)) as database:
        database.row_factory = sqlite3.Row
        version = database.execute("PRAGMA user_version").fetchone()[0]
        if not _OLDEST <= version <= len(MIGRATIONS):
            wrong = "a newer" if version > len(MIGRATIONS) else "an older"
            raise RegistryUnavailable(
                f"the registry {path} was written by {wrong} version of this program (its format is {version}). "
                "Use the version whose server runs on it."
            )
        yield database


def _ended(row: sqlite3.Row) -> Ended:
    durations, receipt, limits = (json.loads(row[name]) for name in ("durations", "receipt", "limits"))
    files = tuple(json.loads(row["files"]))
    return Ended(
        row["tool"], row["outcome"], row["started"], row["finished"], durations, receipt, limits, files
    )


def _amount(value: object, most: object = None) -> float | None:
    """A number that is not below 0 and at most `most`, if that is one; None of anything else."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < math.inf:
        return None
    bound = _amount(most) if most is not None else None
    return value if bound is None else min(value, bound)


def whose(owner: Owner, name: str) -> str:
    """Whether a container's server is `alive`, `dead`, or `foreign`: of another state folder or another host."""
    if not name.isalnum() or not (owner.folder / f"{name}.lock").exists():
        return "foreign"
    return "dead" if owner.is_dead(name) else "alive"


def containers(engine: Engine, owner: Owner) -> Counter[tuple[str, str]]:
    """Our containers now, by `whose` they are and whether they have `stopped` or not: `running`. Raises EngineUnavailable."""
    found: Counter[tuple[str, str]] = Counter()
    for one in engine.leftovers():
        state = engine.state(one.container)
        if state is not None:
            server = whose(owner, one.labels.get(OWNER, ""))
            found[server, "running" if state.running else "stopped"] += 1
    return found


def staging_folders(root: Path) -> int | None:
    """How many staging folders lie in a workspace, or in the state folder; None when they cannot be seen."""
    place = PurePosixPath(RESERVED, "staging")
    if not (root / place).is_dir():
        return 0
    try:
        with open_folder(Workspace(root, writable=True), place) as folder, listed(folder) as names:
            return sum(1 for _ in names)
    except (OSError, SandboxError):
        return None
