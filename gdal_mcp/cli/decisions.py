"""`gdal-mcp approve` and `grants`: decisions at a terminal. They need the state folder and no engine."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from gdal_mcp.approvals.model import Approval, Decision, Grant
from gdal_mcp.approvals.service import ApprovalService
from gdal_mcp.approvals.states import GIVEN
from gdal_mcp.approvals.store import Approvals
from gdal_mcp.cli.exits import Exit
from gdal_mcp.cli.finding import of_question
from gdal_mcp.cli.streams import confirm, out, out_either, say, seconds_of
from gdal_mcp.errors import ToolError
from gdal_mcp.records.audit import AuditLog
from gdal_mcp.remote.address import folder_of
from gdal_mcp.settings import Settings, SettingsError
from gdal_mcp.toolboxes.untrusted import shown_text

_WORDS: Final[Mapping[str, str]] = {
    "released": "approved, waiting for the call to be sent again",
    **dict.fromkeys(("reserved", "consumed"), "approved"),
}


@contextmanager
def _service(settings: Settings) -> Iterator[ApprovalService]:
    approvals = Approvals(settings.state.registry)
    try:
        yield ApprovalService(approvals, AuditLog(settings.state.audit).append, "terminal")
    finally:
        approvals.close()


def _user() -> str:
    from gdal_mcp.server.app import local_user  # noqa: PLC0415 - brings in everything that a server is made of

    return local_user().id


def approve(settings: Settings, question: str | None, *, answer: bool | None, as_json: bool = False) -> Exit:
    """Answers an open question; asks at the terminal if there is no `answer`. Raises SettingsError.

    Without a question, those that wait for an answer are printed.
    """
    with _service(of_question(settings, question) if question else settings) as service:
        if question is None:
            _show_questions(service.approvals.pending(), as_json=as_json)
            return Exit.DONE
        row = service.approvals.approval(question)
        if row is None or row.state != "asked":
            say(f"question {question[:64]!r} is not open; `gdal-mcp approve` lists open questions.")
            return Exit.FAILED
        yes = confirm(f"{row.summary}\n\nApprove?", "--yes or --no") if answer is None else answer
        decision = Decision(approved=yes, by=_user(), how="gdal-mcp approve", way="terminal")
        try:
            after = service.decide(row.id, decision)
        except ToolError as error:  # the policy does not accept approval from a terminal
            say(f"{error.message} {error.suggestion}".strip())
            return Exit.FAILED
        state = after.state if after else "gone"
        out(f"{row.id}: {_WORDS.get(state, state)}")
        held = after is not None and after.state in GIVEN
        return Exit.DONE if held or not yes else Exit.FAILED


def _show_questions(rows: Sequence[Approval], *, as_json: bool) -> None:
    questions, lines = [], []
    for one in rows:
        left = max(0, one.expires - time.time())
        sentence = shown_text(str(one.details.get("sentence", one.tool)), 300)
        lines.append(f"{one.id}  {left / 60:.0f} min left  {sentence}")
        about: dict[str, Any] = {"id": one.id, "call": one.call_id, "tool": one.tool, "ways": list(one.ways)}
        about |= {"principal": one.principal, "plan": one.plan_digest, "expires": one.expires}
        questions.append({**about, "question": dict(one.details)})
    if rows or as_json:
        out_either(questions, "\n".join(lines), as_json=as_json)
    else:
        say("no call is waiting for approval.")


def show_grants(settings: Settings, *, as_json: bool) -> Exit:
    """Prints all grants, valid ones first."""
    with _service(settings) as service:
        found = service.approvals.grants()
    now = time.time()
    keys = ("id", "principal", "tool", "workspace", "expires", "granted_by")
    rows, lines = [], []
    for one in found:
        about = {key: getattr(one, key) for key in keys}
        rows.append({**about, "state": one.state(now), "remote": list(one.remote)})
        left = f"{(one.expires - now) / 60:.0f} min left" if one.holds(now) else one.state(now)
        lines.append(f"{one.id}  {left}  {one.principal}  {one.tool}  {one.workspace}")
    if rows or as_json:
        out_either(rows, "\n".join(lines), as_json=as_json)
    else:
        say("there are no grants; `gdal-mcp grants new TOOL FOLDER` creates one.")
    return Exit.DONE


def grant(  # noqa: PLR0913, PLR0917 - what sets grants apart
    settings: Settings, tool: str, folder: Path, span: str, principal: str | None, reads: Sequence[str]
) -> Exit:
    """Approves calls of a tool that write to a workspace and read remote data in `reads`, for some time. Raises SettingsError."""
    seconds, root = seconds_of(span, "--for"), folder.resolve()
    roots = {workspace.resolve() for workspace in settings.workspaces}
    if roots and root not in roots:
        raise SettingsError(f"{root} is not a writable workspace; name a workspace, not a folder in it")
    user = _user()
    try:
        remote = tuple(map(folder_of, reads))
        asked = Grant(principal or user, tool, str(root), user, "gdal-mcp grants", remote=remote)
        with _service(settings) as service:
            made = service.grant(asked, seconds)
    except ValueError as error:
        raise SettingsError(str(error)) from error
    read = f", reading {', '.join(remote)}," if remote else ""
    out(f"{made.id}: {made.principal} may write to {made.workspace} with {made.tool}{read} for {span}")
    return Exit.DONE


def revoke(settings: Settings, grant_id: str) -> Exit:
    with _service(settings) as service:
        found = service.revoke(grant_id, _user())
    if found is None:
        say(f"grant {grant_id[:64]!r} does not exist; `gdal-mcp grants list` lists grants.")
        return Exit.FAILED
    out(f"{found.id}: {'revoked' if found.revoked is not None else 'had ended already'}")
    return Exit.DONE
