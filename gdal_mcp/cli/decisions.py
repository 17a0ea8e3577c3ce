"""`gdal-mcp approve` and `grants`: decisions at a terminal. They need the state folder and no engine."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from gdal_mcp.approvals.model import Approval, Decision, Grant
from gdal_mcp.approvals.service import ApprovalService
from gdal_mcp.approvals.states import APPROVED_STATES
from gdal_mcp.approvals.store import Approvals
from gdal_mcp.cli.exits import Exit
from gdal_mcp.cli.finding import settings_for_question
from gdal_mcp.cli.streams import confirm, out, out_either, say, seconds_of
from gdal_mcp.errors import ToolError
from gdal_mcp.records.audit import AuditLog
from gdal_mcp.remote.address import folder_of
from gdal_mcp.settings import Settings, SettingsError
from gdal_mcp.settings.file import nearest
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

    Without a question, prints the questions that wait for an answer.
    """
    with _service(settings_for_question(settings, question) if question else settings) as service:
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
        approved = after is not None and after.state in APPROVED_STATES
        return Exit.DONE if approved or not yes else Exit.FAILED


def _show_questions(rows: Sequence[Approval], *, as_json: bool) -> None:
    questions, lines = [], []
    for approval in rows:
        left = max(0, approval.expires - time.time())
        sentence = shown_text(str(approval.details.get("sentence", approval.tool)), 300)
        lines.append(f"{approval.id}  {left / 60:.0f} min left  {sentence}")
        about: dict[str, Any] = {
            "id": approval.id,
            "call": approval.call_id,
            "tool": approval.tool,
            "ways": list(approval.ways),
        }
        about |= {"principal": approval.principal, "plan": approval.plan_digest, "expires": approval.expires}
        questions.append({**about, "question": dict(approval.details)})
    if rows or as_json:
        out_either(questions, "\n".join(lines), as_json=as_json)
    else:
        say("no call is waiting for approval.")


def show_grants(settings: Settings, *, as_json: bool) -> Exit:
    """Prints all grants, valid ones first."""
    with _service(settings) as service:
        grants = service.approvals.grants()
    now = time.time()
    keys = ("id", "principal", "tool", "workspace", "expires", "granted_by")
    rows, lines = [], []
    for grant in grants:
        about = {key: getattr(grant, key) for key in keys}
        rows.append({**about, "state": grant.state(now), "remote": list(grant.remote)})
        left = f"{(grant.expires - now) / 60:.0f} min left" if grant.holds(now) else grant.state(now)
        lines.append(f"{grant.id}  {left}  {grant.principal}  {grant.tool}  {grant.workspace}")
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
    _warn_of_unknown_tool(settings, tool)
    user = _user()
    try:
        remote = tuple(map(folder_of, reads))
        wanted = Grant(principal or user, tool, str(root), user, "gdal-mcp grants", remote=remote)
        with _service(settings) as service:
            granted = service.grant(wanted, seconds)
    except ValueError as error:
        raise SettingsError(str(error)) from error
    read = f", reading {', '.join(remote)}," if remote else ""
    out(
        f"{granted.id}: {granted.principal} may write to {granted.workspace} with {granted.tool}{read} for {span}"
    )
    return Exit.DONE


def _warn_of_unknown_tool(settings: Settings, tool: str) -> None:
    """Warns only, because a server with other settings may have the tool."""
    from gdal_mcp.server.operations.uploading import UPLOAD  # noqa: PLC0415 - both load the catalogue
    from gdal_mcp.server.toolboxes import toolboxes  # noqa: PLC0415

    known = {*toolboxes(settings).tools, UPLOAD}
    if tool not in known:
        say(
            f"no tool is called {tool[:64]!r} with these settings, so the grant may have no use; the nearest is {nearest(tool, known)}"
        )


def revoke(settings: Settings, grant_id: str) -> Exit:
    with _service(settings) as service:
        grant = service.revoke(grant_id, _user())
    if grant is None:
        say(f"grant {grant_id[:64]!r} does not exist; `gdal-mcp grants list` lists grants.")
        return Exit.FAILED
    out(f"{grant.id}: {'revoked' if grant.revoked is not None else 'had ended already'}")
    return Exit.DONE
