"""The command of a GDAL container."""

import threading
from types import SimpleNamespace

from gdal_mcp.toolboxes.gdal.inside.parts.remote import ENOENT, HostFiles
from gdal_mcp.toolboxes.gdal.worker_source import PARTS, gdal_command
from tests.repo.test_imports import ALL, within

LONGEST = 128 << 10  # the longest argument that Linux accepts, including its closing NUL


def test_every_word_is_one_that_linux_takes():
    assert max(len(word.encode()) for word in gdal_command()) < LONGEST


def test_every_part_goes_along_once_under_its_name():
    command = gdal_command()
    named = [word.partition("\n")[0] for word in command[6:]]
    assert sorted(named) == sorted(module.removeprefix(f"{PARTS}.") for module in ALL if within(module, PARTS) and module != PARTS)  # fmt: skip
    for word in command[6:]:
        name, _, text = word.partition("\n")
        assert text == ALL[f"{PARTS}.{name}"].read_text(encoding="utf-8")


def test_remote_file_lookups_do_not_wait_for_others():
    started, other_is_known, waits = threading.Event(), threading.Event(), []

    def ask(_what, name):
        def wait():
            if name == b"slow":
                started.set()
                waits.append(other_is_known.wait(10))
            return ENOENT, b""

        return SimpleNamespace(wait=wait)

    host = HostFiles(ask, budget=0)
    slow = threading.Thread(target=host.look, args=(b"slow",))
    slow.start()
    assert started.wait(10)
    assert host.look(b"quick") is None
    other_is_known.set()
    slow.join()
    assert waits == [True]
