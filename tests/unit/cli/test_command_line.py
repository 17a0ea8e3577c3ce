"""Commands that the program accepts or refuses, and how it ends if no command is at fault."""

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gdal_mcp import invoked
from gdal_mcp.cli import calls
from gdal_mcp.cli.exits import Exit, exit_of, meanings
from gdal_mcp.cli.main import main
from gdal_mcp.cli.parsers import build_parser
from gdal_mcp.cli.streams import seconds_of
from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.settings import Settings, SettingsError


@pytest.fixture(autouse=True)
def _called_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Help and errors show the name of the program, as if it were on the PATH."""
    monkeypatch.setattr(invoked, "command", lambda: (invoked.NAME,))


def commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Every command at the end of a branch of subcommands."""
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not groups:
        yield parser
    for group in groups:
        for below in group.choices.values():
            yield from commands(below)


def test_every_setting_is_an_option_of_every_command():
    parsers = list(commands(build_parser()))
    assert len(parsers) > 20
    for parser in parsers:
        assert set(Settings.model_fields) <= {action.dest for action in parser._actions}


def every_parser(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for group in (action for action in parser._actions if isinstance(action, argparse._SubParsersAction)):
        for below in group.choices.values():
            yield from every_parser(below)


def test_command_help_fits_a_screen_and_names_settings(monkeypatch, capsys):
    assert main(["settings"]) == Exit.DONE
    explained = {line for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")}
    assert explained == set(Settings.model_fields)
    for columns in ("80", "100"):
        monkeypatch.setenv("COLUMNS", columns)
        for parser in every_parser(build_parser()):
            lines = parser.format_help().splitlines()
            assert len(lines) <= 40, parser.prog
            assert max(len(line) for line in lines if not line.startswith("  gdal-mcp ")) <= int(columns), (
                parser.prog
            )
            assert parser.get_default("run") is None or "gdal-mcp settings" in " ".join(
                " ".join(lines).split()
            )


def test_help_has_one_line_for_each_command(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "80")
    for one in every_parser(build_parser()):
        for group in (action for action in one._actions if isinstance(action, argparse._SubParsersAction)):
            listed = one.format_help().split("\nCommands:\n")[1].split("\n\n")[0].splitlines()
            assert [line.split()[0] for line in listed] == list(group.choices)


def test_only_server_and_call_commands_repeat_the_settings():
    for parser in commands(build_parser()):
        shown = parser.format_help()
        starts = parser.prog.endswith((" serve", " call"))
        assert ("Common settings" in shown) is starts, parser.prog
        assert "--pool-max" not in shown
        assert "pool-max" not in shown


def test_every_help_example_is_accepted_by_the_program():
    program = build_parser()
    for parser in every_parser(program):
        lines = parser.format_help().split("Examples:\n")[1].split("\n\n")[0].splitlines()
        assert lines, parser.prog
        for line in lines:
            words = shlex.split(line.partition(" < ")[0])
            assert words[0] == "gdal-mcp"
            assert f"{' '.join(words)} ".startswith(parser.prog + " "), line
            assert program.parse_args(words[1:]).run is not None, line


def test_the_settings_that_are_named_are_explained_alone(capsys):
    assert main(["settings", "memory", "--", "--timeout-seconds"]) == Exit.DONE
    explained = {line for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")}
    assert explained == {"memory", "timeout_seconds"}
    assert main(["settings", "memry"]) == Exit.USAGE


def test_unknown_word_ends_program_before_any_effect(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("GDAL_MCP_STATE_DIR", str(tmp_path / "state"))
    shortened = "tools --js"
    for words in (
        *("tools --read-onyl", "tools --tolsets=all", "tools more", shortened),
        *("audit verify -x", "token new ann --hlp", "token", "nosuch"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(words.split())
        printed = capsys.readouterr()
        assert (ended.value.code, printed.out) == (Exit.USAGE, "")
        assert printed.err
        assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("tools --read-onyl", ("--read-onyl", "--read-only", "gdal-mcp tools --help")),
        ("cal info {}", ("'cal'", "call", "gdal-mcp --help")),
        ("token nwe ann", ("'nwe'", "new", "gdal-mcp token --help")),
        ("info dem.tif", ("'info'", """gdal-mcp call info '{"path": "..."}'""", "gdal-mcp --help")),
        ("conver a.tif b.tif", ("'conver'", "gdal-mcp call convert ", '"input"', '"output"')),
        ("zonal-stats a.tif", ("gdal-mcp call raster_zonal_stats ", '"zones"')),
        ("clip a.tif", ("gdal-mcp call raster_clip ", "vector_clip")),
        ("server", ("the nearest is serve",)),
        ("version", ("the nearest is --version",)),
        ("nosuch", ("gdal-mcp call TOOL JSON",)),
        ("audit show", ("'show'", "verify", "rotate", "tail", "gdal-mcp audit --help")),
        ("tools more", ("'more'", "gdal-mcp tools --help")),
    ],
)
def test_typing_error_gets_nearest_word_and_help(words, named, capsys):
    with pytest.raises(SystemExit):
        main(words.split())
    printed = capsys.readouterr().err
    assert [word for word in named if word not in printed] == []
    assert len(printed.splitlines()) == 2


@pytest.mark.parametrize("command", ["undo", "replay"])
def test_an_unknown_call_is_named_with_the_searched_folder(command, tmp_path: Path, capsys):
    state = tmp_path / "state"
    assert main([command, "3f9a4c1be2d07a55", "--state-dir", str(state)]) == Exit.USAGE
    printed = capsys.readouterr().err
    assert "3f9a4c1be2d07a55" in printed
    assert str(state) in printed
    assert not state.exists()


def test_missing_command_shows_help_and_fails(capsys: pytest.CaptureFixture[str]):
    assert main([]) == Exit.USAGE
    printed = capsys.readouterr()
    assert printed.out == ""
    program = build_parser()
    examples = [
        line.strip().split("  ")[0] for line in printed.err.splitlines() if line.startswith("  gdal-mcp ")
    ]
    assert {program.parse_args(shlex.split(line)[1:]).run is not None for line in examples} == {True}
    assert len(examples) >= 3


def test_help_shows_commands_as_the_user_can_type_them(monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.setattr(invoked, "command", lambda: ("uvx", "gdal-sandbox-mcp"))
    assert main([]) == Exit.USAGE
    started = capsys.readouterr().err
    for text in (started.partition("\n")[2], build_parser().format_help().split("Examples:")[1]):
        assert "  uvx gdal-sandbox-mcp setup" in text
        assert "gdal-mcp " not in text.replace("gdal-sandbox-mcp ", "")


def test_a_reader_that_leaves_ends_the_program_quietly(tmp_path: Path):
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "gdal_mcp", "tools", "--all", "--state-dir", str(tmp_path / "state")]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, check=False, timeout=60)
    os.close(write)
    assert (done.returncode, done.stderr) == (Exit.UNREAD, b"")


def test_every_exit_code_is_explained():
    assert all(f"{code:d} " in meanings() for code in Exit)


def test_the_exit_code_says_the_kind_of_failure():
    kinds: dict[Exit, set[Code]] = {}
    for code in Code:
        kinds.setdefault(exit_of(ToolError(code, Stage.RUN, "it failed.")), set()).add(code)
    assert kinds == {
        Exit.FAILED: {Code.GDAL_ERROR, Code.TOOL_ERROR, Code.REMOTE_ERROR, Code.OUTPUT_REJECTED}
        | {Code.CANCELLED, Code.INTERNAL},
        Exit.NOT_READY: {Code.ENGINE_UNAVAILABLE},
        Exit.REFUSED: {Code.INVALID_ARGUMENT, Code.NOT_FOUND, Code.PATH_NOT_ALLOWED}
        | {Code.FORMAT_UNAVAILABLE, Code.NETWORK_BLOCKED},
        Exit.DENIED: {Code.DENIED, Code.APPROVAL_EXPIRED},
        Exit.TIMEOUT: {Code.TIMEOUT},
        Exit.LIMIT: {Code.MEMORY_LIMIT, Code.DISK_LIMIT, Code.OUTPUT_LIMIT},
        Exit.BUSY: {Code.BUSY, Code.RATE_LIMITED},
    }
    assert exit_of(None) == Exit.DONE


def test_terminal_progress_leaves_nothing_behind(monkeypatch, capsys):
    async def call(request):
        request.on_progress(0.5, "half\x1b[2J")
        return SimpleNamespace(result={}, error=None)

    monkeypatch.setattr(calls, "leave_link", lambda _settings: None)
    app: Any = SimpleNamespace(settings=None, pipeline=SimpleNamespace(call=call))
    terminal, theirs = os.openpty()
    with open(theirs, "w") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        assert calls.call_once(app, "info", {}, assume_yes=True) is Exit.DONE
    shown = ""
    with open(terminal, newline="") as screen, suppress(OSError):  # which is how a terminal ends
        while letter := screen.read(1):
            shown += letter
    assert " 50% half" in shown
    assert shown.replace("\r\x1b[K", "").count("\x1b") == 0
    assert shown.endswith("\r\x1b[K")
    assert capsys.readouterr() == ("{}\n", "")


def test_duration_is_a_number_and_a_unit():
    for text, seconds in (("90s", 90), ("30m", 1800), ("24h", 86400), ("7d", 604800), ("0s", 0)):
        assert seconds_of(text, "--for") == seconds
    for text in ("", "24", "h", "-1h", "1.5h", "1w", "24h ", "\u0661h", "9" * 10 + "d"):
        with pytest.raises(SettingsError):
            seconds_of(text, "--for")
