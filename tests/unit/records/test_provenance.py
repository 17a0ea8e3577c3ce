"""Sources of a call: digests of its inputs while it runs, and the statement about it."""

import hashlib
import json
import os
import threading
from pathlib import Path, PurePosixPath

import pytest
from jsonschema import Draft202012Validator

from gdal_mcp.records import provenance
from gdal_mcp.records.provenance import Material, Materials
from gdal_mcp.records.registry import Call
from gdal_mcp.records.statement import FOLDER_DIGEST, record, statement
from gdal_mcp.toolboxes.gdal.datasets.paths import companions
from sandbox.outputs.inspection import tree_digest
from sandbox.outputs.store import Part
from sandbox.workspace import Workspace, WorkspacePath, Workspaces
from tests.waiting import until

GIB = 1 << 30


@pytest.fixture
def spaces(root: Path) -> Workspaces:
    return Workspaces((Workspace.at(root, writable=True),))


def materials_by_name(
    spaces: Workspaces, *names: str, limit: int = GIB, **more: object
) -> dict[str, Material]:
    materials = Materials([spaces.input(name) for name in names], limit, companions()).result(**more)
    assert len({material.path for material in materials}) == len(materials)
    return {Path(material.path).name: material for material in materials}


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_inputs_have_size_digest_and_their_companions_after(root: Path, spaces: Workspaces):
    for name in ("a.tif", "a.tif.aux.xml", "a.tfw", "b.tif", "unrelated.txt"):
        (root / name).write_bytes(name.encode() * 1000)
    materials = materials_by_name(spaces, "a.tif", "b.tif")
    assert list(materials) == ["a.tif", *sorted(materials.keys() - {"a.tif", "b.tif"}), "b.tif"]
    assert materials.keys() == {"a.tif", "a.tif.aux.xml", "a.tfw", "b.tif"}
    for name, material in materials.items():
        data = (root / name).read_bytes()
        assert (material.sha256, material.size, material.changed) == (sha256(data), len(data), False)
        assert material.companion is (name in ("a.tif.aux.xml", "a.tfw"))
    # named twice, and a companion of another input
    named = materials_by_name(spaces, "a.tif", "a.tfw", "a.tif")
    assert {name: material.companion for name, material in named.items()} == {
        "a.tif": False, "a.tfw": False, "a.tif.aux.xml": True,
    }  # fmt: skip


def test_files_beyond_digest_limit_say_so(root: Path, spaces: Workspaces):
    for name, size in (("large.bin", 5000), ("small.bin", 100), ("also.bin", 901)):
        (root / name).write_bytes(b"x" * size)
    materials = materials_by_name(spaces, "large.bin", "small.bin", "also.bin", limit=1000)
    assert [material.sha256 for material in materials.values()] == [None, sha256(b"x" * 100), None]
    assert all(material.reason for material in materials.values() if material.sha256 is None)
    assert [material.size for material in materials.values()] == [5000, 100, 901]
    assert all(material.identity.mtime_ns for material in materials.values())


def test_file_changed_since_plan_is_marked_changed(root, spaces):
    path = root / "a"
    before, after = sha256(b"before"), sha256(b"something else")

    def overwritten() -> None:
        path.write_bytes(b"something else")

    def another() -> None:
        (root / "b").write_bytes(b"after!")
        (root / "b").replace(path)

    for early, late, touched, changed, digests in (
        (overwritten, None, (), True, {after}),
        (None, overwritten, (), True, {None, before}),
        (None, another, (), True, {before}),
        (None, another, (path,), False, {before}),
    ):
        path.write_bytes(b"before")
        planned = spaces.input("a")
        if early:
            early()
        watched = Materials([planned], GIB)
        if late:
            late()
        (material,) = watched.result(touched=frozenset(touched))
        assert material.changed is changed
        assert material.sha256 in digests


def test_substitute_for_file_is_neither_followed_nor_awaited(root, spaces, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"outside")
    for number, take in enumerate((lambda path: path.symlink_to(secret), os.mkfifo, Path.mkdir)):
        path = root / str(number)
        path.write_bytes(b"x")
        located = spaces.input(path.name)
        path.unlink()
        take(path)
        (material,) = Materials([located], GIB).result()
        assert material.sha256 is None
    (root / "a.tif").write_bytes(b"x")
    (root / "a.tif.aux.xml").symlink_to(secret)  # a companion that is a link
    materials = materials_by_name(spaces, "a.tif")
    assert sha256(b"outside") not in {material.sha256 for material in materials.values()}
    assert materials["a.tif"].sha256 == sha256(b"x")


def test_folder_digest_equals_published_folder_digest(root: Path, spaces: Workspaces):
    (root / "d" / "inner").mkdir(parents=True)
    (root / "d" / "empty").mkdir()
    files = {"b": b"1", "a": b"22", "inner/é": b"333"}
    for name, data in files.items():
        (root / "d" / name).write_bytes(data)
    parts = [Part(name, len(data), sha256(data)) for name, data in files.items()]
    material = materials_by_name(spaces, "d")["d"]
    assert material.sha256 == tree_digest(sorted(parts, key=lambda part: part.relative.encode()))
    assert (material.size, material.located.is_folder) == (6, True)


@pytest.mark.parametrize("odd", ["link", "pipe", "too many", "too large"])
def test_partly_readable_folder_has_no_digest(root, spaces, monkeypatch, odd):
    (root / "d").mkdir()
    (root / "d" / "a").write_bytes(b"x" * 100)
    limit = GIB
    if odd == "link":
        (root / "d" / "link").symlink_to("/etc/passwd")
    elif odd == "pipe":
        os.mkfifo(root / "d" / "pipe")
    elif odd == "too many":
        for number in range(3):
            (root / "d" / str(number)).touch()
        monkeypatch.setattr(Materials.__init__, "__defaults__", (lambda _located: (), 3))
    else:
        limit = 99
    material = materials_by_name(spaces, "d", limit=limit)["d"]
    assert (material.sha256, bool(material.reason)) == (None, True)
    assert materials_by_name(spaces, ".")[root.name].sha256 is None  # the whole workspace never has a digest


def test_digests_stop_at_the_recorded_file_count(root, spaces, monkeypatch):
    monkeypatch.setattr(provenance, "_MAX_OPEN", 2)
    for number in range(5):
        (root / str(number)).write_bytes(b"%d" % number)
    materials = materials_by_name(spaces, *map(str, range(5)))
    assert [material.sha256 for material in materials.values()] == [
        sha256(b"%d" % number) for number in range(5)
    ]
    monkeypatch.setattr(provenance, "MAX_FILES", 3)
    assert len(materials_by_name(spaces, *map(str, range(5)))) == 3


def test_unfinished_digests_say_so_and_close_files(root: Path, spaces: Workspaces):
    with (root / "large").open("wb") as file:
        file.truncate(8 << 30)  # a hole: reading it takes seconds
    before = set(os.listdir("/proc/self/fd"))
    watched = Materials([spaces.input("large")], 8 << 30)
    (material,) = watched.result(patience=0)
    assert (material.sha256, bool(material.reason)) == (None, True)
    assert set(os.listdir("/proc/self/fd")) == before


def test_single_digest_of_any_size_can_be_requested(root: Path, spaces: Workspaces):
    (root / "a").write_bytes(b"x")
    assert Materials.digest(spaces.input("a")) == sha256(b"x")
    assert Materials.digest(WorkspacePath(spaces.items[0], PurePosixPath("none"))) is None


# The statement

CALL = Call(
    "0123456789abcdef", "local:ann", "convert", {"input": "a é.tif"}, argv=("gdal", "convert"),
    image="sha256:" + "1" * 64, image_reference="example/gdal:3.13", tool_version="3.13.3", catalogue="3.13.3 sha256:22",
    started=1_000.0, finished=1_002.5, outcome="OK", limits={"cpus": 2.0},
    inputs=(
        {"path": "/ws/a é.tif", "bytes": 3, "sha256": "2" * 64},
        {"path": "/ws/large", "bytes": 3, "sha256": None, "reason": "large"},
        {"path": "/ws/d", "bytes": 3, "sha256": "3" * 64, "folder": True},
    ),
    files=(
        {"path": "/ws/b.tif", "bytes": 5, "sha256": "4" * 64},
        {"path": "/ws/b.zarr", "bytes": 5, "sha256": "5" * 64, "files": 2},
    ),
    removed=("/ws/old.ovr",),
)  # fmt: skip
SHAPE = {  # in-toto's statement and its predicate, as far as other programs rely on them
    "type": "object",
    "required": ["_type", "subject", "predicateType", "predicate"],
    "properties": {
        "_type": {"const": "https://in-toto.io/Statement/v1"},
        "subject": {"type": "array", "items": {"$ref": "#/$defs/subject"}},
        "predicateType": {"const": "https://slsa.dev/provenance/v0.2"},
        "predicate": {
            "type": "object",
            "required": ["builder", "buildType", "invocation", "metadata", "materials"],
            "properties": {
                "builder": {"required": ["id"], "properties": {"id": {"pattern": "^[a-z]+://"}}},
                "buildType": {"type": "string", "pattern": "^[a-z]+://[!-~]+$"},
                "materials": {
                    "type": "array",
                    "items": {"properties": {"uri": {"pattern": "^[a-z]+://[!-~]*$"}, "digest": {"$ref": "#/$defs/digest"}}},
                },
            },
        },
    },
    "$defs": {
        "digest": {"type": "object", "additionalProperties": {"type": "string", "pattern": "^[0-9a-f]+$"}},
        "subject": {
            "required": ["name", "digest"],
            "properties": {"digest": {"$ref": "#/$defs/digest", "minProperties": 1}},
        },
    },
}  # fmt: skip


def test_statement_has_the_shape_other_programs_read():
    for call in [CALL, Call("c", "p", "odd tool/é", {"x": "\ud800"}, started=1.0)]:
        document = json.loads(json.dumps(statement(call)))
        Draft202012Validator(SHAPE).validate(document)


def test_statement_names_outputs_as_subjects_inputs_as_materials():
    document = statement(CALL)
    assert document["subject"] == [
        {"name": "/ws/b.tif", "digest": {"sha256": "4" * 64}},
        {"name": "/ws/b.zarr", "digest": {FOLDER_DIGEST: "5" * 64}},
    ]
    assert [(material["uri"], material["digest"]) for material in document["predicate"]["materials"]] == [
        ("oci://example/gdal:3.13", {"sha256": "1" * 64}),
        ("file:///ws/a%20%C3%A9.tif", {"sha256": "2" * 64}),
        ("file:///ws/large", {}),
        ("file:///ws/d", {FOLDER_DIGEST: "3" * 64}),
    ]
    assert document["predicate"]["metadata"]["completeness"]["materials"] is False


def test_a_record_holds_all_that_is_kept():
    document = json.loads(json.dumps(record(CALL)))
    assert (document["duration"], document["removed"], document["catalogue"]) == (
        2.5,
        ["/ws/old.ovr"],
        CALL.catalogue,
    )
    assert document["materials"] == [dict(row) for row in CALL.inputs]
    assert (document["image"], document["image_digest"]) == (CALL.image_reference, CALL.image)


def test_impossible_date_does_not_break_the_statement():
    for seconds in [-(10**17), 300_000_000_000, 10**17]:
        assert str(abs(seconds)) in provenance._time(seconds * 1_000_000_000)


@pytest.mark.claim("resources.deadline")
@pytest.mark.parametrize("call", ["pread", "stat"])
def test_hanging_file_system_does_not_delay_call_end(root, spaces, monkeypatch, call):
    """Reads hang, or the final check of the file does; the call gets its rows, and the thread ends once the file
    system answers.
    """
    (root / "a.bin").write_bytes(b"x")
    let_go, real, hangs = threading.Event(), getattr(os, call), threading.Event()

    def hang(*arguments: object, **named: object) -> object:
        if threading.current_thread().name.startswith("Dummy-"):  # not a thread of `threading`
            hangs.set()
            let_go.wait()
        return real(*arguments, **named)

    monkeypatch.setattr(os, call, hang)
    monkeypatch.setattr(provenance, "_GRACE", 0.01)
    watched = Materials([spaces.input("a.bin")], GIB)
    rows: list[Material] = []
    ending = threading.Thread(target=lambda: rows.extend(watched.result(patience=0.01)), daemon=True)
    ending.start()
    ending.join(30)
    let_go.set()
    assert hangs.is_set()
    assert [material.located.name for material in rows] == ["a.bin"]
    until(watched._ended.is_set)


def test_hanging_digests_are_bounded_and_reported(root: Path, spaces: Workspaces, monkeypatch):
    (root / "a.bin").write_bytes(b"x")
    monkeypatch.setattr(provenance, "_THREADS", threading.BoundedSemaphore(1))
    with provenance._THREADS:
        (material,) = materials_by_name(spaces, "a.bin").values()
        assert material.sha256 is None
        assert material.reason
    assert materials_by_name(spaces, "a.bin")["a.bin"].sha256 == sha256(b"x")
