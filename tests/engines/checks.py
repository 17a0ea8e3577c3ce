"""What every engine must do: checks on the real thing, judged by effect. Nothing here knows which engine it is.

A check fails by raising. Its docstring is its sentence in `docs/engines.md`.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import PurePosixPath

import pytest

from sandbox.attestation import attest
from sandbox.engine import STDERR, STDOUT
from sandbox.errors import EngineUnavailable, ImageMissing, SandboxError
from sandbox.labels import OWNER, labels
from sandbox.runner import Runner
from sandbox.template import Mount
from sandbox.waiting import Cancellation, readable
from tests.engines import bench as programs
from tests.engines.bench import IN_WORKSPACE, MIB, PATIENCE, Bench, hear
from tests.engines.known import Exemption

ABSENT_IMAGE = "sha256:" + "0" * 64
UNKNOWN = "0" * 64
CRASHED = 139  # 128 + SIGSEGV
BLOCKS = 1024  # of 4 KiB each; far more than a pipe can hold
ANSWERED = 16 * MIB  # bytes sent to a container while it writes
FEW_PIDS = 48  # room for a runtime that counts its own threads, and far fewer than the program tries to start
SHARE = 0.25  # fraction of one processor
# processor time that a program with two busy processes may get in one second; without a limit it gets two seconds
SHARE_SECONDS = 0.8
SCRATCH_SLACK = MIB  # bytes that a file system counts in addition to the contents of files

Check = Callable[[Bench], None]
CHECKS: dict[str, Check] = {}
# how a check fails: its own assertion, an error of the engine, or an answer of another form
FAILURES = (AssertionError, pytest.fail.Exception, SandboxError, OSError, LookupError, ValueError)
FAILURES += (TypeError, AttributeError)


def conforms(bench: Bench, subtests: pytest.Subtests, exemptions: tuple[Exemption, ...]) -> None:
    """Requires that every check holds, or fails as its exemption says; checks that vary are omitted, because they
    prove nothing.
    """
    excused = {exemption.check: exemption for exemption in exemptions}
    assert excused.keys() <= CHECKS.keys()
    for name, check in CHECKS.items():
        with subtests.test(check=name):
            exemption = excused.get(name)
            if exemption is None:
                check(bench)
            elif not exemption.varies:
                with pytest.raises(FAILURES):
                    check(bench)


def check(name: str) -> Callable[[Check], Check]:
    return lambda function: CHECKS.setdefault(name, function)


def _add_check(name: str, sentence: str, *rows: str) -> None:
    def function(bench: Bench) -> None:
        bench.holds(*rows)

    function.__doc__ = sentence
    check(name)(function)


# --- from its creation to its removal ---


@check("engine.info")
def _(bench: Bench) -> None:
    """It reports its name, version, architecture and address"""
    info = bench.engine.info()
    assert info.name
    assert info.version
    assert info.address
    assert info.api_version > (0, 0)
    assert info.architecture
    assert info.host
    assert info.boot or not info.same_kernel


@check("engine.gone")
def _(bench: Bench) -> None:
    """After the engine is gone every method raises EngineUnavailable"""
    assert bench.gone is not None, "the bench names no engine that is gone"
    gone, template = bench.gone(), bench.template(programs.SPEAK, "0")
    for ask in (
        gone.info,
        lambda: gone.create(template, labels(bench.owner, "conformance", PATIENCE)),
        gone.container(UNKNOWN).start,
        gone.container(UNKNOWN).state,
        gone.container(UNKNOWN).process,
        lambda: gone.container(UNKNOWN).wait(0.1),
        gone.container(UNKNOWN).remove,
        gone.leftovers,
        lambda: gone.images.find(ABSENT_IMAGE),
        lambda: gone.images.names("image"),
    ):
        with pytest.raises(EngineUnavailable):
            ask()


@check("create.starts-nothing")
def _(bench: Bench) -> None:
    """A created container does not run yet and counts as not ended"""
    with bench.created(bench.template(programs.LEAVE_A_MARK)) as container:
        assert container.state().running
        assert container.wait(0.2).running
    assert not (bench.staging / "started").exists(), "its program ran before it was started"


@check("image.told")
def _(bench: Bench) -> None:
    """It finds an image that is there, and None for another one"""
    assert bench.engine.images.find(bench.image)
    assert bench.engine.images.find(ABSENT_IMAGE) is None


@check("create.image-missing")
def _(bench: Bench) -> None:
    """A missing image raises ImageMissing and is never fetched"""
    with (
        pytest.raises(ImageMissing),
        bench.created(bench.template(programs.SPEAK, "0", image=ABSENT_IMAGE)) as container,
    ):
        container.start()
    assert not bench.ours(), "a container is left"


@check("create.source-missing")
def _(bench: Bench) -> None:
    """A mount whose source is missing is refused, and the source is not made"""
    absent = bench.folder / "absent"
    mounts = (Mount(bench.source(absent), PurePosixPath("/data")),)
    template = bench.template(programs.SPEAK, "0", mounts=mounts, masks=())
    with pytest.raises(SandboxError), bench.created(template) as container:
        container.start()
    assert not absent.exists(), "the missing folder was made"
    assert not bench.ours(), "a container is left"


@check("create.labels")
def _(bench: Bench) -> None:
    """It reports the labels of existing containers only"""
    with bench.created(bench.template(programs.SPEAK, "0")) as container:
        assert {name: labels[OWNER] for name, labels in bench.ours().items()} == {container.id: bench.owner}
    assert not bench.ours(), "a removed container is still told"


@check("start.program-missing")
def _(bench: Bench) -> None:
    """A missing program never counts as a success"""
    with (
        suppress(SandboxError),
        bench.created(bench.template("", command=("/no/such/program",))) as container,
    ):
        container.start().close()
        state = container.wait(PATIENCE)
        assert not state.running
        assert state.exit_code > 0
    assert not bench.ours(), "a container is left"


@check("streams.from-the-start")
def _(bench: Bench) -> None:
    """Streams are attached before the start, complete and separate"""
    ran = bench.run(programs.SPEAK, "0")
    assert (ran.stdout, ran.stderr) == (b"out", b"err")


@check("streams.much-output")
def _(bench: Bench) -> None:
    """Much output arrives complete and in order"""
    ran = bench.run(programs.PRINT_MUCH, str(BLOCKS))
    assert ran.stdout == b"".join(b"%08d" % number * 512 for number in range(BLOCKS))


@check("streams.stdin")
def _(bench: Bench) -> None:
    """Input arrives complete while the container writes output"""
    # like the questions and answers of a job: neither side may wait for the other
    sent, back = b"0123456789abcdef" * (ANSWERED // 16), bytearray()
    with bench.created(bench.template(programs.REPEAT)) as container, bench.started(container) as wire:
        sender = threading.Thread(target=wire.send, args=(sent, PATIENCE), daemon=True)
        sender.start()
        while len(back) < len(sent) and readable([wire], PATIENCE):
            if (pieces := wire.receive()) is None:
                break
            back += b"".join(data for stream, data in pieces if stream == STDOUT)
        assert back == sent
        sender.join()


@check("streams.stdin-ends")
def _(bench: Bench) -> None:
    """Its stdin ends when the streams are closed, and not before"""
    with bench.waiting() as (container, wire):
        assert container.wait(0.2).running
        wire.close()
        ended = container.wait(PATIENCE)
        assert (ended.running, ended.exit_code) == (False, 3)


@check("streams.apart")
def _(bench: Bench) -> None:
    """Two containers share no input or output"""
    speaking = bench.template(programs.SPEAK, "0")
    with (
        bench.waiting() as (_, waiting_wire),
        bench.created(speaking) as second,
        bench.started(second) as wire,
    ):
        assert hear(wire) == {STDOUT: b"out", STDERR: b"err"}
        assert not readable([waiting_wire], 0), "the other one's end or words were heard"


@check("end.exit-code")
def _(bench: Bench) -> None:
    """The exit code is the program's"""
    for code in (7, 255):  # 0 is the exit code of many other programs
        ran = bench.run(programs.SPEAK, str(code))
        assert ran.state
        assert (ran.state.running, ran.code) == (False, code)


@check("end.crash")
def _(bench: Bench) -> None:
    """A crash is reported as a crash"""
    ran = bench.run(programs.CRASH)
    assert ran.state is not None
    assert (ran.code, ran.state.out_of_memory) == (CRASHED, False)


@check("end.wait")
def _(bench: Bench) -> None:
    """A wait returns when its time is over"""
    with bench.waiting() as (container, _):
        assert container.wait(0.2).running


@check("end.process")
def _(bench: Bench) -> None:
    """Its first process is known while it runs"""
    with bench.created(bench.template(programs.WAIT_FOR_THE_END)) as container:
        assert container.process() is None, "it has a process before its start"
        with bench.started(container, b"ready"):
            number = container.process()
            assert number is None or number > 1  # None if the engine's host is another machine
        container.wait(PATIENCE)
        assert container.process() is None, "it has a process after its end"


@check("remove.running")
def _(bench: Bench) -> None:
    """Removing a running container ends it"""
    with bench.waiting() as (container, wire):
        container.remove()
        assert container.state() is None
        assert container.process() is None
        assert b"out" not in hear(wire)[STDOUT]  # its end also ends its streams


@check("remove.again")
def _(bench: Bench) -> None:
    """Removing a container twice, or an unknown one, is no error"""
    with bench.created(bench.template(programs.SPEAK, "0")) as container:
        container.remove()
        container.remove()
    bench.engine.container(UNKNOWN).remove()


@check("remove.at-once")
def _(bench: Bench) -> None:
    """Several threads may remove a container at once"""
    with bench.created(bench.template(programs.WAIT_FOR_THE_END)) as container:
        with closing(container.start()), ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda box: box.remove(), [container] * 4))  # raises what a removal raised
        assert container.state() is None


@check("unknown")
def _(bench: Bench) -> None:
    """A container that was never made is unknown and cannot be started"""
    container = bench.engine.container(UNKNOWN)
    assert (container.state(), container.wait(1), container.process()) == (None, None, None)
    with pytest.raises(EngineUnavailable):
        container.start()


# --- what a container may see and do, measured inside ---

# rows of the probe that held: the check, its sentence, the rows
ROWS = (
    ("user", "It runs as the template's user and group, and cannot become another user", "user", "supplementary groups", "become another user"),
    ("capabilities", "It holds no capability", "CapInh", "CapPrm", "CapEff", "CapBnd"),
    ("no-new-privileges", "A setuid program gives it nothing", "no new privileges", "user of a set-user-id program"),
    ("seccomp.in-force", "The kernel shows a filter of system calls", "Seccomp"),
    ("seccomp.calls", "Calls that no job needs are refused", "make system calls that no job needs"),
    ("seccomp.sockets", "Only local sockets can be made", "open sockets of other families", "make a local socket, as jobs do"),
    ("network", "There is only the loopback interface, and no address can be reached", "network interfaces", "reach an address"),
    ("root.read-only", "Nothing of the image can be changed", "mount /", "write outside scratch and output"),
    ("shared-memory", "There is no shared memory", "shared memory"),
    ("environment", "Environment, host name and folder are the template's", "foreign environment", "missing environment", "host name", "working folder"),
    ("host", "It sees nothing of the host's kernel and disks and changes no setting", "read what tells of the host", "see below /sys", "find writable settings of the kernel", "write the kernel's settings"),
    ("devices", "There is no disk, and no device can be made", "open devices", "make devices, pipes, sockets and links"),
    ("processes", "It is process 1 and sees no other", "process", "see other processes"),
    ("limit.rlimits", "Its resource limits are the template's", "rlimit"),
)  # fmt: skip
for row in ROWS:
    _add_check(*row)


@check("mount.read-only")
def _(bench: Bench) -> None:
    """A read-only mount is read and not changed"""
    bench.holds(f"mount {bench.workspace}")
    workspace = bench.evidence.look["workspace"]
    assert workspace["text"] == IN_WORKSPACE
    assert "SUCCEEDED" not in workspace["changes"].values()
    assert (bench.workspace / "input.txt").read_text(encoding="utf-8") == IN_WORKSPACE
    assert {path.name for path in bench.workspace.iterdir()} == {"covered", "input.txt"}


@check("mount.writable")
def _(bench: Bench) -> None:
    """Files that it writes are on the host and belong to its user"""
    assert bench.evidence.look["workspace"]["output"] == "SUCCEEDED"
    output = bench.staging / "made.txt"
    assert output.read_text(encoding="utf-8") == "made inside"
    assert (output.stat().st_uid, output.stat().st_gid) == bench.user


@check("mask")
def _(bench: Bench) -> None:
    """A covered folder is empty and stays so"""
    bench.holds("mask")
    assert bench.evidence.look["workspace"]["covered"] == []


@check("scratch")
def _(bench: Bench) -> None:
    """Scratch has its size, and no program runs from it"""
    total, reason = bench.evidence.look["bounds"]["scratch"]
    assert reason == "ENOSPC"
    assert 0 < total <= bench.limits.scratch_bytes + SCRATCH_SLACK
    assert bench.evidence.look["attempts"]["programs"]["run one from /tmp"] != "SUCCEEDED"


@check("limit.file")
def _(bench: Bench) -> None:
    """A file ends at its limit"""
    assert bench.evidence.look["bounds"]["file"] == [bench.limits.file_bytes, "EFBIG"]


@check("limit.open-files")
def _(bench: Bench) -> None:
    """Open files end at their limit"""
    assert bench.evidence.look["bounds"]["open files"] == [bench.limits.open_files, "EMFILE"]


@check("limit.data")
def _(bench: Bench) -> None:
    """An allocation fails with a message before memory is used up"""
    # allocated through the loader, which sets the limit if the engine does not
    template = bench.program(programs.ASK_MEMORY, str(bench.limits.memory_bytes))
    assert bench.run_as(template, template.program).answer == "refused"


@check("limit.memory")
def _(bench: Bench) -> None:
    """Using more memory than its limit ends it"""
    # allocated so that only the limit of the whole container counts it; if that limit only delays the program, its
    # processor time ends it
    limits = replace(bench.limits, wall_seconds=1.0)
    ran = bench.run(programs.TAKE_MEMORY, str(bench.limits.memory_bytes + 64 * MIB), limits=limits)
    assert b"held" not in ran.stdout
    assert ran.state is not None
    assert not ran.state.running
    assert ran.code != 0


@check("limit.memory-told")
def _(bench: Bench) -> None:
    """An end for lack of memory is reported as that"""
    ran = bench.run(programs.TAKE_MEMORY, str(bench.limits.memory_bytes + 64 * MIB))
    assert ran.state is not None
    assert ran.state.out_of_memory


@check("limit.pids")
def _(bench: Bench) -> None:
    """It cannot have more processes than its limit"""
    # for a Pod, the node sets one limit for all
    most = bench.limits.pids if bench.engine.info().limits_by_node else FEW_PIDS
    ran = bench.run(programs.FORK, limits=replace(bench.limits, pids=most))
    if ran.code == 0:  # otherwise it was ended, as on engines that count the runtime's own threads
        count, reason = ran.answer
        assert count < most
        assert reason != "none"


@check("limit.cpus")
def _(bench: Bench) -> None:
    """It gets no more processor time than its share"""
    assert bench.run(programs.COMPUTE, limits=replace(bench.limits, cpus=SHARE)).answer < SHARE_SECONDS


@check("attestation")
def _(bench: Bench) -> None:
    """Attestation accepts it, so calls run"""
    with closing(Cancellation()) as cancel:
        attest(Runner(bench.engine, bench.owner), bench.template(""), bench.staging, cancel)
