"""Checks everything that a call needs on this host: one row per item; each failed row says how to fix it."""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from gdal_mcp.plan import Effect
from gdal_mcp.policy.policy import Policy
from gdal_mcp.records.audit_verification import verify
from gdal_mcp.runtime.connection import Host
from gdal_mcp.runtime.hosting import Hosting
from gdal_mcp.runtime.nested import is_lasting, program
from gdal_mcp.server.app import running
from gdal_mcp.server.operations.cluster import AGAIN, State, findings
from gdal_mcp.settings import Settings
from gdal_mcp.toolboxes.gdal.catalogue import store
from gdal_mcp.toolboxes.gdal.catalogue.load import catalogue_of
from gdal_mcp.toolboxes.gdal.catalogue.probing import probe
from gdal_mcp.toolboxes.gdal.faults import FaultState, Probed, faults
from gdal_mcp.toolboxes.gdal.image import OFFICIAL, version_warning
from gdal_mcp.toolboxes.toolbox import Toolbox
from sandbox.engines.oci.runtime import ADVISED, numbers
from sandbox.errors import ImageMissing, SandboxError
from sandbox.outputs.staging import StagingArea
from sandbox.pipes import MOST_ENTRIES, named_pipes
from sandbox.workspace import Workspaces

_FAULT_STATES: Final = {FaultState.PRESENT: "present", FaultState.UNKNOWN: "not probed"}


@dataclass(frozen=True, slots=True)
class DoctorRow:
    group: str
    name: str
    state: State
    found: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class DoctorReport:
    rows: tuple[DoctorRow, ...]
    facts: dict[str, Any]

    @property
    def ok(self) -> bool:
        return all(row.state != "failed" for row in self.rows)

    @property
    def verdict(self) -> str:
        """One line: calls run, or the next thing to do."""
        first = next((row for row in self.rows if row.state == "failed"), None)
        return "Ready: calls run." if first is None else f"Not ready. {first.fix or first.found}"

    def as_dict(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "verdict": self.verdict,
            **self.facts,
            "rows": [asdict(row) for row in self.rows],
        }


def examine(settings: Settings) -> DoctorReport:
    """Examines this host as a server with these settings would. Problems become rows; they are never raised."""
    try:
        with some_workspace(settings) as (complete, missing), running(complete) as app:
            host_rows, facts = _host(app.hosting, complete)
            rows = [
                *host_rows,
                *_cluster(complete),
                *_further(app.hosting, app.toolboxes.items[1:]),
                *(missing or _workspaces(app.workspaces, app.hosting, complete)),
                *(_storage(area) for area in app.areas.values()),
                *_records(settings),
                *_policy(settings, app.entitlements.policy),
            ]
    except Exception as error:  # noqa: BLE001 - the outermost handler of `doctor`: the error is a failed row
        return DoctorReport(
            (DoctorRow("server", "start", "failed", str(error) or type(error).__name__, AGAIN),), {}
        )
    return DoctorReport(tuple(rows), facts)


# uses the module path of this process and nothing from the environment or the working folder, which may be a workspace
_PROGRAM: Final = """
import json, sys
path, settings = json.load(sys.stdin)
sys.path[:] = path
from gdal_mcp.server.operations.examine import examine
from gdal_mcp.settings import Settings
json.dump(examine(Settings(**settings)).as_dict(), sys.stdout)
"""
# seconds; on a slow host, attestation takes one or two minutes for each toolbox
_MAX_SECONDS: Final = 600.0


def examine_in_process(settings: Settings) -> dict[str, Any]:
    """The report of `examine` as a dictionary, made in a separate process so that a running server is not disturbed."""
    values = settings.model_dump(mode="json", exclude_unset=True)
    try:
        done = subprocess.run(  # noqa: S603 - this interpreter with our own text
            [sys.executable, "-I", "-c", _PROGRAM],
            input=json.dumps([sys.path, values]),
            capture_output=True,
            text=True,
            timeout=_MAX_SECONDS,
            check=True,
        )
        report: dict[str, Any] = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        reason = f"this host was not examined within {_MAX_SECONDS:.0f} s"
    except (subprocess.CalledProcessError, OSError, ValueError) as error:
        last = str(getattr(error, "stderr", "") or error).strip().rpartition("\n")[2]
        reason = f"the process that examines this host failed: {last[:300]}"
    else:
        return report
    return DoctorReport((DoctorRow("server", "doctor", "failed", reason, AGAIN),), {}).as_dict()


@contextmanager
def some_workspace(settings: Settings) -> Iterator[tuple[Settings, tuple[DoctorRow, ...]]]:
    """The settings, with a temporary empty workspace if they have none, so that the host can still be examined."""
    if settings.workspaces or settings.workspaces_ro:
        yield settings, ()
        return
    row = DoctorRow(
        "workspace", "none", "warning", "no workspace is named", "serve and call need --workspace DIR."
    )
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "empty"
        place.mkdir()
        yield settings.model_copy(update={"workspaces": (place,)}), (row,)


def _host(hosting: Hosting, settings: Settings) -> tuple[list[DoctorRow], dict[str, Any]]:
    try:
        host = hosting.ready(fresh=True)
    except SandboxError as error:
        row = failed_row("engine", "ready", error, settings.image)
        row = replace(row, found=f"{type(error).__name__}: {row.found}")
        return [row, *_passed_over(hosting)], {}
    facts = {
        "engine": {
            "name": host.info.name,
            "version": host.info.version,
            "api": ".".join(map(str, host.info.api_version)),
        },
        "image": {
            "reference": host.image.reference,
            "id": host.image.id,
            "digest": host.image.digest,
            "stand_in": host.image.standin,
        },
        "gdal_version": host.image.version,
        "tier": host.tier(settings),
    }
    paths = [
        DoctorRow("engine", "path map", "ok", f"{inside} is {outside} for the engine")
        for inside, outside in hosting.paths.map.pairs
    ]
    return [*_engine(host, settings), *_passed_over(hosting), *paths, *_image(host, settings)], facts


def _cluster(settings: Settings) -> Iterator[DoctorRow]:
    """The rows of the cluster. If calls cannot run, they show why."""
    if not settings.on_cluster:
        return
    try:
        for name, finding in findings(settings):
            yield DoctorRow("cluster", name, *finding)
    except SandboxError as error:
        yield failed_row("cluster", "API", error)


def failed_row(group: str, name: str, error: SandboxError, image: str | None = None) -> DoctorRow:
    """The row of an error. The last line of an error about engines is the remedy; it is shown once."""
    found, _, remedy = str(error).rpartition("\n")
    if isinstance(error, ImageMissing):
        option = ("--image", image) if image else ()
        found, remedy = str(error), f"Get the image: {shlex.join((*program(), 'setup', *option))}"
    return DoctorRow(group, name, "failed", found or remedy, remedy if found else AGAIN)


def _engine(host: Host, settings: Settings) -> Iterator[DoctorRow]:
    info = host.info
    value = f"{info.name} {info.version} at {info.address}, API {'.'.join(map(str, info.api_version))}"
    yield DoctorRow("engine", "engine", "ok", value)
    if info.other_hosts:  # its containers run on other machines, which the rows of the cluster describe
        return
    if advised := ADVISED.get(info.name):
        power = "no: the server itself is root, and no socket is"
        if info.rootless:
            power = "yes: control groups with memory, pids and cpu are delegated to this user"
        fix = f"{'.'.join(map(str, advised))} has every fix that was published; older packages may have them without saying so. Update it."
        yield _warning_if(
            numbers(info.version) < advised, "engine", "runtime", f"{info.name} {info.version}", fix
        )
    else:
        power = (
            "yes" if info.rootless else "no: everybody who may use the engine's socket is root on this host"
        )
    yield DoctorRow("engine", "rootless", "ok", power)
    modules = [option for option in info.security_options if "apparmor" in option or "selinux" in option]
    value = ", ".join(modules) or "neither AppArmor nor SELinux"
    fix = "Enable AppArmor or SELinux on this host for one more barrier; calls run without it."
    yield _warning_if(not modules, "engine", "security module", value, fix)
    tier = f"{host.tier(settings)}" + ("" if settings.runtime or advised else " (gVisor: --runtime runsc)")
    yield DoctorRow("engine", "tier", "ok", tier)


def _passed_over(hosting: Hosting) -> Iterator[DoctorRow]:
    """The engines that were tried before the one in use, which are not faults. Engines that are not installed share a
    row.
    """
    absent: dict[str, list[str]] = {}
    for engine in hosting.passed_over:
        if engine.absent:
            absent.setdefault(engine.reason, []).append(engine.candidate)
            continue
        fix = "Another engine is used. To use this one, remove the reason, or name it with --engine."
        yield DoctorRow("engine", "passed over", "warning", str(engine), fix)
    for reason, names in absent.items():
        yield DoctorRow("engine", "passed over", "ok", f"{reason}: {', '.join(names)}")


def _warning_if(wrong: bool, group: str, name: str, value: str, fix: str) -> DoctorRow:  # noqa: FBT001 - the question itself
    return DoctorRow(group, name, "warning", value, fix) if wrong else DoctorRow(group, name, "ok", value)


def _image(host: Host, settings: Settings) -> Iterator[DoctorRow]:
    """The image, and whether the catalogue matches it.

    Set-up examined the image itself, unless it is the image of the packaged catalogue.
    """
    image = host.image
    value = f"{image.reference}, a local stand-in" if image.standin else image.reference
    fix = f"Where the registry can be reached: docker pull {OFFICIAL['full']}"
    yield _warning_if(image.standin, "image", "image", value, fix)
    yield DoctorRow("image", "digest", "ok", image.digest)
    warning = version_warning(image.reference, image.version)
    yield _warning_if(warning is not None, "image", "GDAL", image.version, warning or "")
    yield from _attested(host, "attestation")
    known = catalogue_of(store.select(settings.state_dir, settings.image))
    if reason := known.incompatible(image.version):
        yield DoctorRow("catalogue", "GDAL", "failed", reason, "Run `gdal-mcp setup`, then doctor again.")
    else:
        yield DoctorRow("catalogue", "GDAL", "ok", known.summary)
    yield from _faults(probe(host.engine, image.id, image.digest, settings.state_dir))


def _faults(probed: Probed) -> Iterator[DoctorRow]:
    """The known faults of GDAL: a row for each, with its state in this image and its workaround."""
    for name, fault in faults().items():
        state = probed.state(name)
        value = "absent" if state is FaultState.ABSENT else f"{_FAULT_STATES[state]}. {fault.workaround}"
        unexpected = fault.probe and state is FaultState.UNKNOWN
        fix = "The probe did not run in this image. The fault is treated as present."
        yield _warning_if(unexpected, "fault", name, value, fix)


def _further(hosting: Hosting, boxes: Sequence[Toolbox]) -> Iterator[DoctorRow]:
    """The images of the other toolboxes, attested again."""
    for box in boxes:
        try:
            host = hosting.ready(box, fresh=True)
        except SandboxError as error:
            fix = f"Run `{box.image.setup}`, then doctor again."
            yield DoctorRow(f"image {box.name}", "ready", "failed", str(error), fix)
            continue
        value = f"{host.image.reference}, {box.title} {host.image.version}"
        yield DoctorRow(f"image {box.name}", "image", "ok", value)
        yield DoctorRow(f"image {box.name}", "digest", "ok", host.image.digest)
        yield from _attested(host, f"attestation {box.name}")


def _attested(host: Host, group: str) -> Iterator[DoctorRow]:
    for row in host.attested:
        value = f"{row.found}" if row.ok else f"asked {row.asked}, found {row.found}"
        state: State = "warning" if row.verdict == "warning" else "ok" if row.ok else "failed"
        yield DoctorRow(group, row.name, state, value)


def _workspaces(workspaces: Workspaces, hosting: Hosting, settings: Settings) -> Iterator[DoctorRow]:
    uid, gid = hosting.templates.user()
    narrow = settings.mount_scope == "inputs"
    sees = "inputs: only what it names; none waits" if narrow else "workspaces: the whole of each"
    yield DoctorRow("workspace", "a call's container sees", "ok", sees)
    for workspace in workspaces.items:
        root, mode = workspace.root, "read-write" if workspace.writable else "read-only"
        if workspace.writable and not os.access(root, os.W_OK):
            fix = "Correct its permissions, or use --workspace-ro."
            yield DoctorRow("workspace", str(root), "failed", "not writable by this server", fix)
        elif not hosting.templates.readable(root):
            value = f"{mode}, but containers run as {uid}:{gid}, which cannot read it"
            fix = f"chmod o+rx {root}, or give it to a user that is not root."
            yield DoctorRow("workspace", str(root), "failed", value, fix)
        else:
            yield DoctorRow("workspace", str(root), "ok", f"{mode}, containers run as {uid}:{gid}")
            yield _pipes(root, hosting.covers_paths())


def _pipes(root: Path, covered: bool | None, most: int = MOST_ENTRIES) -> DoctorRow:  # noqa: FBT001 - what the engine does
    """Warns if a call could read data that programs on the host exchange through a named pipe.

    `covered` is True if the engine mounts /dev/null on named pipes; None if that is unknown.
    """
    pipes = named_pipes(root, most)
    shown = ", ".join(pipes.paths[:1]) + (f" and {len(pipes.paths) - 1} more" if len(pipes.paths) > 1 else "")
    if pipes.paths and not covered:
        fix = "Move them out of the workspace: a call can read what is written to them."
        known = (
            "open to calls" if covered is False else "unknown: no engine is in use, which would cover them"
        )
        return DoctorRow("workspace", "named pipes", "warning", f"{shown}: {known}", fix)
    if not pipes.complete:
        fix = "Choose a smaller workspace, or use --mount-scope inputs."
        return DoctorRow(
            "workspace", "named pipes", "warning", f"unknown: not all of {root} was looked at", fix
        )
    closed = f"{shown}: covered by /dev/null in every container" if pipes.paths else f"none in {root}"
    return DoctorRow("workspace", "named pipes", "ok", closed)


def _storage(area: StagingArea) -> DoctorRow:
    """Tries what the file system of a writable workspace supports."""
    try:
        replaces = area.replaces()
    except SandboxError as error:
        return failed_row("workspace", "storage", error)
    value = f"{area.workspace.root} {'can' if replaces else 'cannot'} swap two names at once"
    fix = "Calls that would replace a file are refused: write to new names, or keep it on ext4, xfs, btrfs, tmpfs or overlayfs."
    return _warning_if(not replaces, "workspace", "storage", value, fix)


def _records(settings: Settings) -> Iterator[DoctorRow]:
    verification = verify(settings.state.audit)
    if not is_lasting(settings.state_dir):
        fix = f"docker run -v gdal-mcp:{settings.state_dir} keeps them in a volume."
        yield DoctorRow("records", "kept", "warning", "in this container, and lost with it", fix)
    if verification.ok:
        value = f"{verification.records} records, chain whole, {settings.state_dir}"
        yield DoctorRow("records", "audit", "ok", value)
    else:
        fix = "Keep the file as evidence, then move it and audit.head away to begin a new one."
        yield DoctorRow("records", "audit", "failed", verification.reason, fix)


def _policy(settings: Settings, policy: Policy) -> Iterator[DoctorRow]:
    """Warnings about a policy that allows writes without approval, or calls without authentication."""
    never = settings.approval == "never"
    value = "never: calls write without approval" if never else str(settings.approval)
    yield _warning_if(never, "policy", "approval", value, "Leave --approval out to ask before writes.")
    freed = [rule for rule in policy.rules if rule.decision == "allow" and rule.effects - {Effect.READ}]
    if freed:
        value = f"{policy.source}: {len(freed)} rules let calls write without approval"
        fix = "Leave out the rules that allow create, replace or destroy, to ask before those."
        yield DoctorRow("policy", "writes", "warning", value, fix)
    if settings.no_auth:
        fix = "Make a token with `gdal-mcp token new`, and leave --no-auth out."
        authentication = "none: everybody who reaches the port acts as the user who runs the server"
        yield DoctorRow("policy", "authentication", "warning", authentication, fix)
