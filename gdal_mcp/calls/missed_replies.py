"""Remembers results that clients may not have received, so that a long call is not made twice.

Some clients drop an answer after a minute. The next answer to the same principal names such a call once. Its result
can be read by the call's id, for as long as long results are stored.
"""

import time
from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from gdal_mcp.calls.activity import RunningCall
from gdal_mcp.calls.invocation import Reply
from gdal_mcp.calls.longresults import FULL_RESULT, ResultStore
from gdal_mcp.toolboxes.shortening import json_text

PATIENT_SECONDS: Final = 60.0  # seconds; clients without a limit of their own wait at least as long
MOST: Final = 5  # results of one principal; the oldest are forgotten
KEY: Final = "waiting_results"


@dataclass(slots=True, eq=False)
class MissedReplies:
    """Results that the clients of this server process may have missed. For one event loop and its threads."""

    results: ResultStore
    patient_seconds: float = PATIENT_SECONDS
    _waiting: defaultdict[str, deque[Mapping[str, Any]]] = field(
        default_factory=partial(defaultdict, partial(deque, maxlen=MOST))
    )

    def may_be_missed(self, call: RunningCall) -> bool:
        """True if nobody waits for the reply of a call that ended, or if the call took longer than some clients wait."""
        is_late = time.time() - call.begun >= self.patient_seconds
        is_final = call.reply is None or call.reply.next_request is None
        return (call.waiting <= 0 or (is_late and is_final)) and not call.scope.cancel_called

    def keep(self, call: RunningCall) -> None:
        """Stores the reply of a call that may be missed, on disk."""
        reply = call.reply
        assert reply is not None
        if FULL_RESULT in reply.result or self.results.keep(
            call.call_id, json_text(reply.result), call.principal
        ):
            outcome = "OK" if reply.error is None else str(reply.error.code)
            row = {"call_id": call.call_id, "tool": call.tool, "outcome": outcome}
            self._waiting[call.principal].append({**row, "get": f"list_workspace result={call.call_id}"})

    def noted(self, reply: Reply, principal: str) -> Reply:
        """The reply with a list of the principal's missed results, each listed once. The reply's own call is not
        listed.
        """
        waiting = self._waiting[principal]
        # one by one, because a thread may add a row meanwhile, which also drops the oldest row of a full list
        all_rows = [waiting.popleft() for _ in range(len(waiting))]
        rows = [row for row in all_rows if row["call_id"] != reply.call_id]
        waiting.extend(row for row in all_rows if row["call_id"] == reply.call_id)
        return replace(reply, result={**reply.result, KEY: rows}) if rows else reply
