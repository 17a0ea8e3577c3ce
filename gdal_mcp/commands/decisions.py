"""Deciding at a terminal: `gdal-mcp approve` and `grants`. Needs the state folder, and no engine."""

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gdal_mcp.approval.model import Approval, Decision, Grant
from gdal_mcp.approval.service import ApprovalService
from gdal_mcp.approval.store import Approvals
from gdal_mcp.commands.durations import seconds_of
from gdal_mcp.commands.exits import Exit
from gdal_mcp.commands.streams import out, out_json, say
from gdal_mcp.ledger.audit import AuditLog
from gdal_mcp.settings import Settings, SettingsError
from gdal_mcp.untrusted import shown_text


@contextmanager
def _service(settings: Settings) -> Iterator[ApprovalService]:
    approvals = Approvals(settings.state.registry)
    try:
        yield ApprovalService(approvals, AuditLog(settings.state.audit).append, "terminal")
    finally:
        approvals.close()


def _user() -> str:
    from gdal_mcp.app import local_user  # noqa: PLC0415 - with everything that a server is made of

    return local_user().id


def approve(given: argparse.Namespace, settings: Settings) -> Exit:
    with _service(settings) as service:
        if given.question is None:
            return _list(service.approvals.pending(), as_json=given.json)
        row = service.approvals.approval(given.question)
        if row is None or row.state != "pending":
            say(
                f"there is no open question {given.question[:64]!r}; `gdal-mcp approve` lists those there are."
            )
            return Exit.FAILED
        yes = given.yes or (not given.no and _asked(row))
        user = _user()
        after = service.decide(
            row.id, Decision(approved=yes, by=user, how="gdal-mcp approve", way="terminal")
        )
        out(f"{row.id}: {after.state if after else 'gone'}")
        held = after is not None and after.state in ("approved", "used")
        return Exit.DONE if held or not yes else Exit.FAILED


def _asked(row: Approval) -> bool:
    if not sys.stdin.isatty():
        raise SettingsError("nobody can be asked here; say --yes or --no")
    sys.stderr.write(f"{row.summary}\n\nApprove? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _list(rows: tuple[Approval, ...], *, as_json: bool) -> Exit:
    if as_json:
        out_json([_row(one) for one in rows])
        return Exit.DONE
    for one in rows:
        left = max(0, one.expires - time.time())
        sentence = shown_text(str(one.details.get("sentence", one.tool)), 300)
        out(f"{one.id}  {left / 60:.0f} min left  {sentence}")
    if not rows:
        say("nothing waits for a yes.")
    return Exit.DONE


def _row(one: Approval) -> dict[str, Any]:
    return {
        "id": one.id,
        "call": one.call_id,
        "tool": one.tool,
        "principal": one.principal,
        "plan": one.plan_digest,
        "expires": one.expires,
        "ways": list(one.ways),
        "question": dict(one.details),
    }


def grants(given: argparse.Namespace, settings: Settings) -> Exit:
    with _service(settings) as service:
        rows = service.approvals.grants()
    now = time.time()
    told = [_granted(one, now) for one in rows]
    if given.json:
        out_json(told)
        return Exit.DONE
    for one in told:
        out("  ".join(str(one[key]) for key in ("id", "state", "principal", "tool", "workspace")))
    if not told:
        say("there is no grant; `gdal-mcp grants new TOOL FOLDER` makes one.")
    return Exit.DONE


def _granted(one: Grant, now: float) -> dict[str, Any]:
    told = {"id": one.id, "state": one.state(now), "principal": one.principal, "tool": one.tool}
    return {**told, "workspace": one.workspace, "expires": one.expires, "granted_by": one.granted_by}


def grant(given: argparse.Namespace, settings: Settings) -> Exit:
    span = seconds_of(given.span, "--for")
    root = given.folder.resolve()
    roots = {place.resolve() for place in settings.workspaces}
    if roots and root not in roots:
        raise SettingsError(f"{root} is no workspace that is written to; name one as a whole")
    user = _user()
    made = Grant(given.principal or user, given.tool, str(root), user, "gdal-mcp grants")
    try:
        with _service(settings) as service:
            made = service.grant(made, span)
    except ValueError as error:
        raise SettingsError(str(error)) from error
    out(f"{made.id}: {made.principal} may write to {made.workspace} with {made.tool} for {given.span}")
    return Exit.DONE


def revoke(given: argparse.Namespace, settings: Settings) -> Exit:
    with _service(settings) as service:
        found = service.revoke(given.grant, _user())
    if found is None:
        say(f"there is no grant {given.grant[:64]!r}; `gdal-mcp grants list` shows them.")
        return Exit.FAILED
    out(f"{found.id}: {'revoked' if found.revoked is not None else 'was over already'}")
    return Exit.DONE
