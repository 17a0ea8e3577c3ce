import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import pytest

from gdal_mcp.records.registry import Artifact, Call, Registry
from tests.unit.clock import Clock
from tests.unit.records.registry_kit import artifact, begin, clock, ended, listed, path, publish, registry

__all__ = ["clock", "path", "registry"]


def standing(name: str, sha256: str) -> Artifact:
    """An artifact whose file exists."""
    return replace(artifact(name, sha256), path="/")


# Calls


def test_argument_order_does_not_change_the_digest(registry: Registry) -> None:
    first = registry.begin_call(Call("c1", "alice", "t", {"a": 1, "b": 2}))
    second = registry.begin_call(Call("c2", "alice", "t", {"b": 2, "a": 1}))
    other = registry.begin_call(Call("c3", "alice", "t", {"b": 1, "a": 2}))
    assert first.arguments_digest == second.arguments_digest != other.arguments_digest


def test_the_first_ending_of_a_call_stays(registry: Registry) -> None:
    begin(registry, "c1")
    registry.finish_call(ended("c1", "OK"))
    registry.finish_call(ended("c1", "TIMEOUT"))
    call = registry.call("c1")
    assert call
    assert call.outcome == "OK"


def test_steps_belong_to_workflow_and_not_to_history(registry: Registry) -> None:
    begin(registry, "w1")
    for name in ("s1", "s2"):
        begin(registry, name, part_of="w1")
    assert [call.id for call in registry.search().items] == ["w1"]
    assert [call.id for call in registry.steps_of("w1")] == ["s1", "s2"]
    assert registry.steps_of("s1") == ()


def test_search_reads_bounded_pages_that_reach_every_call(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gdal_mcp.records.registry._SEARCHED_ROWS", 3)
    for number in range(10):
        registry.begin_call(Call(f"c{number}", "alice", "old" if number in {0, 1, 5} else "new", {}))
    pages, cursor = [], None
    while len(pages) < 10:
        page = registry.search(["old"], cursor=cursor, limit=2)
        pages.append([call.id for call in page.items])
        if (cursor := page.next_cursor) is None:
            break
    assert pages == [[], ["c5"], ["c1"], ["c0"]]
    assert registry.search(["old"], limit=2, principal="bob").items == ()


def test_a_call_id_is_taken_once(registry: Registry) -> None:
    begin(registry, "c1")
    with pytest.raises(ValueError):
        begin(registry, "c1")


def test_only_unfinished_calls_of_dead_servers_are_ended(registry: Registry) -> None:
    begin(registry, "done", server="dead")
    registry.finish_call(ended("done", "OK"))
    begin(registry, "lost", server="dead")
    begin(registry, "running", server="alive")
    lost = ended("lost", "INTERNAL", message="server restarted")
    interrupted = registry.interrupted(lambda server: server == "alive", lambda _call: lost)
    assert [(call.id, call.outcome, call.message) for call in interrupted] == [
        ("lost", lost.outcome, lost.message)
    ]
    states = {call.id: (call.outcome, call.finished is None) for call in registry.search().items}
    assert states == {"done": ("OK", False), "lost": ("INTERNAL", False), "running": ("", True)}
    assert registry.interrupted(lambda server: server == "alive", lambda _call: lost) == ()


def test_hostile_text_is_kept_and_does_no_harm(registry: Registry) -> None:
    for number, text in enumerate(["\ud800", "a\0b", "'; DROP TABLE calls; --", "\x1b[2J\n", "𝄞"]):
        registry.begin_call(Call(f"c{number}", text, text, {text: text}, argv=(text,)))
        registry.finish_call(ended(f"c{number}", "OK", message=text, receipt={"x": text}))
        call = registry.call(f"c{number}")
        assert call
        assert (call.arguments, call.argv) == ({text: text}, (text,))


def test_recorded_call_is_restored_with_all_its_parts(registry: Registry, clock) -> None:
    arguments = {"input": "a.tif", "options": {"x": [1, 2.5, None, True]}}
    started = registry.begin_call(
        Call(
            "c1", "alice", "raster_convert", arguments, server="s1", plan_digest="ab", argv=("gdal", "raster", "convert"),
            image="sha256:00", tool_version="3.13.3", tier="runc", image_reference="gdal:1", catalogue="3.13.3",
            limits={"cpus": 2.0}, approval="yes",
        )
    )  # fmt: skip
    assert started.started == clock.now
    assert len(started.arguments_digest) == 64
    assert registry.call("c1") == started
    assert registry.call("c2") is None
    rows = ({"path": "/ws/a.tif", "bytes": 3, "sha256": None, "reason": "too large"},)
    outputs = ({"path": "/ws/b.tif", "kind": "dataset"},)
    fields = {"inputs": rows, "outputs": outputs, "files": rows, "removed": ("/ws/c",), "printed": "ab"}
    registry.finish_call(ended("c1", "OK", **fields))
    call = registry.call("c1")
    assert call
    assert {name: getattr(call, name) for name in fields} == fields


def test_call_that_ran_is_not_recorded_as_unrun(registry: Registry) -> None:
    begin(registry, "c1")
    registry.finish_call(ended("c1", "OK"))
    registry.add_refused(Call("c1", "alice", "t", {}, outcome="DENIED"))
    call = registry.call("c1")
    assert call
    assert (call.outcome, call.tool) == ("OK", "raster_convert")


def test_refused_endless_arguments_keep_only_their_digest(registry: Registry) -> None:
    arguments = {"a": "x" * 1_000_000}
    registry.add_refused(Call("c1", "alice", "t", arguments, outcome="DENIED"))
    refused, recorded = registry.call("c1"), registry.begin_call(Call("c2", "alice", "t", arguments))
    assert refused
    assert refused.arguments == {}
    assert refused.arguments_digest == recorded.arguments_digest


# Artifacts


def test_when_one_artifact_is_refused_none_is_added(registry: Registry) -> None:
    publish(registry, "c1", artifact("a.tif", "11"))
    begin(registry, "c2")

    def broken() -> Iterator[Artifact]:
        yield artifact("a.tif", "22")
        raise KeyError

    with pytest.raises(KeyError):
        registry.add_artifacts("c2", broken())
    assert listed(registry) == {"a.tif": "11"}


def test_newer_artifact_replaces_older_which_keeps_its_row(registry, path):
    publish(registry, "c1", artifact("a.tif", "11"), artifact("b.tif", "12"))
    (newer,) = publish(registry, "c2", artifact("a.tif", "22"))
    assert listed(registry) == {"a.tif": "22", "b.tif": "12"}
    with sqlite3.connect(path) as db:
        rows = db.execute(
            "SELECT sha256, state, superseded_by FROM artifacts WHERE name = 'a.tif' ORDER BY id"
        )
        assert rows.fetchall() == [("11", "superseded", newer.id), ("22", "listed", None)]
    db.close()


def test_undo_restores_replaced_artifacts_in_any_order(registry, subtests):
    three = (("c1", ["11"]), ("c2", ["22"]), ("c3", ["33"]))
    for published, undone, left in (
        (three, ("c3", "c2"), "11"),
        (three, ("c2", "c3"), "11"),
        (three, ("c2",), "33"),  # its output has been replaced since
        (three, ("c1", "c2", "c3"), None),  # an undone output is never listed again
        ((("c1", ["11"]), ("c2", ["22", "23"])), ("c2",), "11"),  # a call that wrote to one path twice
    ):
        with subtests.test(undone=undone, left=left):
            name = f"{undone}-{left}"
            for call, digests in published:
                publish(registry, call + name, *(standing(name, digest) for digest in digests))
            for call in undone:
                registry.retract_artifacts(call + name)
            assert listed(registry).get(name) == left


def test_undo_reports_removed_artifacts_once(registry: Registry) -> None:
    publish(registry, "c1", standing("a.tif", "11"))
    publish(registry, "c2", standing("a.tif", "22"), standing("new.tif", "23"))
    assert {row.sha256 for row in registry.retract_artifacts("c2")} == {"22", "23"}
    assert registry.retract_artifacts("c2") == ()
    assert listed(registry) == {"a.tif": "11"}


def test_servers_publishing_to_one_place_do_not_interfere(registry, path):
    with closing(Registry(path)) as other:
        for server, name in ((registry, "c1"), (other, "c2")):
            begin(server, name)
        with ThreadPoolExecutor(2) as pool:
            for _ in range(100):
                first = pool.submit(registry.add_artifacts, "c1", [artifact("a.tif", "11")])
                second = pool.submit(other.add_artifacts, "c2", [artifact("a.tif", "22")])
                newest = max((*first.result(), *second.result()), key=lambda added: added.id)
                assert listed(registry) == {"a.tif": newest.sha256}


def test_pages_hold_every_artifact_once_newest_first(registry: Registry) -> None:
    publish(registry, "c1", *(artifact(f"{number}.tif") for number in range(7)))
    for size in (1, 2, 3, 7, 100):
        page = registry.artifacts(None, size)
        names = [row.name for row in page.items]
        while page.next_cursor is not None:
            page = registry.artifacts(page.next_cursor, size)
            names += [row.name for row in page.items]
        assert names == [f"{number}.tif" for number in reversed(range(7))]


def test_what_is_added_while_paging_moves_nothing(registry: Registry) -> None:
    publish(registry, "c1", *(artifact(f"{number}.tif") for number in range(4)))
    first = registry.artifacts(None, 2)
    publish(registry, "c2", artifact("new.tif"), artifact("3.tif", "22"))
    rest = registry.artifacts(first.next_cursor, 10)
    assert [row.name for row in (*first.items, *rest.items)] == ["3.tif", "2.tif", "1.tif", "0.tif"]


def test_foreign_cursor_is_refused(registry: Registry) -> None:
    for cursor in ["", "x", "-1", "1.5", "٣", "9" * 19, "9" * 5000, "1 OR 1=1"]:
        with pytest.raises(ValueError):
            registry.artifacts(cursor)


def test_seconds_are_of_same_principals_successful_commands(registry: Registry, clock: Clock) -> None:
    slope = ("gdal", "raster", "slope")
    calls = {
        "c1": (("gdal", "raster", "slope", "a.tif"), "OK", 2.0),
        "c2": (("gdal", "raster", "slope", "b.tif"), "OK", 6.0),
        "c3": (("gdal", "raster", "slope", "c.tif"), "GDAL_ERROR", 1.0),
        "c4": (("gdal", "raster", "slopes", "d.tif"), "OK", 1.0),
        "c5": (("gdalwarp", "e.tif"), "OK", 3.0),
        "c6": (("gdal", "raster"), "OK", 1.0),
    }
    for name, (argv, outcome, seconds) in calls.items():
        begin(registry, name, argv=argv)
        clock.now += seconds
        registry.finish_call(ended(name, outcome, durations={"run": seconds}))
    registry.begin_call(Call("c7", "bob", "raster_slope", {}, argv=(*slope, "f.tif")))
    registry.finish_call(ended("c7", "OK", durations={"run": 0.0}))
    durations = registry.seconds_of("alice", [slope, ("gdalwarp",), ("gdal_merge",)])
    assert {words: sorted(seconds) for words, seconds in durations.items()} == {
        slope: [pytest.approx(2.0), pytest.approx(6.0)],
        ("gdalwarp",): [pytest.approx(3.0)],
        ("gdal_merge",): [],
    }
