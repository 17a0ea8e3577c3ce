"""What a container may see and do, told from inside: checks that need more than rows of the look program."""

from dataclasses import replace

from sandbox.attestation import attest
from sandbox.conformance.bench import IN_WORKSPACE, MIB, Bench, require
from sandbox.conformance.programs import ASK_MEMORY, COMPUTE, FORK, TAKE_MEMORY
from sandbox.runner import Runner
from sandbox.waiting import Cancellation

_FEW_PIDS = 48  # room for a runtime that counts threads of its own, and far fewer than the program tries
_SHARE = 0.25  # of one processor
# that a program with two busy processes may get in a second of it; unbounded it gets two
_SHARE_SECONDS = 0.8
_SCRATCH_SLACK = MIB  # what a file system counts besides the bytes of files


def a_read_only_mount_is_read(bench: Bench) -> None:
    bench.holds(f"mount {bench.workspace}")
    seen = bench.evidence.look["workspace"]
    require(seen["text"] == IN_WORKSPACE, f"it read {seen['text']!r}")
    require("SUCCEEDED" not in seen["changes"].values(), seen["changes"])
    kept = (bench.workspace / "input.txt").read_text(encoding="utf-8")
    names = {one.name for one in bench.workspace.iterdir()}
    require((kept, names) == (IN_WORKSPACE, {"covered", "input.txt"}), "the host's folder was changed")


def a_writable_mount_is_the_host_s(bench: Bench) -> None:
    said, made = bench.evidence.look["workspace"]["output"], bench.staging / "made.txt"
    require(said == "SUCCEEDED", said)
    require(
        made.is_file() and made.read_text(encoding="utf-8") == "made inside", "its file is not on the host"
    )
    owner = made.stat().st_uid, made.stat().st_gid
    require(owner == bench.user, f"its file belongs to {owner}")


def a_covered_folder_is_empty(bench: Bench) -> None:
    bench.holds("mask")
    names = bench.evidence.look["workspace"]["covered"]
    require(names == [], f"it sees {names}")


def scratch_is_bounded_and_runs_nothing(bench: Bench) -> None:
    total, reason = bench.evidence.look["bounds"]["scratch"]
    most = bench.limits.scratch_bytes + _SCRATCH_SLACK
    require(reason == "ENOSPC" and 0 < total <= most, f"{total} bytes, then {reason or 'no end'}")
    ran = bench.evidence.look["attempts"]["programs"]["run one from /tmp"]
    require(ran != "SUCCEEDED", "a program in scratch runs")


def a_file_ends_at_its_limit(bench: Bench) -> None:
    found = bench.evidence.look["bounds"]["file"]
    require(found == [bench.limits.file_bytes, "EFBIG"], found)


def open_files_end_at_their_limit(bench: Bench) -> None:
    found = bench.evidence.look["bounds"]["open files"]
    require(found == [bench.limits.open_files, "EMFILE"], found)


def memory_is_refused_before_it_is_gone(bench: Bench) -> None:
    """Asked for through the loader, which sets the limit where the engine does not."""
    asked = bench.program(ASK_MEMORY, str(bench.limits.memory_bytes))
    require(bench.run_as(asked, asked.program).answer == "refused", "all the memory was given")


def more_memory_ends_it(bench: Bench) -> None:
    """Taken so that only the limit of the whole container counts it."""
    ran = bench.run(TAKE_MEMORY, str(bench.limits.memory_bytes + 64 * MIB))
    require(b"held" not in ran.stdout, "it took more than its limit")
    require(ran.state and not ran.state.running and ran.code != 0, f"it ended with {ran.state}")


def a_want_of_memory_is_told(bench: Bench) -> None:
    ran = bench.run(TAKE_MEMORY, str(bench.limits.memory_bytes + 64 * MIB))
    require(ran.state and ran.state.out_of_memory, f"it ended with {ran.state}")


def processes_are_bounded(bench: Bench) -> None:
    """Refused, or ended where the runtime's own threads count; never as many as it likes."""
    # of a Pod its node bounds them, for all alike
    most = bench.limits.pids if bench.engine.info().pods else _FEW_PIDS
    ran = bench.run(FORK, limits=replace(bench.limits, pids=most))
    if ran.code == 0:
        count, reason = ran.answer
        require(count < most and reason != "none", f"{count} processes, then {reason}")


def processor_time_is_bounded(bench: Bench) -> None:
    used = bench.run(COMPUTE, limits=replace(bench.limits, cpus=_SHARE)).answer
    require(used < _SHARE_SECONDS, f"{used:.2f} s of processor time in a second, asked for {_SHARE}")


def attestation_accepts_it(bench: Bench) -> None:
    """Asked as the product asks it, before any call."""
    cancel = Cancellation()
    try:
        attest(Runner(bench.engine, bench.owner), bench.template(""), bench.staging, cancel)
    finally:
        cancel.close()
