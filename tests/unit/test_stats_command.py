import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gdal_mcp.commands.stats import Form, lines, show
from gdal_mcp.commands.streams import seconds_of
from gdal_mcp.ledger.figures import EndedCall, Summary
from gdal_mcp.ledger.registry import Call, CallEnd, CallQuery, Registry
from gdal_mcp.settings import Settings, SettingsError, load_settings

Shown = Callable[..., tuple[str, list[str]]]
DEAD = "unix:///nonexistent.sock"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "ws").mkdir()
    return load_settings(state_dir=tmp_path / "state", workspaces=[tmp_path / "ws"], engine=DEAD)


@pytest.fixture
def registry(settings: Settings) -> Iterator[Registry]:
    made = Registry(settings.state_dir / "registry.sqlite")
    yield made
    made.close()


@pytest.fixture
def shown(settings: Settings, capsys: pytest.CaptureFixture[str]) -> Shown:
    """`shown(form, since)`: what it prints as its result, and the lines that it says besides."""

    def run(form: Form, since: str = "24h") -> tuple[str, list[str]]:
        assert show(settings, since, form) == 0
        printed = capsys.readouterr()
        return printed.out.rstrip("\n"), printed.err.splitlines()

    return run


def record(registry: Registry, tool: str = "info") -> None:
    call = registry.begin_call(Call(f"call-{len(registry.search(CallQuery()).calls)}", "ann", tool, {}))
    registry.finish_call(call.id, CallEnd("OK", durations={"run": 0.25}))


def test_without_an_engine_the_registry_is_shown_and_the_reason_is_told(shown: Shown, registry: Registry):
    record(registry)
    text, said = shown("json")
    told = json.loads(text)
    assert told["total"]["by_tool_and_outcome"] == [{"tool": "info", "outcome": "OK", "count": 1}]
    assert told["containers"] is None
    assert len([line for line in said if line.startswith("gdal-mcp: ")]) == 1


def test_json_has_the_window_and_everything(shown: Shown, settings: Settings, registry: Registry):
    past = Registry(registry.path, lambda: 1_000.0)
    record(past)
    past.close()
    record(registry, "convert")
    told = json.loads(shown("json")[0])
    assert told["since"] == "24h"
    assert (told["lately"]["calls"], told["total"]["calls"]) == (1, 2)
    assert told["total"]["seconds"]["run"]["p95"] == 0.25
    assert told["unfinished"] == 0
    places = (settings.state_dir, *settings.workspaces)
    assert told["staging_folders"] == {str(place): 0 for place in places}


def test_the_text_shows_each_tool_and_no_name_of_a_clients(shown, settings, registry):
    record(registry)
    record(registry, "\x1b[2J evil")
    text, _ = shown("text")
    assert "info OK" in text
    assert "other OK" in text
    assert "evil" not in text
    assert all(line.isprintable() for line in text.split("\n"))


def test_prometheus_text_can_be_read_back(shown: Shown, settings: Settings, registry: Registry):
    record(registry)
    families = {one.name: one for one in text_string_to_metric_families(shown("prometheus")[0])}
    (sample,) = families["gdal_mcp_calls"].samples
    assert (sample.labels, sample.value) == ({"tool": "info", "outcome": "OK"}, 1)


def test_a_duration_is_a_number_and_a_unit():
    for text, seconds in (("90s", 90), ("30m", 1800), ("24h", 86400), ("7d", 604800), ("0s", 0)):
        assert seconds_of(text, "--since") == seconds


def test_what_is_no_duration_is_refused_before_anything_is_read(shown: Shown):
    for text in ("", "24", "h", "-1h", "1.5h", "1w", "24h ", "١h", "9" * 10 + "d"):
        with pytest.raises(SettingsError):
            seconds_of(text, "--since")
    with pytest.raises(SettingsError):
        shown("json", "1w")


def test_the_text_shows_the_middle_and_the_slow_ones_and_what_there_is_now():
    summary = Summary()
    for number in range(1, 101):
        summary.add(EndedCall("info", "OK", 0.0, {"run": number}))
    part = summary.as_dict()
    rows = [
        {"server": "alive", "state": "running", "count": 3},
        {"server": "foreign", "state": "stopped", "count": 1},
    ]
    told = {"since": "24h", "lately": part, "total": part, "unfinished": 2, "containers": rows}
    text = "\n".join(lines({**told, "staging_folders": {"/a": 4, "/b": None}}))
    assert text.count("50 / 95") == 2  # of the window, and in all
    assert "4  /a" in text
    assert "unknown  /b" in text
    assert "foreign" in text
