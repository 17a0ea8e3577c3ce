"""Fills the generated parts of the documentation from the code.

A part lies between `<!-- generated: NAME -->` and `<!-- end -->` in README.md, SECURITY.md, CONTRIBUTING.md or docs/.
`--check` writes nothing and exits with 1 when a part is not what the code says now.

Invariants:
* the same text on every host and with every Python version, so that a check never fails for where it runs;
* a container setting without a reason here, a reason without its setting, and likewise an error code, is an error:
  neither can be added or dropped without its sentence.
"""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from gdal_mcp import cli
from gdal_mcp.catalogue.load import catalogue
from gdal_mcp.catalogue.model import Algorithm, Role
from gdal_mcp.errors import Code, Stage
from gdal_mcp.fileops import ALWAYS_ASKED, FILE_OPERATIONS
from gdal_mcp.mcp.prompts import prompts
from gdal_mcp.settings import TOOLSETS, Settings
from gdal_mcp.settings_table import describe
from gdal_mcp.surface import surface
from gdal_mcp.tools.listing import CLASSIC, core
from gdal_mcp.tools.model import Tool
from sandbox.hardening import EngineFacts, create_body
from sandbox.template import STAGING_TARGET, Limits, Mount, SandboxTemplate

ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- generated: {name} -->", "<!-- end -->"
_BEGIN = re.compile(r"<!-- generated: (.*?) -->")
_ABBREVIATED = re.compile(r"\b(e\.g|i\.e)\. ")


class Drift(Exception):
    """Documentation and code do not fit together."""


MEANINGS: Mapping[Code, str] = {
    Code.PATH_NOT_ALLOWED: "a path lies outside the workspaces, is reserved, or is reached through a link that leaves them",
    Code.NOT_FOUND: "there is no such tool, or nothing at an allowed path",
    Code.INVALID_ARGUMENT: "an argument does not fit the input schema, or GDAL has no such option or value",
    Code.NETWORK_BLOCKED: "the argument would need a network, which no call has",
    Code.DENIED: "a person said no, none has said yes yet (`requiresConfirmation` tells how), or the policy or the token forbids it",
    Code.APPROVAL_EXPIRED: "the yes came too late, was used already, or was for another plan",
    Code.RATE_LIMITED: "this principal has used what the policy gives it for now",
    Code.BUSY: "too many calls are waiting",
    Code.TIMEOUT: "the call reached its time limit and its container was removed, or was certain to reach it and never began",
    Code.MEMORY_LIMIT: "GDAL reached its memory limit, or was certain to",
    Code.DISK_LIMIT: "the output reached a limit of size or count, or was certain to, or staging could not be used",
    Code.OUTPUT_LIMIT: "GDAL printed more than is read",
    Code.GDAL_ERROR: "GDAL reported an error or crashed; its own words are under `untrusted`",
    Code.OUTPUT_REJECTED: "what was left in staging may not be published, so nothing was",
    Code.ENGINE_UNAVAILABLE: "the engine or the image is not there, or does not isolate as asked",
    Code.CANCELLED: "the client, or a person in the console, cancelled; the container was removed",
    Code.INTERNAL: "a fault of the server, or a call that could not be recorded",
}

SETS: Mapping[str, str] = {
    "core": "what is picked by hand, and the four tools that reach the rest; listed when nothing is said",
    "raster": "one tool for each algorithm of `gdal raster`",
    "vector": "one tool for each algorithm of `gdal vector`",
    "mdim": "multidimensional data, such as netCDF and Zarr",
    "dataset": "identify, check, copy, rename and delete datasets of any kind",
    "driver": "what belongs to one format, such as the check of a Cloud Optimized GeoTIFF",
    "vsi": "files, folders and seek-optimised ZIP archives",
    "classic": "the eight classic programs",
    "all": "everything",
}

ROLES: Mapping[Role, str] = {
    Role.INPUT: "looked up in the workspaces; a dataset or file that is read",
    Role.OUTPUT: "sent to staging and published when all went well",
    Role.UPDATE: "worked on as a copy, which then takes the place of the file",
    Role.SIDECAR: "a further file beside the output",
    Role.VALUE: "checked: a number, a choice, a name, an option of the allow-lists; opens nothing",
    Role.EXPRESSION: "read by a parser of ours: SQL, formulas, geometries, pipelines",
    Role.HOST_OWNED: "decided by the server, such as whether to replace",
    Role.FORBIDDEN: "never passed on, with the reason in the answer",
}

REASONS: Mapping[str, str] = {
    "AttachStderr": "GDAL's messages, kept even when the call is killed",
    "AttachStdin": "the one job comes in here",
    "AttachStdout": "frames go out here, length-limited and strictly parsed",
    "CapDrop": "no capability, whatever the image or the engine adds by default",
    "Cmd": "a few lines that read our worker from stdin and run it if its SHA-256 is the one named here; nothing is mounted to bring it in",
    "Dns": "otherwise resolv.conf would show the host's name servers",
    "Entrypoint": "not the image's",
    "Env": "our own environment; every variable of the image and the engine is removed",
    "Healthcheck": "nothing but the job ever runs inside",
    "Hostname": "fixed, so that outputs do not depend on the container",
    "Image": "by content id, never by a tag; never pulled during a call",
    "IpcMode": "no shared memory",
    "Labels": "whose call this is and when it must be gone, for the reaper",
    "LogConfig": "output is never written to the host's disk",
    "MaskedPaths": "what the kernel tells about the host, and devices that no job needs",
    "Memory": "the kernel ends a job that takes more",
    "MemorySwap": "memory and swap together, so no swap",
    "Mounts": "the workspaces at their own paths, read-only; one private output folder; nothing else of the host",
    "NanoCpus": "processor time",
    "NetworkDisabled": "a network namespace with no interface at all",
    "NetworkMode": "no network",
    "OpenStdin": "the one job comes in here",
    "PidsLimit": "processes and threads",
    "ReadonlyPaths": "kernel settings",
    "ReadonlyRootfs": "nothing of the image can be changed",
    "RestartPolicy": "a container runs once",
    "SecurityOpt": "no privilege can be gained, and system calls are filtered by our own profile, which denies by default",
    "StdinOnce": "stdin ends when the server does, and the container with it",
    "StopSignal": "nothing can ignore it",
    "Tmpfs": "the only scratch space, without programs or devices; other calls' staging is covered by an empty folder",
    "Ulimits": "no core dumps; processor seconds, data segment, size of a file, open files",
    "User": "the workspace owner's ids, never root",
    "WorkingDir": "the scratch space",
    "CgroupnsMode": "its own control groups (only with cgroup version 2)",
}


def tools() -> Iterator[str]:
    rows = [
        (f"`{tool.name}`", _effect(tool), first_sentence(tool.description)) for tool in (*core(), *CLASSIC)
    ]
    yield from table(("tool", "effect", "what it does"), rows)


def _effect(tool: Tool) -> str:
    if not tool.runs:
        return "tells"
    return "writes, may replace" if tool.replaces else "writes" if tool.writes else "reads"


def toolsets() -> Iterator[str]:
    """What each toolset lists, as a server with it alone does."""
    _complete("toolset", set(TOOLSETS), set(SETS))
    rows = [(f"`{name}`", str(len(_listed(name))), SETS[name]) for name in TOOLSETS]
    yield from table(("toolset", "tools", "what is in it"), rows)


def _listed(toolset: str) -> tuple[Tool, ...]:
    chosen = Settings.model_construct(toolsets=(toolset,), tools=(), exclude_tools=(), read_only=False)
    return surface(chosen).listed


def algorithms() -> Iterator[str]:
    """Every command of `gdal` by its first word; those marked run their last part on the host."""
    groups: dict[str, list[str]] = {}
    for path in catalogue().algorithms:
        first, _, rest = path.partition(" ")
        groups.setdefault(first if rest else "", []).append(f"{rest or first}{_mark(path)}")
    rows = [
        (f"`{name}`" if name else "", str(len(found)), ", ".join(found)) for name, found in groups.items()
    ]
    yield from table(("gdal", "commands", "names"), rows)
    yield ""
    yield (
        "\\* a file operation: what belongs to a dataset is told by its name, and links are not followed. "
        "\\*\\* And a person is asked each time, whatever `approval` says."
    )


def _mark(path: str) -> str:
    return (path in FILE_OPERATIONS) * "\\*" + (path in ALWAYS_ASKED) * "\\*"


def roles() -> Iterator[str]:
    """How many arguments of the algorithms and of the steps of pipelines have which role."""
    _complete("role", set(Role), set(ROLES))
    found = catalogue()
    algorithms = _count(found.algorithms.values())
    steps = _count(step.algorithm for step in found.steps.values())
    rows = [(f"`{role}`", ROLES[role], str(algorithms[role]), str(steps[role])) for role in Role]
    yield from table(("role", "what the server does with it", "of algorithms", "of steps"), rows)


def _count(algorithms: Iterable[Algorithm]) -> Counter[Role]:
    return Counter(argument.role for one in algorithms for argument in one.arguments)


def prompt_rows() -> Iterator[str]:
    rows = [
        (
            f"`{one.name}`",
            ", ".join(f"`{value.name}`" for value in one.values),
            first_sentence(one.description),
        )
        for one in prompts().values()
    ]
    yield from table(("prompt", "values", "what it is for"), rows)


def settings() -> Iterator[str]:
    rows = [
        (f"`{row.name}`", row.type, f"`{row.default}`" if row.default else "", row.description)
        for row in describe()
    ]
    yield from table(("setting", "type", "default", "what it does"), rows)
    yield ""
    yield (
        "The names are those of the TOML file. The variable is `GDAL_MCP_` and the name in capitals, such as "
        "`GDAL_MCP_TIMEOUT_SECONDS`; lists of folders are separated as in `PATH`, lists of names by commas. The option is the name with dashes, such as "
        "`--timeout-seconds`, but `--workspace` and `--workspace-ro` name one folder each and are repeatable, and "
        "those that are true or false take no value: `--read-only` turns one on, `--no-preview` turns `preview` off."
    )


def errors() -> Iterator[str]:
    _complete("error code", set(Code), set(MEANINGS))
    yield from table(("code", "what happened"), ((f"`{code}`", MEANINGS[code]) for code in Code))
    yield ""
    yield f"Stages, in order: {', '.join(f'`{stage}`' for stage in Stage)}."


def commands() -> Iterator[str]:
    yield from table(("command", "what it does"), _commands(cli.build_parser(), "gdal-mcp"))
    yield ""
    yield f"{str(cli.__doc__).partition('. ')[2].strip()} Commands that use the settings take each of them as an option."


def _commands(parser: argparse.ArgumentParser, name: str) -> Iterator[tuple[str, str]]:
    """One row for each command at the end of a branch."""
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to ask what a parser knows
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for word, below in action.choices.items():
                yield from _commands(below, f"{name} {word}")
            return
    words = [_usage(action) for action in parser._actions if _is_own(action)]  # noqa: SLF001
    yield f"`{' '.join([name, *words])}`", _sentence(parser.description or _help_of(name))


def _help_of(name: str) -> str:
    """What the parser above says of a command that has no description of its own."""
    word = name.split()[1]
    for action in cli.build_parser()._actions:  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            return next(str(one.help) for one in action._choices_actions if one.dest == word)  # noqa: SLF001
    raise Drift(f"`{name}` has no help text")


def _is_own(action: argparse.Action) -> bool:
    return action.dest != "help" and action.dest not in Settings.model_fields


def _usage(action: argparse.Action) -> str:
    shown = str(action.metavar or action.dest.upper())
    if not action.option_strings:
        return shown
    if action.choices:
        shown = "|".join(map(str, action.choices))
    return f"[{action.option_strings[-1]}{'' if action.nargs == 0 else f' {shown}'}]"


def hardening() -> Iterator[str]:
    """Every field of the create body: those that say something with their reason, the others in one sentence."""
    body = _sample_body()
    flat = {**{name: value for name, value in body.items() if name != "HostConfig"}, **body["HostConfig"]}
    said = {name: value for name, value in flat.items() if not _says_nothing(value)}
    _complete("container setting", set(said), set(REASONS))
    yield from table(
        ("setting", "value", "why"),
        ((f"`{name}`", _value(name, said[name]), REASONS[name]) for name in sorted(said)),
    )
    yield ""
    unset = ", ".join(f"`{name}`" for name in sorted(set(flat) - set(said)))
    yield f"Asked for as empty, zero or false, and read back too: {unset}."


def _sample_body() -> dict[str, Any]:
    """For a workspace `/maps`, on the newest kind of engine."""
    template = SandboxTemplate(
        image="sha256:...",
        command=("python3", "-I", "-c", "..."),
        user=(1000, 1000),
        limits=Limits(),
        mounts=(
            Mount("/maps", PurePosixPath("/maps")),
            Mount("/maps/.gdal-mcp/...", STAGING_TARGET, read_only=False),
        ),
        masks=(PurePosixPath("/maps/.gdal-mcp"),),
    )
    facts = EngineFacts((1, 44), "x86_64", "2", ("name=seccomp,profile=default",))
    return create_body(template, facts, {"io.gdal-mcp.*": "..."}, ())


def _says_nothing(value: Any) -> bool:
    return value in ("", 0, False, None, [], {})


def _value(name: str, value: Any) -> str:
    match name:
        case "Env":
            return "see `gdal_mcp/environment.py`"
        case "Mounts":
            return "<br>".join(f"`{row['Target']}` {'ro' if row['ReadOnly'] else 'rw'}" for row in value)
        case "SecurityOpt":
            return "`no-new-privileges:true`, `seccomp=sandbox/seccomp.json`"
        case "Ulimits":
            return ", ".join(f"`{row['Name']}={row['Soft']}`" for row in value)
        case "Tmpfs" | "Labels":
            return "<br>".join(f"`{key}` {text}" for key, text in value.items())
        case "Healthcheck" | "LogConfig" | "RestartPolicy":
            first = next(iter(value.values()))
            return f"`{first[0] if isinstance(first, list) else first}`"
        case _:
            return ", ".join(f"`{one}`" for one in value) if isinstance(value, list) else f"`{_plain(value)}`"


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


PARTS: Mapping[str, Callable[[], Iterable[str]]] = {
    "tools": tools,
    "toolsets": toolsets,
    "algorithms": algorithms,
    "roles": roles,
    "prompts": prompt_rows,
    "settings": settings,
    "errors": errors,
    "hardening": hardening,
    "cli": commands,
}


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    for cells in (header, ["---"] * len(header), *rows):
        yield "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def first_sentence(text: str) -> str:
    """Up to the first full stop that ends a sentence."""
    guarded = _ABBREVIATED.sub(lambda found: found[0].replace(". ", ".\0"), text)
    return _sentence(guarded.partition(". ")[0].replace("\0", " "))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}".rstrip(".") + "."


def _complete(what: str, needed: set[Any], given: set[Any]) -> None:
    if missing := sorted(map(str, needed - given)):
        raise Drift(f"{what} without a sentence in docs/__main__.py: {', '.join(missing)}")
    if extra := sorted(map(str, given - needed)):
        raise Drift(f"{what} in docs/__main__.py that the code does not have: {', '.join(extra)}")


def filled(text: str, parts: Mapping[str, Callable[[], Iterable[str]]] = PARTS) -> str:
    """The text with every generated part written anew. Raises Drift for a part that is unknown or does not end."""
    pieces, position = [], 0
    while found := _BEGIN.search(text, position):
        name, end = found[1], text.find(END, found.end())
        following = _BEGIN.search(text, found.end())
        if name not in parts:
            raise Drift(f"there is no generated part {name!r}; there are {', '.join(sorted(parts))}")
        if end < 0 or (following and following.start() < end):
            raise Drift(f"the generated part {name!r} has no {END}")
        pieces += [text[position : found.end()], "\n", *(f"{line}\n" for line in parts[name]()), END]
        position = end + len(END)
    return "".join([*pieces, text[position:]])


def pages(root: Path = ROOT) -> list[Path]:
    """Where generated parts may be."""
    named = [root / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md")]
    return [page for page in named if page.exists()] + sorted((root / "docs").rglob("*.md"))


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m docs", description="Writes the generated parts of the documentation."
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 when a part is out of date"
    )
    check = parser.parse_args(arguments).check
    stale = []
    for page in pages(root):
        old = page.read_text(encoding="utf-8")
        try:
            new = filled(old)
        except Drift as drift:
            sys.stderr.write(f"{page.relative_to(root)}: {drift}\n")
            return 1
        if new != old:
            stale.append(page)
            if not check:
                page.write_text(new, encoding="utf-8")
    for page in stale:
        sys.stdout.write(
            f"{page.relative_to(root)}: {'out of date; run `make docs`' if check else 'written'}\n"
        )
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
