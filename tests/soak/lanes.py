"""Who makes the calls of a soak, and what is noted of each."""

import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mcp_types as t

from tests.mcp.talk import Place, Talk
from tests.soak.cases import DECK, GOOD, REPLACES, Answers, Case

CANCELLED_SHARE = (
    0.12  # of the good calls that are cancelled at a random moment, most of them before they end
)
LATEST_CANCEL = 1.5  # seconds after its start
ANSWER_SECONDS = 180.0  # far above every deadline: a call that takes longer hangs
CANCELLED = "cancelled"


@dataclass(frozen=True)
class Noted:
    """One call. `wrong` says what is wrong with its answer."""

    case: str
    outcome: str  # OK, an error code, or that the client cancelled it
    seconds: float
    pool: str = ""
    wrong: str = ""


@dataclass
class Ledger:
    """All calls of a soak. For several threads."""

    calls: list[Noted] = field(default_factory=list)
    written: dict[str, Case] = field(default_factory=dict)  # by name; also what was cancelled meanwhile
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, call: Noted) -> None:
        with self._lock:
            self.calls.append(call)

    def expect(self, name: str, case: Case) -> None:
        with self._lock:
            self.written[name] = case

    @property
    def wrong(self) -> list[str]:
        return [f"{call.case}: {call.wrong}" for call in self.calls if call.wrong]

    @property
    def outcomes(self) -> Counter[str]:
        return Counter(call.outcome for call in self.calls)


@dataclass
class Lane:
    """One call after the other through one client, the same ones in the same order for the same seed."""

    name: str
    talk: Talk
    place: Place
    answers: Answers
    ledger: Ledger
    seed: str

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._numbers = itertools.count(1)

    def run(self, hand: Sequence[Case], until: float) -> None:
        """Those cases, and then any until that moment of the monotonic clock."""
        for case in hand:
            self._one(case)
        while time.monotonic() < until:
            self._one(self._random.choice(DECK))

    def _one(self, case: Case) -> None:
        output = f"{self.name}-{next(self._numbers)}{case.suffix or '.tif'}"
        patience = self._patience(case)
        self.ledger.expect(output, case)
        begun = time.monotonic()
        future = self.talk.start(case.tool, **case.given(output))
        try:
            result = future.result(timeout=patience or ANSWER_SECONDS)
        except (TimeoutError, CancelledError):
            future.cancel()
            wrong = "" if patience else f"no answer within {ANSWER_SECONDS:.0f} s"
            self.ledger.note(Noted(case.name, CANCELLED, time.monotonic() - begun, wrong=wrong))
            return
        except Exception as error:  # noqa: BLE001 - whatever the client raises is no answer, and the soak goes on
            self.ledger.note(Noted(case.name, "broken", time.monotonic() - begun, wrong=repr(error)[:300]))
            return
        self.ledger.note(self._judged(case, result, output, time.monotonic() - begun))

    def _patience(self, case: Case) -> float | None:
        """Seconds after which the client cancels; None when it waits for the answer."""
        chance, moment = self._random.random(), self._random.uniform(0.0, LATEST_CANCEL)
        cancels = case.cancelled or (case in GOOD and chance < CANCELLED_SHARE)
        return max(moment, 0.001) if cancels else None

    def _judged(self, case: Case, result: t.CallToolResult, output: str, seconds: float) -> Noted:
        said: Mapping[str, Any] = result.structured_content or {}
        if result.is_error:
            code = said.get("error", {}).get("code", "no code")
            return Noted(
                case.name, code, seconds, wrong="" if code in case.codes else f"it ended with {said}"[:400]
            )
        pool = said.get("receipt", {}).get("pool", "")
        if case.fails:
            return Noted(case.name, "OK", seconds, pool, f"it succeeded: {said}"[:400])
        path = self._path(case, output)
        return Noted(case.name, "OK", seconds, pool, self.answers.wrong(case, said, path))

    def _path(self, case: Case, output: str) -> Path | None:
        return self.place.path(output) if case.suffix and case not in REPLACES else None
