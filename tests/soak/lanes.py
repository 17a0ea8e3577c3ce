"""Who makes the calls of a soak, and what is noted of each."""

import itertools
import random
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any

import mcp_types as t

from tests.mcp.talk import Place, Talk
from tests.soak.cases import DECK, GOOD, Answers, Case

CANCELLED_SHARE = 0.12  # of the good calls are cancelled at a random moment, most of them before they end
LATEST_CANCEL = 1.5  # seconds after its start
ANSWER_SECONDS = 180.0  # far above every deadline: a call that takes longer hangs
CANCELLED = "cancelled"


@dataclass(frozen=True)
class Noted:
    """One call. `wrong` says what is wrong with its answer."""

    case: str
    outcome: str  # OK, an error code, or that the client cancelled it
    pool: str = ""
    wrong: str = ""


@dataclass
class Lane:
    """One call after the other through one client, the same ones in the same order for the same name."""

    name: str
    talk: Talk
    place: Place
    answers: Answers
    calls: list[Noted]  # of all lanes

    def __post_init__(self) -> None:
        self._random = random.Random(self.name)
        self._numbers = itertools.count(1)

    def run(self, hand: Sequence[Case], until: float) -> None:
        """Those cases, and then any until that moment of the monotonic clock."""
        for case in hand:
            self.calls.append(self._one(case))
        while time.monotonic() < until:
            self.calls.append(self._one(self._random.choice(DECK)))

    def _one(self, case: Case) -> Noted:
        output = f"{self.name}-{next(self._numbers)}{case.suffix or '.tif'}"
        chance, moment = self._random.random(), self._random.uniform(0.001, LATEST_CANCEL)
        cancels = case.cancelled or (case in GOOD and chance < CANCELLED_SHARE)
        future = self.talk.start(case.tool, **case.given(output))
        try:
            return self._judged(case, future.result(moment if cancels else ANSWER_SECONDS), output)
        except (TimeoutError, CancelledError):
            future.cancel()
            wrong = "" if cancels else f"no answer within {ANSWER_SECONDS:.0f} s"
            return Noted(case.name, CANCELLED, wrong=wrong)
        except Exception as error:  # noqa: BLE001 - whatever the client raises is no answer, and the soak goes on
            return Noted(case.name, "broken", wrong=repr(error)[:300])

    def _judged(self, case: Case, result: t.CallToolResult, output: str) -> Noted:
        said: Mapping[str, Any] = result.structured_content or {}
        if result.is_error:
            code = said.get("error", {}).get("code", "no code")
            return Noted(case.name, code, wrong="" if code in case.codes else f"it ended with {said}"[:400])
        pool = said.get("receipt", {}).get("pool", "")
        if case.fails:
            return Noted(case.name, "OK", pool, f"it succeeded: {said}"[:400])
        return Noted(case.name, "OK", pool, self.answers.wrong(case, said, self.place.path(output)))
