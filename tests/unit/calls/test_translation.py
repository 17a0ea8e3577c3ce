"""The answer to a caller for each way in which a job, or the sandbox itself, can end."""

import inspect
import json
from typing import Any, get_args

import pytest

from gdal_mcp.calls.execution import _return_code
from gdal_mcp.calls.translation import clean_messages, explain, judge, stderr_of, unreported_stderr
from gdal_mcp.errors import Code, Stage
from gdal_mcp.toolboxes.gdal.answers.described import described
from sandbox import errors
from sandbox.errors import SandboxError
from sandbox.outcome import (
    Cancelled,
    Declined,
    DiskLow,
    Evicted,
    Exited,
    FileSizeExceeded,
    HostReadFailed,
    Killed,
    Outcome,
    OutOfMemory,
    OutputLimitExceeded,
    ProtocolViolated,
    SandboxResult,
    StagingLimitExceeded,
    TimedOut,
    Usage,
)
from tests.boxes import GDAL

OUTCOMES: list[tuple[Outcome, Code | None]] = [
    (Exited(0), None),
    (Exited(1), Code.GDAL_ERROR),
    (TimedOut(5.0), Code.TIMEOUT),
    (Cancelled(), Code.CANCELLED),
    (OutOfMemory(1 << 30, killed=True), Code.MEMORY_LIMIT),
    (OutOfMemory(1 << 30, killed=False), Code.MEMORY_LIMIT),
    (OutputLimitExceeded(1 << 20), Code.OUTPUT_LIMIT),
    (StagingLimitExceeded("files", 5), Code.DISK_LIMIT),
    (StagingLimitExceeded("bytes", 5), Code.DISK_LIMIT),
    (DiskLow(), Code.DISK_LIMIT),
    (Evicted("The node was low on memory"), Code.ENGINE_UNAVAILABLE),
    (FileSizeExceeded(5), Code.DISK_LIMIT),
    *((Killed(code), Code.GDAL_ERROR) for code in (1, 70, 134, 139, 159)),
    *((Killed(code), Code.ENGINE_UNAVAILABLE) for code in (-1, 0, 71, 137)),
    (ProtocolViolated("x"), Code.INTERNAL),
    *(
        (ended, Code.INTERNAL) for ended in (Declined(), HostReadFailed())
    ),  # the canceller gives its own reason; this text is never shown
]
SANDBOX = {
    "LaunchCancelled": Code.CANCELLED,
    "SandboxError": Code.INTERNAL, "EngineUnavailable": Code.ENGINE_UNAVAILABLE,
    "ImageMissing": Code.ENGINE_UNAVAILABLE, "PullFailed": Code.INTERNAL, "CapacityExhausted": Code.BUSY,
    "IsolationRefused": Code.ENGINE_UNAVAILABLE, "AttestationFailed": Code.ENGINE_UNAVAILABLE,
    "PathRefused": Code.PATH_NOT_ALLOWED, "PathMissing": Code.NOT_FOUND,
    "PathReplaced": Code.PATH_NOT_ALLOWED, "StagingFailed": Code.DISK_LIMIT,
    "OutputRejected": Code.OUTPUT_REJECTED,
}  # fmt: skip


def result(outcome: Outcome, final: Any = None, stderr: bytes = b"") -> SandboxResult:
    return SandboxResult(outcome, Usage("cold"), final, stderr=stderr)


def test_a_limit_is_named_with_its_unit_and_its_option(subtests: pytest.Subtests):
    for outcome, limit, option in (
        (StagingLimitExceeded("bytes", 3 << 30), "3GiB", "--staging-size"),
        (StagingLimitExceeded("files", 4096), "4096", "--staging-files"),
        (FileSizeExceeded(5 << 20), "5 MiB", "--file-size"),
        (OutOfMemory(1 << 30, killed=True), "1024 MiB", "--memory"),
        (TimedOut(5.0), "5 s", "--timeout-seconds"),
    ):
        with subtests.test(outcome=outcome):
            error = judge(result(outcome, {}), GDAL)
            assert error is not None
            assert limit in error.message
            assert f"{option}." in error.suggestion


def test_every_outcome_has_a_code_and_keeps_output(subtests: pytest.Subtests):
    assert {type(outcome) for outcome, _ in OUTCOMES} == set(get_args(Outcome))
    for outcome, code in OUTCOMES:
        with subtests.test(outcome=outcome):
            error = judge(result(outcome, {}, b"ERROR 1: half a w\xff\x1b[31mord\n"), GDAL)
            assert (error.code if error else None) == code
            if error is not None:
                assert error.stage is Stage.RUN
                assert error.untrusted["stderr"] == "ERROR 1: half a w\ufffd[31mord\n"


def test_every_failure_of_the_sandbox_has_its_code():
    kinds = [
        kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, SandboxError)
    ]
    assert {kind.__name__: explain(kind("what happened"), Stage.PUBLISH).code for kind in kinds} == SANDBOX


def test_failure_gives_advice_without_terminal_control_characters():
    error = explain(errors.StagingFailed("no\x1b space"), Stage.PUBLISH)
    assert (error.stage, error.message) == (Stage.PUBLISH, "no space")
    assert error.suggestion
    assert "secret" not in str(explain(SandboxError("secret detail"), Stage.RUN))


NONSENSE = (
    None, 5, "text", [], {}, [5], ["x"], [[]], [{"level": {}}], [{"message": {"a": 1}}], {"0": {}}, True, 1.5,
)  # fmt: skip


@pytest.mark.parametrize("nonsense", NONSENSE, ids=map(repr, NONSENSE))
def test_a_container_may_answer_anything(nonsense: Any):
    """An attacker who controls a container can send any JSON as its final answer."""
    final = dict.fromkeys(("errors", "outputs", "done", "gdal_version", "return_code"), nonsense)
    error = judge(result(Exited(1), final), GDAL, writes=True)
    assert error is not None
    json.dumps(error.as_dict("id"), allow_nan=False)
    assert isinstance(clean_messages(final), list)
    outputs = described(final, 2)
    assert [type(output.facts) for output in outputs] == [dict, dict]
    json.dumps([[output.facts, output.names, output.checks] for output in outputs], allow_nan=False)
    assert _return_code(final) == (nonsense if type(nonsense) is int else None)


def test_only_failures_are_told_as_what_went_wrong():
    rows = [
        {"level": "warning", "message": "w"},
        *({"level": "error", "message": f"e{i}"} for i in range(100)),
    ]
    error = judge(result(Exited(1), {"errors": rows}), GDAL)
    assert error is not None
    assert error.untrusted["gdal"][0] == "e0"
    assert "w" not in error.untrusted["gdal"]
    assert len(error.untrusted["gdal"]) < 20


def test_stderr_is_capped():
    assert len(stderr_of(result(Exited(1), stderr=b"x" * 1_000_000))) < 20_000
    assert stderr_of(result(Exited(1))) == ""


def test_what_the_messages_say_is_not_told_twice() -> None:
    rows = [{"level": "warning", "message": "cut\nto ten", "count": 58}, {"message": "half"}]
    messages = clean_messages({"errors": rows})
    assert [message.count for message in messages] == [58, 1]
    assert unreported_stderr("Warning 1: cut\nto ten\nERROR 3: half\n", messages) == ""
    assert unreported_stderr("Warning 1: cut\nto ten\nproj: no grid\n", messages) == "proj: no grid\n"
    for count in (0, -1, True, "9", 1 << 40, None):
        assert clean_messages({"errors": [{"message": "x", "count": count}]})[0].count == 1


@pytest.mark.parametrize(
    "message",
    [
        "TIFFAppendToStrip: No space left on device",
        "In GetNextArrowArray(): sqlite3_step() : database or disk is full",
    ],
)
def test_full_temporary_space_names_the_setting_to_raise(message: str):
    final = {"errors": [{"level": "error", "number": 1, "message": message, "count": 1}]}
    error = judge(SandboxResult(Exited(1), Usage("cold"), final), GDAL)
    assert error is not None
    assert error.code is Code.DISK_LIMIT
    assert "scratch_size" in error.suggestion


def test_lines_that_differ_in_numbers_alone_are_folded():
    lines = "".join(f"GEOS error: side location conflict at {i}.5 {i}\n" for i in range(100))
    folded = unreported_stderr(f"another line\n{lines}", ())
    assert len(folded.splitlines()) == 2
    assert "100" in folded
    assert unreported_stderr("one 1\none 2\n", ()) == "one 1\none 2\n"
