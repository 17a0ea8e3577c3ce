"""The program that is sent through stdin is the one that the command identifies, and runs as if the command named it
directly.
"""

import json
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

from sandbox.program import (
    COMPILE,
    EXIT_OTHER_PROGRAM,
    Delivery,
    compiled,
    delivered,
    program_args,
)

TEXT = "import json, os, sys\nprint(json.dumps([__name__, sys.argv[1:], os.read(0, 100).decode()]))\n"
WORDS = ("python3", "-I", "-c", TEXT, "two words", "", "ä\n'\"")


def run(delivery: Delivery, sent: bytes) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [sys.executable, *delivery.command[1:]], input=sent, capture_output=True, check=False
    )


def test_program_receives_arguments_and_subsequent_input():
    delivery = delivered(WORDS)
    done = run(delivery, delivery.program + b"the job")
    assert json.loads(done.stdout) == ["__main__", list(WORDS[4:]), "the job"]


def test_neither_another_nor_a_partial_program_runs():
    delivery, other = delivered(WORDS), delivered((*WORDS, "more"))
    done = run(delivery, other.program)
    assert (done.returncode, done.stdout) == (EXIT_OTHER_PROGRAM, b"")
    for length in [0, 2, 4, 20]:
        done = run(delivery, delivery.program[:length])
        assert (done.returncode, done.stdout) == (0, b"")


def test_command_is_short_and_specific_to_its_program():
    long = ("python3", "-I", "-c", TEXT, "x" * 100_000)
    assert sum(map(len, delivered(long).command)) < 2_000
    assert delivered(long).command != delivered((*long[:-1], "x" * 99_999)).command


def test_a_compiled_program_is_the_same_program():
    """With parts and arguments that are not programs; refused like any program whose digest is not the command's."""
    part = "part\ndef told(what):\n    return [what, __name__]\n"
    text = """import json, sys
space = {"__name__": "of the part"}
exec(sys.argv[1][1], space)
print(json.dumps([sys.argv[1][0], space["told"](sys.argv[2:])]))
"""
    command = ("python3", "-I", "-c", text, part, "two\0words", "ä")
    handler: dict[str, Any] = {}
    exec(COMPILE, handler)
    attachments: dict[str, bytes] = {}
    handler["run"]({"words": program_args(command)}, SimpleNamespace(attach=attachments.__setitem__))
    delivery = compiled(command, attachments["program"])
    assert json.loads(run(delivery, delivery.program).stdout) == [
        "part",
        [["two\0words", "ä"], "of the part"],
    ]
    done = run(delivery, delivered(command).program)
    assert (done.returncode, done.stdout) == (EXIT_OTHER_PROGRAM, b"")
