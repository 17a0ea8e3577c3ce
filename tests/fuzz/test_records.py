"""Files that the server reads back: logs, journals, settings, mounts. Any edit is noticed or has no effect; any text
ends typed.
"""

import json
import shutil
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gdal_mcp.policy.policy_file import load_policy
from gdal_mcp.policy.tokens import TokenStore
from gdal_mcp.records.audit import AuditLog, tail
from gdal_mcp.records.audit_files import AuditUnavailable
from gdal_mcp.records.audit_verification import verify
from gdal_mcp.settings import Settings, SettingsError, load_settings
from gdal_mcp.settings.pathmap import PathMap
from sandbox.errors import IsolationRefused, StagingFailed
from sandbox.mounted import submounts
from sandbox.workspace import RESERVED
from tests.fuzz.kit import anything, outcome, tries
from tests.quick import quick
from tests.unit.sandbox.staging_kit import CALL, area_at, publish, tree, write

# The audit log

HEADS = st.fixed_dictionaries({"seq": anything, "hash": st.just("0" * 64) | anything, "torn": anything})


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> AuditLog:
    new_log = AuditLog(tmp_path_factory.mktemp("audit") / "audit.jsonl")
    for number in range(6):
        new_log.append({"type": "call", "object": f"file-{number}.tif", "text": "é\n" * number})
    return new_log


@tries(50)
@given(head=st.binary(max_size=600) | (anything | HEADS).map(lambda value: json.dumps(value).encode()))
@pytest.mark.claim("audit.tamper-evident")
def test_any_head_beside_a_log_ends_typed(log: AuditLog, head: bytes):
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "audit.jsonl")
        shutil.copy(log.path, copy)
        copy.with_suffix(".head").write_bytes(head)
        assert not verify(copy).ok or json.loads(head) is not None
        outcome(AuditLog, copy, refused=AuditUnavailable)


@tries(30)
@given(
    data=st.binary(max_size=300)
    | st.lists(
        st.sampled_from((b"{}", b"[" * 3000, b"\n", b'{"seq":1}', b"\xff", b'{"seq":' + b"9" * 5000 + b"}")),
        max_size=6,
    ).map(b"\n".join)
)
def test_any_bytes_for_a_log_end_typed(data: bytes):
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "audit.jsonl")
        copy.write_bytes(data)
        with quick():
            assert verify(copy).ok == (data == b"")
            assert tail(copy, 5) == ()
        outcome(AuditLog, copy, refused=AuditUnavailable)


# The journal of a publication


def changed_in(value: Any, path: list[int], new: Any) -> Any:
    """A JSON value with one place replaced by another value; the place is found by counting."""
    if isinstance(value, dict) and value and path:
        key = sorted(value)[path[0] % len(value)]
        return {**value, key: changed_in(value[key], path[1:], new)}
    if isinstance(value, list) and value and path:
        at = path[0] % len(value)
        return [*value[:at], changed_in(value[at], path[1:], new), *value[at + 1 :]]
    return new


ODD = st.sampled_from(
    (
        "../outside.tif", "/etc/passwd", f"{RESERVED}/x", "a\0b", "prepared", "undoing", "published", "0", "1", 1e308, float("nan"), 10**400, -1,
        [], {}, None,
    )
)  # fmt: skip
CHANGES = st.lists(
    st.tuples(st.lists(st.integers(0, 7), min_size=1, max_size=4), ODD | anything), min_size=1, max_size=3
)


@tries(30)
@given(CHANGES)
@example([([3], 1e308)])  # `kept_bytes`, which is infinite in the written journal
@pytest.mark.claim("outputs.journals-not-trusted")
def test_any_journal_loses_nothing_and_touches_nothing_outside(changes):
    with tempfile.TemporaryDirectory() as folder:
        root, outside = Path(folder, "workspace"), Path(folder, "outside.tif")
        outside.write_bytes(b"precious")
        write(root, {"a.tif": b"old", "b.tif": b"other"})
        publish(area_at(root), {"a.tif": b"new"})
        manifest = root / RESERVED / "undo" / CALL / "manifest.json"
        journal = json.loads(manifest.read_text())
        for path, new in changes:
            journal = changed_in(journal, path, new)
        manifest.write_text(json.dumps(journal).replace("1e+308", "1e999"))
        with quick():
            area = area_at(root)
            area.recover()
            area.publications()
            outcome(area.undo, CALL, refused=StagingFailed)
            area.prune()
            publish(area, {"c.tif": b"next"}, "call-0002")
        assert outside.read_bytes() == b"precious"
        contents = {path.read_bytes() for path in root.rglob("*") if path.is_file()}
        assert b"other" in contents
        assert b"next" in contents
        assert tree(root)["a.tif"] in (b"old", b"new") if "a.tif" in tree(root) else b"new" in contents


# Settings and policy

TOML = st.sampled_from(
    ("[[rule]]", "[[principal]]", 'decision = "require"', 'decision = "deny"', "decision = 1", 'tools = ["raster_*"]', "tools = []", 'effects = ["read"]',
     'principals = ["*"]', 'workspaces = ["{root}"]', 'workspaces = ["/x"]', 'memory = "512MiB"', "memory = 1e999", "memory = inf", "cpus = nan", "cpus = -1",
     "calls_per_minute = 9999999999999999999999", 'memory = "999999999999999TiB"', "concurrent = 0", "cpu_seconds_a_day = inf", 'x = "y"', "= 1", "[", '"', "\ufeff",
     "a = " + "[" * 2000, "rule = 5", "d = 1979-05-27", 'reason = "\\u0000"', 'approval = "always"', 'workspaces = ["\\u0000"]', 'exclude_tools = ["a"]')
)  # fmt: skip


@tries(30)
@given(st.lists(TOML, max_size=7), st.binary(max_size=4))
def test_any_policy_is_parsed_or_lists_problems(lines: list[str], odd: bytes):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve() / "workspace"
        root.mkdir()
        file = root.parent / "policy.toml"
        file.write_bytes("\n".join(lines).replace("{root}", str(root)).encode() + odd)
        settings = Settings(workspaces=[root], state_dir=root.parent / "state", policy=file)
        policy = outcome(load_policy, settings, lambda: ("raster_hillshade", "info"), refused=SettingsError)
        if not isinstance(policy, type):
            document = tomllib.loads(file.read_text())
            assert len(policy.rules) == len(document.get("rule", []))
            assert len(policy.entries) == len(document.get("principal", []))


NAMES = sorted(Settings.model_fields)
VALUES = anything | st.sampled_from(
    (
        "512MiB", "1e999", "999999999999999TiB", "\0", "", "~", "a:b", "/a:/b", "http://h",
        "https://h/" + "a" * 5000, "off", "always", "*",
    )
)  # fmt: skip


@tries(30)
@given(st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=8), VALUES, max_size=4))
def test_any_settings_are_parsed_or_list_problems(raw_values: dict[str, Any]):
    with tempfile.TemporaryDirectory() as folder:
        values = {name: value for name, value in raw_values.items() if name not in ("config", "self")}
        settings = outcome(lambda: load_settings(**{"state_dir": folder, **values}), refused=SettingsError)
        if isinstance(settings, Settings):
            settings.limits()
            settings.sizes()


# Small formats


@tries(60)
@given(
    st.lists(
        st.text(max_size=20)
        | st.sampled_from(("/a:/b", "/a/b:/c", "/a:/", "//:/x", "/a:/b:/c", ":/", "/a/..:/b"))
    )
)
def test_path_map_is_parsed_or_refused_never_upwards(texts: list[str]):
    path_map = outcome(PathMap.parse, texts, refused=ValueError)
    if isinstance(path_map, PathMap):
        for inside, outside in path_map.pairs:
            assert path_map.host(str(inside / "x")).startswith(str(outside).rstrip("/") + "/")
            assert ".." not in outside.parts


FIELDS = st.text(st.characters(exclude_characters=" \n\0", exclude_categories=["Cs"]), min_size=1, max_size=8)


def octal(text: str) -> str:
    """A path in the kernel's notation of a mount point."""
    return "".join(f"\\{ord(letter):03o}" if letter in " \t\n\\#" else letter for letter in text)


@tries(50)
@given(
    st.lists(
        st.lists(st.text("ab \t\\#0é1\r\u2028", min_size=1, max_size=5), min_size=1, max_size=4),
        min_size=1,
        max_size=6,
    ),
    st.integers(0, 5),
)
@pytest.mark.claim("sandbox.no-mount-is-missed")
def test_every_mount_below_a_folder_is_found(mounts: list[list[str]], which: int):
    places = ["/" + "/".join(parts) for parts in mounts]
    root = places[which % len(places)]
    text = "".join(f"1 2 0:3 / {octal(place)} rw - ext4 /dev/x rw\n" for place in places)
    assert submounts(root, text) == tuple(sorted({place for place in places if place.startswith(f"{root}/")}))


@tries(50)
@given(st.text(max_size=60) | st.lists(FIELDS, max_size=12).map(" ".join))
def test_invalid_mount_table_is_never_an_empty_one(text: str):
    mounts = outcome(submounts, "/", text, refused=IsolationRefused)
    if isinstance(mounts, tuple):
        rows = [line.split(" ") for line in text.split("\n") if line]
        assert all(len(row) >= 10 and row[4].startswith("/") for row in rows)


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> tuple[TokenStore, str]:
    store = TokenStore(tmp_path_factory.mktemp("tokens") / "tokens.sqlite")
    return store, store.new("ann", ("gdal:read",), None)


@tries(60)
@given(data=st.data())
@pytest.mark.claim("identity.static-tokens")
def test_only_the_very_token_is_good(tokens: tuple[TokenStore, str], data: st.DataObject):
    store, good = tokens
    at = data.draw(st.integers(0, len(good)))
    text = good[:at] + data.draw(st.text(max_size=3)) + good[at + data.draw(st.integers(0, 3)) :]
    assert (store.find(text) is not None) == (text == good)
    assert store.find(data.draw(st.text(max_size=70))) is None
