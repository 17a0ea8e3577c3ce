"""The generated parts of the documentation: tables made from the code, with sentences from the TOML files in this folder."""

import argparse
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from pathlib import PurePosixPath
from typing import Any

from bench import nodes
from docs import distribution, hosts
from docs.promises import ROOT, Drift, marks, promises
from gdal_mcp.cli.exits import meanings
from gdal_mcp.cli.parsers import build_parser
from gdal_mcp.errors import Code, Stage
from gdal_mcp.server.toolboxes import toolboxes
from gdal_mcp.settings import Settings
from gdal_mcp.settings.reference import describe
from gdal_mcp.toolboxes.base import Tool
from gdal_mcp.toolboxes.gdal.catalogue.load import packaged
from gdal_mcp.toolboxes.gdal.catalogue.model import Role
from gdal_mcp.toolboxes.gdal.datasets.operations import ALWAYS_ASKED, FILE_OPERATIONS
from gdal_mcp.toolboxes.gdal.discovery.prompts import prompts
from gdal_mcp.toolboxes.gdal.faults import faults
from gdal_mcp.toolboxes.gdal.preflight.predict import effect
from gdal_mcp.tools.classic import CLASSIC
from gdal_mcp.tools.listing import core
from gdal_mcp.tools.toolbox import TOOLSETS
from sandbox.engine import EngineInfo
from sandbox.engines.discovery import endpoints
from sandbox.engines.docker_spec import create_body
from sandbox.escape import cis
from sandbox.escape.rules import ATTEMPTS, CALLS, SIGHT
from sandbox.isolation.measured import FACTS, LIMITS_IN_FORCE
from sandbox.template import STAGING_TARGET, Limits, Mount, SandboxTemplate, host_source
from tests.engines.checks import CHECKS
from tests.engines.known import KNOWN
from tests.security.attacks.table import TABLE

Lines = Iterator[str]
Parts = Mapping[str, Callable[[], Iterable[str]]]
_ABBREVIATED = re.compile(r"\b(e\.g|i\.e)\. ")


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Lines:
    for cells in (header, ["---"] * len(header), *rows):
        yield "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def first_sentence(text: str) -> str:
    """The text up to the end of its first sentence."""
    guarded = _ABBREVIATED.sub(lambda match: match[0].replace(". ", ".\0"), text)
    return _sentence(guarded.partition(". ")[0].replace("\0", " "))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}".rstrip(".") + "."


def rows_of(name: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / "docs" / name).read_text(encoding="utf-8"))


def words(what: str, subjects: Iterable[object]) -> dict[str, str]:
    """The sentences of docs/words.toml for these subjects. Raises Drift unless the subjects and the sentences match
    exactly.
    """
    sentences, needed = rows_of("words.toml")[what], set(map(str, subjects))
    if missing := sorted(needed - set(sentences)):
        raise Drift(f"without a sentence in [{what}] of docs/words.toml: {', '.join(missing)}")
    if extra := sorted(set(sentences) - needed):
        raise Drift(f"in [{what}] of docs/words.toml and not in the code: {', '.join(extra)}")
    return dict(sentences)


def _tools() -> Lines:
    def effect(tool: Tool) -> str:
        if not tool.runs:
            return "tells"
        return "writes, may replace" if tool.replaces else "writes" if tool.writes else "reads"

    rows = [
        (f"`{tool.name}`", effect(tool), first_sentence(tool.description))
        for tool in (*core(packaged()), *CLASSIC)
    ]
    yield from table(("tool", "effect", "what it does"), rows)


def _toolsets() -> Lines:
    """The tools of each toolset, as a server with only that toolset lists them."""
    rows = []
    for name, text in words("toolsets", TOOLSETS).items():
        alone = Settings.model_construct(toolsets=(name,), tools=(), exclude_tools=(), read_only=False)
        rows.append((f"`{name}`", str(len(toolboxes(alone).surface(alone).listed)), text))
    yield from table(("toolset", "tools", "what is in it"), rows)


def _algorithms() -> Lines:
    """Every command of `gdal` by its first word, with a mark for file operations."""
    groups: dict[str, list[str]] = {}
    for path in packaged().algorithms:
        first, _, rest = path.partition(" ")
        mark = (path in FILE_OPERATIONS) * "\\*" + (path in ALWAYS_ASKED) * "\\*"
        groups.setdefault(first if rest else "", []).append(f"{rest or first}{mark}")
    rows = [
        (f"`{name}`" if name else "", str(len(names)), ", ".join(names)) for name, names in groups.items()
    ]
    yield from table(("gdal", "commands", "names"), rows)
    yield ""
    yield (
        "\\* a file operation: the files of a dataset are recognised by their names, and links are not followed. "
        "\\*\\* Also asks for approval each time, whatever `approval` says."
    )


def _predictions() -> Lines:
    """The commands of `gdal` by what the check of a workflow predicts about their outputs."""
    rows: dict[str, list[str]] = {
        "raster: size, extent, CRS, bands, data type, nodata value": [],
        "layer: CRS, geometry type, fields": [],
        "as its last step or its input": [],
        "not predicted": [],
        "no output": [],
        "changes files in place, so it cannot be a step": [],
    }
    raster, layer, by_step, unknown, reads, changes = rows.values()
    for path, algorithm in packaged().algorithms.items():
        roles = {argument.role for argument in algorithm.arguments}
        kind = {"raster": raster, "layer": layer}.get(effect(path))
        if kind is None and (path == "convert" or path.endswith("pipeline")):
            kind = by_step
        if kind is None:
            kind = changes if Role.UPDATE in roles else unknown if Role.OUTPUT in roles else reads
        kind.append(f"`{path}`")
    yield from table(
        ("output", "commands", "names"),
        ((name, str(len(paths)), ", ".join(paths)) for name, paths in rows.items()),
    )


def _roles() -> Lines:
    """Numbers of arguments of algorithms and pipeline steps, by role."""
    catalogue = packaged()
    algorithms = Counter(
        argument.role for algorithm in catalogue.algorithms.values() for argument in algorithm.arguments
    )
    steps = Counter(
        argument.role for step in catalogue.steps.values() for argument in step.algorithm.arguments
    )
    sentences = words("roles", Role)
    rows = [(f"`{role}`", sentences[str(role)], str(algorithms[role]), str(steps[role])) for role in Role]
    yield from table(("role", "what the server does with it", "of algorithms", "of steps"), rows)


def _prompts() -> Lines:
    rows = [
        (
            f"`{prompt.name}`",
            ", ".join(f"`{value.name}`" for value in prompt.values),
            first_sentence(prompt.description),
        )
        for prompt in prompts(packaged()).values()
    ]
    yield from table(("prompt", "values", "what it is for"), rows)


def _settings() -> Lines:
    rows = [
        (f"`{row.name}`", row.type, f"`{row.default}`" if row.default else "", row.description)
        for row in describe()
    ]
    yield from table(("setting", "type", "default", "what it does"), rows)
    yield ""
    yield (
        "The names are those of the TOML file. The variable is `GDAL_MCP_` and the name in capitals, such as "
        "`GDAL_MCP_TIMEOUT_SECONDS`; lists of folders are separated as in `PATH`, lists of names by commas. The option is the name "
        "with dashes, such as `--timeout-seconds`, but `--workspace` and `--workspace-ro` name one folder each and are repeatable, "
        "and those that are true or false take no value: `--read-only` turns one on, `--no-preview` turns `preview` off."
    )


def _errors() -> Lines:
    sentences = words("errors", Code)
    yield from table(("code", "what happened"), ((f"`{code}`", sentences[code]) for code in Code))
    yield ""
    yield f"Stages, in order: {', '.join(f'`{stage}`' for stage in Stage)}."


def _cli() -> Lines:
    yield from table(("command", "what it does"), _commands(build_parser(), "gdal-mcp"))
    yield ""
    yield f"{meanings()} Commands that use the settings take each of them as an option."


def _commands(parser: argparse.ArgumentParser, name: str) -> Iterator[tuple[str, str]]:
    """One row for each command that can be run. argparse has no public API for the commands of a parser."""
    actions = parser._actions  # noqa: SLF001
    group = next((action for action in actions if isinstance(action, argparse._SubParsersAction)), None)  # noqa: SLF001
    if group is None or not group.required:
        own = [
            action
            for action in actions
            if action is not group
            and action.dest not in {"help", *Settings.model_fields}
            and action.help is not argparse.SUPPRESS
        ]
        yield f"`{' '.join([name, *map(_usage, own)])}`", _sentence(parser.description or "")
    for word, below in group.choices.items() if group else ():
        yield from _commands(below, f"{name} {word}")


def _usage(action: argparse.Action) -> str:
    shown = str(action.metavar or action.dest.upper())
    if not action.option_strings:
        return {"?": f"[{shown}]", "*": f"[{shown} ...]"}.get(str(action.nargs), shown)
    if action.choices:
        shown = "|".join(map(str, action.choices))
    return f"[{action.option_strings[-1]}{'' if action.nargs == 0 else f' {shown}'}]"


def _hardening() -> Lines:
    """Every field of the create body: fields with a value in a table with their reason, the others in one sentence."""
    mounts = (
        Mount(host_source("/maps"), PurePosixPath("/maps")),
        Mount(host_source("/maps/.gdal-mcp/..."), STAGING_TARGET, read_only=False),
    )
    template = SandboxTemplate(
        image="sha256:...",
        command=("python3", "-I", "-c", "..."),
        user=(1000, 1000),
        limits=Limits(),
        mounts=mounts,
        masks=(PurePosixPath("/maps/.gdal-mcp"),),
    )
    info = EngineInfo(
        *("Docker", "25", (1, 44), "x86_64", "2"),
        *(("name=seccomp,profile=default",), False, (), "unix:///var/run/docker.sock", ""),
    )
    body = create_body(template, info, {"io.gdal-mcp.*": "..."}, ())
    flat = {**{name: value for name, value in body.items() if name != "HostConfig"}, **body["HostConfig"]}
    sentences = {name: value for name, value in flat.items() if value not in ("", 0, False, None, [], {})}
    reasons = words("hardening", sentences)
    rows = ((f"`{name}`", _value(name, sentences[name]), reasons[name]) for name in sorted(sentences))
    yield from table(("setting", "value", "why"), rows)
    yield ""
    unset = ", ".join(f"`{name}`" for name in sorted(set(flat) - set(sentences)))
    yield f"Asked for as empty, zero or false, and read back too: {unset}."


def _value(name: str, value: Any) -> str:
    match name:
        case "Env":
            return "see `gdal_mcp/toolboxes/gdal/environment.py`"
        case "Mounts":
            return "<br>".join(f"`{row['Target']}` {'ro' if row['ReadOnly'] else 'rw'}" for row in value)
        case "SecurityOpt":
            return "`no-new-privileges:true`, `seccomp=sandbox/isolation/seccomp.json`"
        case "Ulimits":
            return ", ".join(f"`{row['Name']}={row['Soft']}`" for row in value)
        case "Tmpfs" | "Labels":
            return "<br>".join(f"`{key}` {text}" for key, text in value.items())
        case "Healthcheck" | "LogConfig" | "RestartPolicy":
            first = next(iter(value.values()))
            return f"`{first[0] if isinstance(first, list) else first}`"
        case _:
            shown = value if isinstance(value, list) else [str(value).lower() if value is True else value]
            return ", ".join(f"`{part}`" for part in shown)


def _engines() -> Lines:
    rows = (
        (
            engine.name,
            engine.tried,
            f"{len(CHECKS) - len(engine.exemptions)} of {len(CHECKS)}",
            engine.outcome,
        )
        for engine in KNOWN
    )
    yield from table(("engine", "tried with", "checks passed", "so"), rows)


def _sockets() -> Lines:
    """The sockets for a user whose id and home folder are written as variables."""
    known = endpoints(None, {"HOME": "~", "XDG_RUNTIME_DIR": "$XDG_RUNTIME_DIR"})
    return table(
        ("engine", "socket"),
        ((endpoint.origin, f"`{endpoint.address.removeprefix('unix://')}`") for endpoint in known),
    )


def _exemptions() -> Lines:
    """One row for each reason, with all the checks that it applies to."""
    rows = [
        (engine.name, " ".join(f"`{exemption.check}`" for exemption in group), reason)
        for engine in KNOWN
        for reason, group in groupby(engine.exemptions, key=lambda exemption: exemption.reason)
    ]
    yield from table(("engine", "checks", "why not"), rows)


def _checks() -> Lines:
    yield from table(("check", "an engine"), ((f"`{name}`", check.__doc__) for name, check in CHECKS.items()))


def _cis() -> Lines:
    """Every check of section 5, including those that do not apply."""
    rules = (*ATTEMPTS.values(), CALLS, *SIGHT, *FACTS, *LIMITS_IN_FORCE)
    rows = []
    for check in cis.CHECKS:
        judges = [rule.name for rule in rules if check.number in rule.cis.split(", ")]
        rows.append((check.number, check.title, check.how, ", ".join(judges)))
    yield from table((cis.BENCHMARK, "check", "here", "judged by, among others"), rows)


def _promises() -> Lines:
    """One table for each area, in the order of the file, with the tests that carry each id."""
    known, tests = promises(), marks().tests
    for area, title in known.areas.items():
        yield from ("", f"## {title}", "")
        rows = (
            (f'<a id="{id_}"></a>`{id_}`', sentence, _tests(tests.get(id_, ())))
            for id_, sentence in known.sentences.items()
            if id_.partition(".")[0] == area
        )
        yield from table(("promise", "what holds", "tests"), rows)


def _tests(names: Iterable[str]) -> str:
    """The names of tests after the path of their module, both without what all of them share."""
    parts = (name.removeprefix("tests/").partition(".py::") for name in names)
    return "<br>".join(
        f"`{path}`: `{', '.join(test.removeprefix('test_') for _, _, test in group)}`"
        for path, group in groupby(parts, key=lambda part: part[0])
    )


def _limitations() -> Lines:
    rows = (
        (f'<a id="{row.id}"></a>{row.wish}', row.why, row.instead, f"`{row.id}`")
        for row in promises().limitations
    )
    yield from table(("we do not promise that", "why", "what there is instead", "id"), rows)


# The ways in which the attacks of tests/security/attacks/table.py end, by the letter of their rows.
_ENDS = {
    "V": "refused before a container is started",
    "S": "opened in a container, where there is nothing to reach",
    "A": "runs and does only what it says",
    "K": "ended by a limit",
    "F": "refused because it is certain to break a limit",
}


def _attacks() -> Lines:
    """The number of attacks, and of the calls that try them, for each way to end."""
    attacks, calls = Counter[str](), Counter[str]()
    for attack in TABLE.values():
        attacks[attack.letter] += 1
        calls[attack.letter] += len(attack.calls)
    rows = [(end, str(attacks[letter]), str(calls[letter])) for letter, end in _ENDS.items()]
    total = ("all", str(attacks.total()), str(calls.total()))
    yield from table(("how it ends", "attacks", "calls"), (*rows, total))


def _peers() -> Lines:
    rows = (
        (
            row["attack"],
            row["peers"],
            row["there"],
            row["here"],
            f"[`{row['claim']}`](promises.md#{row['claim']})",
        )
        for row in rows_of("peers.toml")["attack"]
    )
    yield from table(("attack", "server", "what it did", "here", "claim"), rows)


_TRANSPORTS = {"stdio": "stdio", "http": "HTTP"}


def _clients() -> Lines:
    """The results of each client, by the steps of tests/e2e/clients."""
    recorded = rows_of("clients.toml")
    rows = []
    for row in recorded["client"]:
        differs = "; ".join(f"{step}: {what}" for step, what in row.get("differs", {}).items())
        with_ = f" with {', '.join(row['with'])}" if "with" in row else ""
        version = f"`{row['package']}` {row['version']}{with_}"
        transports = ", ".join(_TRANSPORTS[name] for name in row.get("transports", ["stdio"]))
        rows.append((row["name"], version, transports, row["era"], differs or "everything works"))
    return [*table(("client", "version", "transport", "era", f"tried {recorded['tried']}"), rows)]


def _rooms() -> Lines:
    """The layers of the import contracts, each with its sentence."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    server, packages, sandbox = (
        contract["layers"] for contract in project["tool"]["importlinter"]["contracts"]
    )
    rooms = [layer.replace("gdal_mcp.", "") for layer in server]
    sentences = words("rooms", [*rooms, *packages[1:], *sandbox])
    yield ""
    rule = ["-" * 8]
    for layer in (*rooms, *rule, *packages[1:], *rule, *sandbox):
        yield f"    {layer:<36}{sentences.get(layer, '')}".rstrip()
    yield ""


def _decisions() -> Lines:
    for page in sorted((ROOT / "docs/adr").glob("0*.md")):
        number, _, title = (
            page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ").partition(". ")
        )
        yield f"- [{number}. {title}]({page.name})"


def _gdal_faults() -> Lines:
    """Known faults of GDAL, as `gdal-mcp doctor` shows them for the image in use."""
    for name, fault in faults().items():
        link = f"[{fault.seen}]({fault.upstream})" if fault.upstream else fault.seen
        yield f"- **`{name}`** ({link}; {'probed' if fault.probe else 'not probed'}). When: {fault.condition}. {fault.effect} {fault.workaround}"


def _faults() -> Lines:
    rows = (
        (row["fault"], f"`{row['code']}`", str(row["seconds"]), row["left"])
        for row in rows_of("faults.toml")["fault"]
    )
    yield from table(("fault", "the caller gets", "within seconds", "what is left"), rows)


PARTS: Parts = {
    "buttons": distribution.buttons,
    "tools": _tools,
    "toolsets": _toolsets,
    "algorithms": _algorithms,
    "predictions": _predictions,
    "roles": _roles,
    "prompts": _prompts,
    "settings": _settings,
    "errors": _errors,
    "cli": _cli,
    "rooms": _rooms,
    "decisions": _decisions,
    "hardening": _hardening,
    "engines": _engines,
    "sockets": _sockets,
    "hosts": lambda: table(hosts.COLUMNS, hosts.rows()),
    "engine-exemptions": _exemptions,
    "nodes": partial(nodes.table, nodes.Load(1000 / 60), nodes.Cluster()),
    "engine-checks": _checks,
    "cis": _cis,
    "promises": _promises,
    "limitations": _limitations,
    "attacks": _attacks,
    "peers": _peers,
    "clients": _clients,
    "faults": _faults,
    "gdal-faults": _gdal_faults,
}
