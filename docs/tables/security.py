"""Tables for a security review: the settings of a container, promises and limitations, attacks and faults."""

from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from pathlib import PurePosixPath
from typing import Any

from docs.promises import marks, promises
from docs.tables.markdown import Lines, Parts, rows_of, table, words
from sandbox.engine import EngineInfo
from sandbox.engines.docker_spec import create_body
from sandbox.escape import cis
from sandbox.escape.rules import ATTEMPTS, CALLS, SIGHT
from sandbox.isolation.measured import FACTS, LIMITS_IN_FORCE
from sandbox.template import STAGING_TARGET, Limits, Mount, SandboxTemplate, host_source
from tests.security.attacks.table import TABLE

# The ways in which the attacks of tests/security/attacks/table.py end, by the letter of their rows.
_ENDS = {
    "V": "refused before a container is started",
    "S": "opened in a container, where there is nothing to reach",
    "A": "runs and does only what it says",
    "K": "ended by a limit",
    "F": "refused because it is certain to break a limit",
}


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


def _faults() -> Lines:
    rows = (
        (row["fault"], f"`{row['code']}`", str(row["seconds"]), row["left"])
        for row in rows_of("faults.toml")["fault"]
    )
    yield from table(("fault", "the caller gets", "within seconds", "what is left"), rows)


PARTS: Parts = {
    "hardening": _hardening,
    "cis": _cis,
    "promises": _promises,
    "limitations": _limitations,
    "attacks": _attacks,
    "peers": _peers,
    "faults": _faults,
}
