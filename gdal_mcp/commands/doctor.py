"""Checks everything a call needs, row by row, each failing row with its fix."""

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gdal_mcp.access.policy import Policy
from gdal_mcp.commands.exits import Exit
from gdal_mcp.commands.streams import out, out_json
from gdal_mcp.host.hosting import Host, Hosting
from gdal_mcp.host.image import OFFICIAL, version_warning
from gdal_mcp.ledger.audit import verify
from gdal_mcp.plan import Effect
from gdal_mcp.settings import Settings
from sandbox.errors import SandboxError
from sandbox.workspace import Workspaces

if TYPE_CHECKING:
    from gdal_mcp.gdal.catalogue.drift import Difference

State = Literal["ok", "warning", "failed"]


@dataclass(frozen=True, slots=True)
class Row:
    """One checked thing."""

    group: str
    name: str
    state: State
    found: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """Every row, and the facts that results carry too."""

    rows: tuple[Row, ...]
    facts: dict[str, Any]

    @property
    def ok(self) -> bool:
        return all(row.state != "failed" for row in self.rows)

    def as_dict(self) -> dict[str, Any]:
        return {"ok": self.ok, **self.facts, "rows": [asdict(row) for row in self.rows]}


def show(settings: Settings, *, as_json: bool) -> Exit:
    """Prints what was found on this host."""
    report = examine(settings)
    if as_json:
        out_json(report.as_dict())
    else:
        out(render(report))
    return Exit.DONE if report.ok else Exit.NOT_READY


def examine(settings: Settings) -> Report:
    """Looks at this host as a server with these settings would. Never raises for what it finds."""
    from gdal_mcp.app import running

    try:
        with some_workspace(settings) as (complete, missing), running(complete) as app:
            host_rows, facts = _host(app.hosting, complete)
            workspace_rows = missing or tuple(_workspaces(app.workspaces, app.hosting, complete))
            rows = [
                *host_rows,
                *workspace_rows,
                *_records(settings),
                *_modes(settings, app.policy),
                *_http(settings),
            ]
    except Exception as error:  # noqa: BLE001 - doctor's whole purpose is to show what is wrong
        return _not_started(error, "Correct what it names, then run doctor again.")
    return Report(tuple(rows), facts)


@contextmanager
def some_workspace(settings: Settings) -> Iterator[tuple[Settings, tuple[Row, ...]]]:
    """The settings, or without a workspace the same with an empty one, so that the host can be examined all the same."""
    if settings.workspaces or settings.workspaces_ro:
        yield settings, ()
        return
    row = Row("workspace", "none", "warning", "no workspace is named", "serve and call need --workspace DIR.")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "empty"
        place.mkdir()
        yield settings.model_copy(update={"workspaces": (place,)}), (row,)


def _not_started(error: Exception, fix: str) -> Report:
    return Report((Row("server", "start", "failed", str(error) or type(error).__name__, fix),), {})


def _host(hosting: Hosting, settings: Settings) -> tuple[list[Row], dict[str, Any]]:
    try:
        host = hosting.ready(fresh=True)
    except SandboxError as error:
        fix = "Start the engine (`systemctl start docker`), run `gdal-mcp setup`, or correct what is named."
        return [Row("engine", "ready", "failed", f"{type(error).__name__}: {error}", fix)], {}
    facts = {
        "engine": {
            "name": host.info.name,
            "version": host.info.version,
            "api": _dotted(host.info.api_version),
        },
        "image": {
            "reference": host.image.reference,
            "id": host.image.id,
            "digest": host.image.digest,
            "stand_in": host.image.standin,
        },
        "gdal_version": host.image.gdal_version,
        "tier": host.tier(settings),
    }
    return [*_engine(host, settings), *_image(host), *_attestation(host), *_catalogue(host, settings)], facts


def _engine(host: Host, settings: Settings) -> Iterator[Row]:
    info = host.info
    found = f"{info.name} {info.version} at {info.address}, API {_dotted(info.api_version)}"
    yield Row("engine", "engine", "ok", found)
    power = "yes" if info.rootless else "no: whoever may use the engine's socket is root on this host"
    yield Row("engine", "rootless", "ok", power)
    yield Row("engine", "cgroup", "ok", f"version {info.cgroup_version}")
    yield _security_module(info.security_options)
    tier = f"{host.tier(settings)}" + ("" if settings.runtime else " (gVisor: --runtime runsc)")
    yield Row("engine", "tier", "ok", tier)
    if settings.path_map:
        yield Row("engine", "path map", "ok", ", ".join(settings.path_map))
    yield _room(host, settings)


def _dotted(version: Iterable[int]) -> str:
    return ".".join(map(str, version))


def _security_module(options: Iterable[str]) -> Row:
    modules = [option for option in options if "apparmor" in option or "selinux" in option]
    if modules:
        return Row("engine", "security module", "ok", ", ".join(modules))
    fix = "Enable AppArmor or SELinux on this host for one more barrier; calls run without it."
    return Row("engine", "security module", "warning", "neither AppArmor nor SELinux", fix)


def _room(host: Host, settings: Settings) -> Row:
    """How many containers the promised memory is for, and how many of them may serve calls at once."""
    places = host.places(settings)
    found = f"{host.concurrent} calls at once, {places} containers with those that wait"
    if settings.sizes().most and places <= host.concurrent:
        fix = "Lower `memory`, or raise `memory_share`: calls that come together leave no room for waiting containers."
        return Row("engine", "room", "warning", found, fix)
    return Row("engine", "room", "ok", found)


def _image(host: Host) -> Iterator[Row]:
    image = host.image
    if image.standin:
        yield Row(
            "image",
            "image",
            "warning",
            f"{image.reference}, a local stand-in",
            f"Where the registry can be reached: docker pull {OFFICIAL}",
        )
    else:
        yield Row("image", "image", "ok", image.reference)
    yield Row("image", "digest", "ok", image.digest)
    warning = version_warning(image)
    if warning:
        yield Row("image", "GDAL", "warning", image.gdal_version, warning)
    else:
        yield Row("image", "GDAL", "ok", image.gdal_version)


def _attestation(host: Host) -> Iterator[Row]:
    for row in host.attested:
        found = f"{row.found}" if row.ok else f"asked {row.asked}, found {row.found}"
        yield Row("attestation", row.name, "ok" if row.ok else "failed", found)


def _catalogue(host: Host, settings: Settings) -> Iterator[Row]:
    from gdal_mcp.commands.catalogue import compared, summary
    from gdal_mcp.gdal.catalogue.drift import unfit
    from gdal_mcp.gdal.catalogue.load import catalogue

    if reason := unfit(catalogue(), host.image.gdal_version):
        yield Row("catalogue", "GDAL", "failed", reason, "Run `gdal-mcp setup`, then doctor again.")
        return
    yield Row("catalogue", "GDAL", "ok", summary(catalogue()))
    try:
        found = compared(settings)
    except SandboxError as error:
        yield Row("catalogue", "image", "failed", str(error), "Use another image.")
        return
    yield from _differences(found)


def _differences(found: "tuple[Difference, ...]") -> Iterator[Row]:
    """What the image says otherwise: of arguments it matters, of drivers builds of one version differ."""
    from gdal_mcp.gdal.catalogue.drift import INTERFACE

    interface = [difference for difference in found if difference.kind in INTERFACE]
    if interface:
        shown = "; ".join(map(str, interface[:5]))
        fix = "Where a call depends on one of these, GDAL refuses it or does otherwise than its schema says. Use the tested image."
        yield Row("catalogue", "arguments", "warning", f"{len(interface)} differences: {shown}", fix)
    else:
        yield Row("catalogue", "arguments", "ok", "the image says the same")
    others = len(found) - len(interface)
    told = f"{others} differences, as builds have" if others else "the image says the same"
    yield Row("catalogue", "drivers", "ok", told)


def _mount_scope(settings: Settings) -> Row:
    narrow = settings.mount_scope == "inputs"
    found = "inputs: only what it names; none waits" if narrow else "workspaces: the whole of each"
    return Row("workspace", "a call's container sees", "ok", found)


def _workspaces(workspaces: Workspaces, hosting: Hosting, settings: Settings) -> Iterator[Row]:
    uid, gid = hosting.user()
    yield _mount_scope(settings)
    for workspace in workspaces.items:
        root = workspace.root
        mode = "read-write" if workspace.writable else "read-only"
        writable = os.access(root, os.W_OK) or not workspace.writable
        if not writable:
            yield Row(
                "workspace",
                str(root),
                "failed",
                "not writable by this server",
                "Correct its permissions, or use --workspace-ro.",
            )
        elif not hosting.readable(root):
            fix = f"chmod o+rx {root}, or give it to a user that is not root."
            yield Row(
                "workspace",
                str(root),
                "failed",
                f"{mode}, but containers run as {uid}:{gid}, which cannot read it",
                fix,
            )
        else:
            yield Row("workspace", str(root), "ok", f"{mode}, containers run as {uid}:{gid}")


def _records(settings: Settings) -> Iterator[Row]:
    found = verify(settings.state.audit)
    if found.ok:
        yield Row("records", "audit", "ok", f"{found.records} records, chain whole, {settings.state_dir}")
    else:
        yield Row(
            "records",
            "audit",
            "failed",
            found.reason,
            "Keep the file as evidence, then move it and audit.head away to begin a new one.",
        )


def _modes(settings: Settings, policy: Policy) -> Iterator[Row]:
    if settings.approval == "never":
        yield Row(
            "policy",
            "approval",
            "warning",
            "never: calls write without asking anybody",
            "Leave --approval out to ask before writes.",
        )
    else:
        yield Row("policy", "approval", "ok", settings.approval)
    if settings.policy is not None:
        yield from _policy(policy)


def _policy(policy: Policy) -> Iterator[Row]:
    asks = sum(rule.decision == "require" for rule in policy.rules)
    found = f"{len(policy.rules)} rules, {asks} that ask, {len(policy.entries)} entries; sha256:{policy.digest[:12]}"
    yield Row("policy", "file", "ok", f"{policy.source}: {found}")
    freed = [rule for rule in policy.rules if rule.decision == "allow" and rule.effects - {Effect.READ}]
    if freed:
        yield Row(
            "policy",
            "writes",
            "warning",
            f"{len(freed)} rules let calls write without asking anybody",
            "Leave out the rules that allow create, replace or destroy, to ask before those.",
        )


def _http(settings: Settings) -> Iterator[Row]:
    """What a server over HTTP would go by; nothing where none was ever thought of."""
    from gdal_mcp.access.tokens import TokenStore, TokensUnavailable

    try:
        tokens = len(TokenStore(settings.state.tokens).all())
    except TokensUnavailable as error:
        yield Row("http", "tokens", "failed", str(error), "Correct what it names, then run doctor again.")
        return
    if settings.no_auth:
        fix = "Make a token with `gdal-mcp token new`, and leave --no-auth out."
        found = "none: whoever reaches the port is the user who runs the server"
        yield Row("http", "authentication", "warning", found, fix)
    elif tokens or settings.issuers:
        yield Row("http", "authentication", "ok", f"{tokens} tokens, {len(settings.issuers)} issuers")


def render(report: Report) -> str:
    """The table for people."""
    marks = {"ok": "ok  ", "warning": "WARN", "failed": "FAIL"}
    lines = []
    for row in report.rows:
        lines.append(f"{marks[row.state]}  {row.group:<11}  {row.name:<28}  {row.found}")
        if row.fix and row.state != "ok":
            lines.append(f"{'':>21}-> {row.fix}")
    lines.append("")
    lines.append("Ready." if report.ok else "Not ready: see the rows marked FAIL.")
    return "\n".join(lines)
