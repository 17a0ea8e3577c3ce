"""The checks as data, and the judgement of an engine with its exemptions. Nothing here knows which engine it is."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from sandbox.conformance import inside, life
from sandbox.conformance.bench import Bench, NotConforming
from sandbox.errors import SandboxError


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that every engine does. `function` raises when this one does not."""

    id: str
    sentence: str
    function: Callable[[Bench], None]


@dataclass(frozen=True, slots=True)
class Exemption:
    """A check that an engine is known to fail, and why that is so. One that it passes is an error, unless `varies`."""

    check: str
    reason: str
    varies: bool = False  # it fails on some machines and at some times


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one check. `detail` is the reason of the failure, or of the exemption."""

    check: Check
    status: Literal["passed", "failed", "exempt", "exempt but passed"]
    detail: str = ""

    @property
    def ok(self) -> bool:
        return self.status in ("passed", "exempt")


def held(*names: str) -> Callable[[Bench], None]:
    """Those rows of the look program held."""
    return lambda bench: bench.holds(*names)


CHECKS: Final = (
    Check("engine.info", "It says what it is", life.engine_says_what_it_is),
    Check("engine.gone", "Gone, every method says that it is unavailable", life.an_engine_that_is_gone_is_unavailable),
    Check("create.starts-nothing", "A created container has not begun, and counts as not ended", life.create_starts_nothing),
    Check("image.told", "It says whether an image is there", life.images_are_told),
    Check("create.image-missing", "An image that is not there is missing, and never fetched", life.create_refuses_an_image_that_is_not_there),
    Check("create.source-missing", "A mount without a source is refused, and its source not made", life.create_refuses_a_mount_without_a_source),
    Check("create.labels", "Labels are told back, and of existing containers alone", life.labels_are_told_back),
    Check("start.program-missing", "A program that is not there is no success", life.a_program_that_is_not_there_is_told),
    Check("streams.from-the-start", "Attached before the start, both streams are heard whole and apart", life.attached_before_its_start_nothing_is_missed),
    Check("streams.much-output", "Much output arrives whole and in order", life.much_output_arrives_whole),
    Check("streams.stdin", "What is sent arrives whole, while it speaks", life.stdin_arrives_whole),
    Check("streams.stdin-ends", "Its stdin ends with the wire, and not before", life.stdin_ends_with_who_attached),
    Check("streams.apart", "Two containers hear and say nothing of each other", life.streams_of_two_are_apart),
    Check("end.exit-code", "The exit code is the program's", life.exit_codes_are_told),
    Check("end.crash", "A crash is told as one", life.a_crash_is_told),
    Check("end.wait", "A wait ends when its time is over", life.waiting_ends_when_its_time_is_over),
    Check("end.process", "Its process is told while it runs", life.its_process_is_told_while_it_runs),
    Check("remove.running", "A running container is ended and gone", life.a_running_container_is_removed),
    Check("remove.again", "Removing what is gone, or never was, is no failure", life.removal_may_be_repeated),
    Check("remove.at-once", "Many may ask for a removal at once", life.removal_may_be_asked_by_many_at_once),
    Check("unknown", "What was never made is unknown, and cannot be used", life.what_was_never_made_is_unknown),
    Check("user", "It is the template's user, in its group alone, and cannot become another", held("user", "supplementary groups", "become root")),
    Check("capabilities", "It holds no capability", held("CapInh", "CapPrm", "CapEff", "CapBnd")),
    Check("no-new-privileges", "A setuid program gives it nothing", held("no new privileges", "user of a set-user-id program")),
    Check("seccomp.in-force", "The kernel shows a filter of system calls", held("Seccomp")),
    Check("seccomp.calls", "Calls that no job needs are refused", held("make system calls that no job needs")),
    Check("seccomp.sockets", "No socket but a local one can be made", held("open sockets of other families", "make a local socket, as jobs do")),
    Check("network", "There is no interface but the loopback, and nothing can be reached", held("network interfaces", "reach an address")),
    Check("root.read-only", "Nothing of the image can be changed", held("mount /", "write outside scratch and output")),
    Check("shared-memory", "There is no shared memory", held("shared memory")),
    Check("mount.read-only", "A read-only mount is read and not changed", inside.a_read_only_mount_is_read),
    Check("mount.writable", "What it writes is on the host, and its user's", inside.a_writable_mount_is_the_host_s),
    Check("mask", "A covered folder is empty and stays so", inside.a_covered_folder_is_empty),
    Check("scratch", "Scratch has its size, and runs no program", inside.scratch_is_bounded_and_runs_nothing),
    Check("environment", "Environment, host name and folder are the template's", held("foreign environment", "missing environment", "host name", "working folder")),
    Check("host", "It is told nothing of the host's kernel and disks, and sets nothing there", held("read what tells of the host", "see below /sys", "find writable settings of the kernel", "write the kernel's settings")),
    Check("devices", "There is no disk, and no device can be made", held("open devices", "make devices, pipes, sockets and links")),
    Check("processes", "It is process 1 and sees no other", held("process", "see other processes")),
    Check("limit.rlimits", "Its resource limits are the template's", held("rlimit")),
    Check("limit.file", "A file ends at its limit", inside.a_file_ends_at_its_limit),
    Check("limit.open-files", "Open files end at their limit", inside.open_files_end_at_their_limit),
    Check("limit.data", "Memory is refused readably before it is gone", inside.memory_is_refused_before_it_is_gone),
    Check("limit.memory", "Taking more memory than its limit ends it", inside.more_memory_ends_it),
    Check("limit.memory-told", "That it wanted memory is told", inside.a_want_of_memory_is_told),
    Check("limit.pids", "It cannot have more processes than its limit", inside.processes_are_bounded),
    Check("limit.cpus", "It gets no more processor time than its share", inside.processor_time_is_bounded),
    Check("attestation", "The product would run calls on it", inside.attestation_accepts_it),
)  # fmt: skip


def judge(bench: Bench, check: Check, exemptions: Sequence[Exemption] = ()) -> Verdict:
    """Runs one check. Raises ValueError for an exemption of a check that there is not."""
    if unknown := {one.check for one in exemptions} - {one.id for one in CHECKS}:
        raise ValueError(f"there are no such checks to be exempt from: {', '.join(sorted(unknown))}")
    known = next((one for one in exemptions if one.check == check.id), None)
    try:
        check.function(bench)
    except (NotConforming, SandboxError, OSError, KeyError, ValueError, TypeError, IndexError) as failure:
        said = f"{type(failure).__name__}: {failure}"
        return Verdict(check, "failed", said) if known is None else Verdict(check, "exempt", known.reason)
    if known is None or known.varies:
        return Verdict(check, "passed")
    return Verdict(check, "exempt but passed", known.reason)


def run(bench: Bench, exemptions: Sequence[Exemption] = ()) -> Iterator[Verdict]:
    """A verdict for every check, as they come."""
    return (judge(bench, check, exemptions) for check in CHECKS)
