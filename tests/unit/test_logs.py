import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from gdal_mcp.logs import configure

HOSTILE = [
    "x\n2026-01-01T00:00:00Z [error    ] forged [gdal_mcp]", "x\r\x1b[2Kforged", "\x1b]0;title\x07\x1b[31m",
    "\x85\u2028\u2029\x0b\x0c\x1c", "\u202eforged\u2066", "\x00\x7f\x9b31m", "\ud800",
]  # fmt: skip
FORBIDDEN_CODES = (*range(32), *range(0x7F, 0xA0), *range(0x2028, 0x202F), *range(0x2066, 0x206A))
FORBIDDEN = {chr(code) for code in (*FORBIDDEN_CODES, *range(0xD800, 0xE000), 0x061C, 0x200E, 0x200F)}


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    ours = {name: logging.getLogger(name).level for name in ("gdal_mcp", "sandbox", "__main__")}
    configured = structlog.get_config()
    yield
    structlog.configure(**configured)
    logging.captureWarnings(capture=False)
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, before in ours.items():
        logging.getLogger(name).setLevel(before)


def log_as(module: str, method: str, *arguments: Any, **values: Any) -> None:
    """Logs like a module of that name: `_log = structlog.get_logger()`."""
    namespace = {"__name__": module}
    code = "import structlog\n_log = structlog.get_logger()\ndef log(m, *a, **v): getattr(_log, m)(*a, **v)"
    exec(code, namespace)
    namespace["log"](method, *arguments, **values)  # type: ignore[operator]


def lines_of(captured: pytest.CaptureFixture[str]) -> list[str]:
    out, err = captured.readouterr()
    assert out == ""
    assert not err or err.endswith("\n")
    return err.split("\n")[:-1]


def test_json_events_hold_their_values(capsys: pytest.CaptureFixture[str]) -> None:
    configure("info")
    log_as("sandbox.pool.pool", "warning", "slot_lost", slot=3, template={"a": [1, None]}, path=b"x")
    (line,) = lines_of(capsys)
    event = json.loads(line)
    assert event["timestamp"].endswith("Z")
    expected = {
        "event": "slot_lost", "slot": 3, "template": {"a": [1, None]}, "level": "warning",
        "logger": "sandbox.pool.pool",
    }  # fmt: skip
    assert expected.items() <= event.items()


def test_what_is_below_the_level_is_not_logged(capsys: pytest.CaptureFixture[str]) -> None:
    for level in ["debug", "info", "warning", "error"]:
        configure(level)
        order = ["debug", "info", "warning", "error"]
        for method in order:
            log_as("gdal_mcp.x", method, method)
            logging.getLogger("sandbox.y").log(getattr(logging, method.upper()), method)
        expected = [method for method in order[order.index(level) :] for _ in range(2)]
        assert [json.loads(line)["event"] for line in lines_of(capsys)] == expected


@pytest.mark.parametrize("level", ["debug", "warning"])
@pytest.mark.parametrize("name", ["docker", "urllib3.connectionpool", "mcp.server", "asyncio", "gdal_mcpx"])
def test_libraries_are_heard_from_warning_on(capsys, level, name):
    configure(level)
    library = logging.getLogger(name)
    before = library.level
    library.setLevel(logging.DEBUG)  # some set their own level
    try:
        for number in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
            library.log(number, "level %d", number)
    finally:
        library.setLevel(before)
    events = [json.loads(line) for line in lines_of(capsys)]
    assert [event["event"] for event in events] == ["level 30", "level 40"]
    assert {event["logger"] for event in events} == {name}


@pytest.mark.claim("audit.one-line-each")
@pytest.mark.parametrize("text", HOSTILE)
def test_no_value_breaks_a_line_or_controls_terminal(capsys, text):
    configure("info")
    log_as("gdal_mcp.x", "info", text)
    log_as("gdal_mcp.x", "info", "event", value=text)
    log_as("gdal_mcp.x", "info", "event", **{text: 1})
    log_as("gdal_mcp.x", "info", "event", value={text: [text, Odd(text)]}, odd=Odd(text))
    log_as("gdal_mcp." + text, "info", "event")
    logging.getLogger("docker").warning("pulled %s", text)
    logging.getLogger("docker." + text).warning("pulled")
    lines = lines_of(capsys)
    assert len(lines) == 7
    assert not FORBIDDEN & set("".join(lines))
    assert json.loads(lines[0])["event"] == text


def fail(text: str) -> None:
    raise ValueError(text)


class Odd:
    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def test_a_traceback_stays_in_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    for text in HOSTILE:
        configure("info")
        try:
            fail(text)
        except ValueError:
            log_as("gdal_mcp.x", "exception", "call_failed")
            logging.getLogger("docker").exception("pull failed")
        lines = lines_of(capsys)
        assert [json.loads(line)["event"] for line in lines] == ["call_failed", "pull failed"]
        assert all("ValueError" in json.loads(line)["exception"] for line in lines)
        assert not FORBIDDEN & set("".join(lines))


def test_stdout_stays_clean_in_a_whole_process() -> None:
    code = """if True:
        import logging, warnings, structlog
        from gdal_mcp.logs import configure
        logging.basicConfig(stream=__import__("sys").stdout)
        configure("debug")
        structlog.get_logger().info("ours", text="\\ud800")
        logging.getLogger("mcp").error("theirs \\ud800")
        warnings.warn("warned")
        logging.getLogger("x").error("bad %d", "format")
    """
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert run.stdout == b""
    for part in (b"ours", b"theirs", b"warned"):
        assert part in run.stderr
