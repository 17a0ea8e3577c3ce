"""Deciding at a terminal: `gdal-mcp approve`, `grants` and `policy check`. Needs the state folder, and no engine."""

import argparse
import json
import re
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from gdal_mcp.answers.untrusted import shown_text
from gdal_mcp.approval.asking import Asking, Patience
from gdal_mcp.approval.model import Approval, Decision, Grant
from gdal_mcp.approval.store import Approvals
from gdal_mcp.ledger.audit import AuditLog
from gdal_mcp.settings import Settings, SettingsError

OK, FAILED = 0, 1  # exit codes, as gdal_mcp.cli has them
_SPANS: Final = {"m": 60.0, "h": 3600.0}
_SPAN: Final = re.compile(r"(\d{1,5})([mh])", re.ASCII)


@contextmanager
def _desk(settings: Settings) -> Iterator[Asking]:
    approvals = Approvals(settings.state_dir / "registry.sqlite")
    try:
        patience = Patience(settings.approval_seconds, settings.approval_wait)
        yield Asking(approvals, AuditLog(settings.state_dir / "audit.jsonl").append, patience, "terminal")
    finally:
        approvals.close()


def _user() -> str:
    from gdal_mcp.app import local_user  # noqa: PLC0415 - with everything that a server is made of

    return local_user().id


def approve(given: argparse.Namespace, settings: Settings) -> int:
    with _desk(settings) as desk:
        if given.question is None:
            return _list(desk.approvals.pending(), as_json=given.json)
        row = desk.approvals.approval(given.question)
        if row is None or row.state != "pending":
            _err(
                f"there is no open question {given.question[:64]!r}; `gdal-mcp approve` lists those there are."
            )
            return FAILED
        yes = given.yes or (not given.no and _asked(row))
        user = _user()
        after = desk.decide(row.id, Decision(approved=yes, by=user, how="gdal-mcp approve", way="terminal"))
        _out(f"{row.id}: {after.state if after else 'gone'}")
        return OK if after and after.state in ("approved", "used") else FAILED if yes else OK


def _asked(row: Approval) -> bool:
    if not sys.stdin.isatty():
        raise SettingsError("nobody can be asked here; say --yes or --no")
    sys.stderr.write(f"{row.summary}\n\nApprove? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _list(rows: tuple[Approval, ...], *, as_json: bool) -> int:
    if as_json:
        _out(json.dumps([_row(one) for one in rows], indent=2))
        return OK
    for one in rows:
        left = max(0, one.expires - time.time())
        sentence = shown_text(str(one.details.get("sentence", one.tool)), 300)
        _out(f"{one.id}  {left / 60:.0f} min left  {sentence}")
    if not rows:
        _err("nothing waits for a yes.")
    return OK


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


def grants(given: argparse.Namespace, settings: Settings) -> int:
    with _desk(settings) as desk:
        rows = desk.approvals.grants()
    now = time.time()
    told = [_granted(one, now) for one in rows]
    if given.json:
        _out(json.dumps(told, indent=2))
        return OK
    for one in told:
        _out("  ".join(str(one[key]) for key in ("id", "state", "principal", "tool", "workspace")))
    return OK


def _granted(one: Grant, now: float) -> dict[str, Any]:
    told = {"id": one.id, "state": one.state(now), "principal": one.principal, "tool": one.tool}
    return {**told, "workspace": one.workspace, "expires": one.expires, "granted_by": one.granted_by}


def grant(given: argparse.Namespace, settings: Settings) -> int:
    span = _SPAN.fullmatch(given.span)
    if span is None:
        raise SettingsError(f"{given.span[:20]!r} is no time; write 30m or 8h")
    root = given.folder.resolve()
    roots = {place.resolve() for place in settings.workspaces}
    if roots and root not in roots:
        raise SettingsError(f"{root} is no workspace that is written to; name one as a whole")
    user = _user()
    made = Grant(given.principal or user, given.tool, str(root), user, "gdal-mcp grants")
    try:
        with _desk(settings) as desk:
            made = desk.grant(made, int(span[1]) * _SPANS[span[2]])
    except ValueError as error:
        raise SettingsError(str(error)) from error
    _out(f"{made.id}: {made.principal} may write to {made.workspace} with {made.tool} for {given.span}")
    return OK


def revoke(given: argparse.Namespace, settings: Settings) -> int:
    with _desk(settings) as desk:
        found = desk.revoke(given.grant, _user())
    if found is None:
        _err(f"there is no grant {given.grant[:64]!r}.")
        return FAILED
    _out(f"{found.id}: {'revoked' if found.revoked is not None else 'was over already'}")
    return OK


def check(given: argparse.Namespace, settings: Settings) -> int:
    from gdal_mcp.commands.policy_check import explain  # noqa: PLC0415 - as _user

    settings.require_workspaces()
    text = sys.stdin.read() if given.arguments == "-" else given.arguments
    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"the arguments are not JSON: {error}") from error
    if not isinstance(arguments, dict):
        raise SettingsError('the arguments are a JSON object, such as \'{"path": "dem.tif"}\'')
    told: Mapping[str, Any] = explain(settings, given.tool, arguments, given.principal or _user())
    _out(json.dumps(told, indent=2))
    return OK if told["decision"] != "error" else FAILED


def _out(text: str) -> None:
    sys.stdout.write(text + "\n")


def _err(text: str) -> None:
    sys.stderr.write(f"gdal-mcp: {text}\n")
