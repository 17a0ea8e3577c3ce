"""Approvals under contention: a hundred questions, decided by many threads of two processes, each decided once."""

import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE, Popen

from bench.report import Goal, Section
from gdal_mcp.approval.model import Asked, Decision
from gdal_mcp.approval.store import Approvals

QUESTIONS, THREADS = 100, 8

_DECIDER = """if True:
    import sys
    from bench.approvals import decide_all
    store, rows = sys.argv[1], sys.argv[3:]
    sys.stdin.readline()
    print(*decide_all(store, rows, sys.argv[2]))
"""


@dataclass(frozen=True, slots=True)
class Contended:
    """What became of it. Seconds."""

    seconds: float
    deciders: int
    once: int  # questions whose first decision is the one that everybody was told of, and that let one call through


def decide_all(path: str, rows: list[str], by: str) -> list[str]:
    """Every question by every thread; `ID=WHO` as each was told."""
    approvals = Approvals(Path(path))
    try:

        def one(number: int) -> str:
            row = rows[number % len(rows)]
            who = f"{by}-{number // len(rows)}"
            after = approvals.decide(row, Decision(approved=True, by=who, how="bench", way="console"))
            return f"{row}={after.decided_by if after else ''}"

        with ThreadPoolExecutor(THREADS) as pool:
            return list(pool.map(one, range(THREADS * len(rows))))
    finally:
        approvals.close()


def _measured() -> Contended:
    """Two processes of eight threads, all of which decide every question."""
    with tempfile.TemporaryDirectory(prefix="gdal-mcp-bench-") as folder:
        path = Path(folder) / "registry.sqlite"
        approvals = Approvals(path)
        asked = [
            approvals.request(Asked(plan_digest=f"d{number}", principal="bench", tool="t", text="?"), 600)
            for number in range(QUESTIONS)
        ]
        ids = [one.id for one in asked]
        command = [sys.executable, "-c", _DECIDER, str(path)]
        with (
            Popen([*command, "one", *ids], stdin=PIPE, stdout=PIPE, text=True) as first,
            Popen([*command, "two", *ids], stdin=PIPE, stdout=PIPE, text=True) as second,
        ):
            begun = time.monotonic()
            told: dict[str, set[str]] = {}
            for process in (first, second):
                assert process.stdin is not None
                process.stdin.write("go\n")
                process.stdin.flush()
            for process in (first, second):
                for word in process.communicate()[0].split():
                    row, _, who = word.rpartition("=")
                    told.setdefault(row, set()).add(who)
            seconds = time.monotonic() - begun
        once = sum(
            len(told[one.id]) == 1
            and approvals.consume(one.plan_digest, "bench") is not None
            and approvals.consume(one.plan_digest, "bench") is None
            for one in asked
        )
        approvals.close()
        return Contended(seconds, 2 * THREADS, once)


def measure() -> Section:
    """Two processes of eight threads each, all of which decide every question."""
    found = _measured()
    rows = [
        ("questions", str(QUESTIONS)),
        ("deciders at once, in two processes", str(found.deciders)),
        ("decided once, and used once", str(found.once)),
        ("seconds for all decisions", f"{found.seconds:.2f}"),
        ("decisions a second, each on disk", f"{QUESTIONS * found.deciders / found.seconds:.0f}"),
    ]
    goal = Goal("approvals under contention, decided once each", QUESTIONS, found.once, "", at_least=True)
    return Section("Approvals under contention", "Everybody decides every question.", ("", ""), rows, (goal,))
