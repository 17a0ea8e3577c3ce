"""Results that are truncated to a stated size, and their full versions, which are stored for a while."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdal_mcp.calls.longresults import FULL_RESULT, NOTE, ResultStore, fit, shorten_result, store_of
from gdal_mcp.settings import load_settings
from gdal_mcp.toolboxes.shortening import json_text
from tests.unit.clock import Clock

ID = "0123456789abcdef"
LIMIT = 4096
RECEIPT = {"call_id": ID, "argv": ["gdal", "info"], "seconds": {"run": 0.5}}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=50),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=8), inner, max_size=8),
    max_leaves=12,
)


def size(value: Any) -> int:
    return len(json_text(value).encode("utf-8", "surrogatepass"))


def swollen(value: Any, times: int, depth: int = 3) -> Any:
    """The same structure with longer lists, objects and texts, down to some depth."""
    if depth == 0:
        return value
    if isinstance(value, list):
        return [swollen(item, times, depth - 1) for item in value] * times
    if isinstance(value, dict):
        rows = {key: swollen(item, times, depth - 1) for key, item in value.items()}
        return rows | {f"{key}{number}": item for key, item in rows.items() for number in range(times)}
    return value * times if isinstance(value, str) else value


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> ResultStore:
    return ResultStore(tmp_path / "state" / "results", clock=clock)


def stored_result(store: ResultStore, call_id: str = ID) -> Any:
    stored = store.read(call_id, 0, 1 << 30)
    assert stored
    assert len(stored[0]) == stored[1]
    return json.loads(stored[0])


@pytest.fixture(scope="module")
def result_store(tmp_path_factory: pytest.TempPathFactory) -> ResultStore:
    return ResultStore(tmp_path_factory.mktemp("kept"))


@pytest.mark.claim("resources.results-bounded")
@given(
    small_result=st.dictionaries(st.text(max_size=8), json_values, max_size=6),
    times=st.integers(2, 6),
    limit=st.integers(NOTE + 64, NOTE + LIMIT),
)
def test_any_result_fits_and_the_whole_is_whole(result_store, small_result, times, limit):
    result = swollen(small_result, times)
    shortened = fit(result, ID, limit, result_store)
    assert size(shortened) <= limit
    assert (shortened == result) is (size(result) <= limit)
    if shortened != result:
        assert stored_result(result_store) == result
    assert fit(result, ID, limit, result_store) == shortened


@given(texts=json_values, times=st.integers(2, 6))
def test_long_texts_do_not_displace_facts_and_receipt(result_store, texts, times):
    result = {
        "size": [10, 20], "bands": [{"type": "Byte"}] * 3, "untrusted": [swollen(texts, times)] * 50,
        "receipt": RECEIPT,
    }  # fmt: skip
    shortened = fit(result, ID, LIMIT, result_store)
    assert {key: shortened[key] for key in ("size", "bands", "receipt")} == {
        key: result[key] for key in ("size", "bands", "receipt")
    }
    assert size(shortened) <= LIMIT


def test_long_list_says_how_much_is_left(result_store: ResultStore):
    shortened = fit({"untrusted": {"rows": list(range(10_000))}, "receipt": RECEIPT}, ID, LIMIT, result_store)
    *rows, mark = shortened["untrusted"]["rows"]
    assert rows == list(range(len(rows)))
    assert mark == {"truncated": {"kept": len(rows), "of": 10_000}}
    assert size(shortened) > LIMIT // 4, "most of what may be sent is used"


def test_error_texts_are_cut_but_not_its_code(result_store: ResultStore):
    error = {"code": "GDAL_ERROR", "message": "m" * 500, "untrusted": {"gdal": ["x" * 500] * 100}}
    shortened = fit({"error": error}, ID, LIMIT, result_store)
    assert (shortened["error"]["code"], shortened["error"]["message"]) == ("GDAL_ERROR", error["message"])
    assert FULL_RESULT in shortened


@pytest.mark.claim("resources.results-bounded")
def test_facts_are_cut_before_the_receipt(result_store: ResultStore):
    receipt = {**RECEIPT, "argv": [f"--band={number}" for number in range(300)]}
    result = {"layers": [{"features": number} for number in range(5000)], "receipt": receipt}
    shortened = fit(result, ID, 2 * LIMIT, result_store)
    assert shortened["receipt"] == receipt
    assert shortened["layers"][-1]["truncated"]["of"] == 5000
    assert isinstance(shortened["layers"], list)


def test_a_cut_result_says_where_the_whole_is(store: ResultStore):
    result = {"untrusted": {"rows": list(range(10_000))}, "receipt": RECEIPT}
    shortened = fit(result, ID, LIMIT, store)
    assert size(shortened) <= LIMIT
    assert shortened[FULL_RESULT] == {
        "bytes": size(result),
        "limit": LIMIT,
        "uri": f"gdal://calls/{ID}/result",
    }
    assert stored_result(store) == result


def test_unstorable_full_result_is_cut_and_says_so(store: ResultStore):
    store.folder.parent.mkdir(parents=True)
    store.folder.touch()  # a file in place of the folder
    shortened = fit({"untrusted": "x" * 10_000}, ID, LIMIT, store)
    assert shortened[FULL_RESULT]["uri"] is None
    assert size(shortened) <= LIMIT


@pytest.mark.claim("content.lockdown")
def test_lockdown_results_hold_no_file_text(tmp_path: Path):
    settings = load_settings(state_dir=str(tmp_path), lockdown=True, result_size=LIMIT)
    store = store_of(settings)
    result = {"layers": [{"features": n} for n in range(5000)], "untrusted": {"names": ["CANARY"]}}
    assert "CANARY" not in json_text(shorten_result(result, ID, settings, store))
    assert "untrusted" not in stored_result(store)
    assert "CANARY" not in json_text(stored_result(store))


@pytest.mark.claim("content.lockdown")
def test_lockdown_server_does_not_read_others_results(tmp_path: Path):
    open_settings = load_settings(state_dir=str(tmp_path))
    locked_settings = load_settings(state_dir=str(tmp_path), lockdown=True)
    assert store_of(open_settings).keep(ID, '{"untrusted": "CANARY"}')
    assert store_of(open_settings).read(ID, 0, 10) is not None
    assert store_of(locked_settings).read(ID, 0, 10) is None


def test_stored_result_is_private_and_read_in_parts(store: ResultStore):
    assert store.keep(ID, '"aé"')
    data = '"aé"'.encode()
    assert store.read(ID, 0, 2) == (data[:2], len(data))
    assert store.read(ID, 2, 100) == (data[2:], len(data))
    assert store.read(ID, 10_000, 5) == (b"", len(data))
    assert store.folder.stat().st_mode & 0o777 == 0o700
    assert [path.stat().st_mode & 0o777 for path in store.folder.iterdir()] == [0o600]


def test_only_ids_of_calls_are_kept_or_read(store: ResultStore, tmp_path: Path):
    (tmp_path / "audit.json").write_text("secret")
    for name in ("", "..", "../../audit", f"{ID}/", ID.upper(), "0" * 17, "٠" * 16, f"{ID}\n"):
        assert not store.keep(name, "1")
        assert store.read(name, 0, 10) is None


def test_what_is_no_file_is_not_read(store: ResultStore, tmp_path: Path):
    store.folder.mkdir(parents=True)
    (tmp_path / "secret").write_text("secret")
    for number, make in enumerate((os.mkfifo, Path.mkdir, lambda path: path.symlink_to(tmp_path / "secret"))):
        make(store._path(f"{number:016x}", ""))
        assert store.read(f"{number:016x}", 0, 10) is None


def test_oldest_results_go_first_except_for_oversized_one(tmp_path: Path, clock: Clock):
    for name, bounds, left in (("number", {"max_count": 3}, 3), ("bytes", {"max_bytes": 100}, 2)):
        store = ResultStore(tmp_path / name, clock=clock, **bounds)
        for number in range(5):
            clock.now += 1
            assert store.keep(f"{number:016x}", "x" * 40)
        if name == "bytes":
            assert not store.keep("f" * 16, "x" * 101)
        remaining = sorted(path.name[:16] for path in store.folder.iterdir())
        assert remaining == [f"{number:016x}" for number in range(5 - left, 5)]


def test_the_old_are_not_read_and_then_forgotten(store: ResultStore, clock: Clock):
    store.keep(ID, "1")
    clock.now += store.max_age + 1
    assert store.read(ID, 0, 1) is None
    store.keep("f" * 16, "2")
    assert [path.name[:16] for path in store.folder.iterdir()] == ["f" * 16]


@pytest.mark.claim("identity.others-unseen")
def test_full_result_is_readable_by_owner_and_administrators(store: ResultStore):
    assert store.keep(ID, '"mine"', "token:ann")
    assert store.read(ID, 0, 100, "token:ann") == (b'"mine"', 6)
    assert store.read(ID, 0, 100) == (b'"mine"', 6)
    for stranger in ("token:bob", "token:an", "", "*", "../x"):
        assert store.read(ID, 0, 100, stranger) is None


def test_short_error_with_toolbox_text_is_unchanged(store, tmp_path):
    error = {"code": "TOOL_ERROR", "message": "m" * 200, "suggestion": "s" * 200}
    result = {
        "error": {**error, "untrusted": {"augment": ["why"]}},
        "error_details": {**error, "suggestions": ["s" * 200]},
    }
    assert shorten_result(result, ID, load_settings(state_dir=str(tmp_path)), store) == result


def test_short_error_keeps_its_suggested_call(store: ResultStore, tmp_path: Path) -> None:
    settings = load_settings(state_dir=str(tmp_path))
    suggested_call = {"tool": "pipeline", "arguments": {"steps": "read x.tif ! write y.tif " * 30}}
    for check in ({}, {"check": {"code": "x", "suggested_call": suggested_call}}):
        error = {"code": "GDAL_ERROR", "message": "m" * 100, "suggestion": "s" * 100, **check}
        error["untrusted"] = {"gdal": ["table has the columns " + "c, " * 200] * 5}
        shortened = shorten_result({"error": error}, ID, settings, store)
        shown = {**shortened, "error": {**shortened["error"], "check": {}}}
        assert len(json_text(shown).encode()) <= 700
        assert {key: shortened["error"].get(key) for key in ("message", "suggestion", "check")} == {
            key: error.get(key) for key in ("message", "suggestion", "check")
        }
