"""What an engine does with a container, from its creation to its removal. No check here looks at isolation."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePosixPath

from sandbox.conformance.bench import MIB, PATIENCE, Bench, hear, require, unavailable
from sandbox.conformance.programs import CRASH, LEAVE_A_MARK, PRINT_MUCH, REPEAT, SPEAK, WAIT_FOR_THE_END
from sandbox.engine import RLIMITS, STDERR, STDOUT
from sandbox.errors import ImageMissing, SandboxError
from sandbox.labels import OWNER, labels
from sandbox.template import Mount
from sandbox.waiting import readable

ABSENT_IMAGE = "sha256:" + "0" * 64
UNKNOWN = "0" * 64
CRASHED = 139  # 128 + SIGSEGV
BLOCKS = 1024  # of 4 KiB; far more than any pipe holds
ANSWERED = 16 * MIB  # sent to a container that speaks


def engine_says_what_it_is(bench: Bench) -> None:
    info = bench.engine.info()
    require(info.name and info.version and info.address, info)
    require(info.api_version > (0, 0) and info.architecture, info)
    require(info.host and (info.boot or not info.same_kernel) and info.rlimits <= RLIMITS, info)


def create_starts_nothing(bench: Bench) -> None:
    with bench.created(bench.template(LEAVE_A_MARK)) as container:
        state = bench.engine.state(container)
        require(state and state.running, f"a created container counts as ended: {state}")
        again = bench.engine.wait(container, 0.2)
        require(again and again.running, f"it ended without a start: {again}")
    require(not (bench.staging / "started").exists(), "its program ran before it was started")


def images_are_told(bench: Bench) -> None:
    require(bench.engine.images.find(bench.image), "the image in use is not told")
    require(bench.engine.images.find(ABSENT_IMAGE) is None, "an image that is not there is told")


def create_refuses_an_image_that_is_not_there(bench: Bench) -> None:
    try:
        container = bench.engine.create(
            bench.template(SPEAK, "0", image=ABSENT_IMAGE), labels(bench.owner, "conformance", PATIENCE)
        )
    except ImageMissing:
        require(not bench.ours(), "a container is left")
        return
    bench.engine.remove(container)
    require(holds=False, said="a container of no image was made")


def create_refuses_a_mount_without_a_source(bench: Bench) -> None:
    absent = bench.folder / "absent"
    template = bench.template(
        SPEAK, "0", mounts=(Mount(bench.source(absent), PurePosixPath("/data")),), masks=()
    )
    try:
        with bench.created(template) as container:
            bench.engine.start(container)
    except SandboxError:
        require(not absent.exists(), "the missing folder was made")
        require(not bench.ours(), "a container is left")
        return
    require(holds=False, said="a container with nothing to mount was made and started")


def labels_are_told_back(bench: Bench) -> None:
    with bench.created(bench.template(SPEAK, "0")) as container:
        found = bench.ours()
        require(list(found) == [container], f"asked for our containers it named {list(found)}")
        require(found[container].get(OWNER) == bench.owner, found)
    require(not bench.ours(), "a removed container is still told")


def attached_before_its_start_nothing_is_missed(bench: Bench) -> None:
    ran = bench.run(SPEAK, "0")
    require((ran.stdout, ran.stderr) == (b"out", b"err"), ran)


def exit_codes_are_told(bench: Bench) -> None:
    for code in (7, 255):  # 0 is many others'
        ran = bench.run(SPEAK, str(code))
        require(ran.state and not ran.state.running and ran.code == code, f"{code} became {ran.state}")


def a_crash_is_told(bench: Bench) -> None:
    """As a shell tells it, and not as a want of memory."""
    ran = bench.run(CRASH)
    require(ran.code == CRASHED, f"a violation of memory became {ran.state}")
    require(ran.state and not ran.state.out_of_memory, ran.state)


def much_output_arrives_whole(bench: Bench) -> None:
    ran = bench.run(PRINT_MUCH, str(BLOCKS))
    asked = b"".join(b"%08d" % number * 512 for number in range(BLOCKS))
    require(ran.stdout == asked, f"{len(ran.stdout)} of {len(asked)} bytes, or in another order")


def stdin_arrives_whole(bench: Bench) -> None:
    """While it is heard, as a job's questions and their answers go: neither side may wait for the other."""
    sent, back = b"0123456789abcdef" * (ANSWERED // 16), bytearray()
    with bench.created(bench.template(REPEAT)) as container, bench.started(container) as wire:
        sender = threading.Thread(target=wire.send, args=(sent, PATIENCE), daemon=True)
        sender.start()
        while len(back) < len(sent) and readable([wire], PATIENCE):
            if (pieces := wire.receive()) is None:
                break
            back += b"".join(data for stream, data in pieces if stream == STDOUT)
        require(back == sent, f"{len(back)} of {len(sent)} bytes came back, or changed ones")
        sender.join()


def stdin_ends_with_who_attached(bench: Bench) -> None:
    with bench.waiting() as (container, wire):
        running = bench.engine.wait(container, 0.2)
        require(running and running.running, f"its stdin ended at once: {running}")
        wire.close()
        ended = bench.engine.wait(container, PATIENCE)
        require(ended and not ended.running and ended.exit_code == 3, f"it goes on without stdin: {ended}")


def streams_of_two_are_apart(bench: Bench) -> None:
    with (
        bench.waiting() as (_, one),
        bench.created(bench.template(SPEAK, "0")) as second,
        bench.started(second) as two,
    ):
        heard = hear(two)
        require(heard == {STDOUT: b"out", STDERR: b"err"}, heard)
        require(not readable([one], 0), "the other one's end or words were heard")


def a_running_container_is_removed(bench: Bench) -> None:
    with bench.waiting() as (container, wire):
        bench.engine.remove(container)
        require(bench.engine.state(container) is None, "it is still known after its removal")
        require(bench.engine.process(container) is None, "it still has a process")
        heard = hear(wire)  # ends, as its streams do
        require(b"out" not in heard[STDOUT], heard)


def removal_may_be_repeated(bench: Bench) -> None:
    with bench.created(bench.template(SPEAK, "0")) as container:
        bench.engine.remove(container)
        bench.engine.remove(container)
    bench.engine.remove(UNKNOWN)


def removal_may_be_asked_by_many_at_once(bench: Bench) -> None:
    with bench.created(bench.template(WAIT_FOR_THE_END)) as container:
        bench.engine.start(container)
        with ThreadPoolExecutor(4) as threads:
            removals = [threads.submit(bench.engine.remove, container) for _ in range(4)]
        for one in removals:
            one.result()  # raises what the removal raised
        require(bench.engine.state(container) is None, "it is still known")


def waiting_ends_when_its_time_is_over(bench: Bench) -> None:
    with bench.waiting() as (container, _):
        state = bench.engine.wait(container, 0.2)
        require(state and state.running, f"a running container was waited for: {state}")


def its_process_is_told_while_it_runs(bench: Bench) -> None:
    """The number may be missing where the engine's host is another one; a wrong one never is."""
    with bench.created(bench.template(WAIT_FOR_THE_END)) as container:
        require(bench.engine.process(container) is None, "it has a process before its start")
        with bench.started(container, b"ready"):
            number = bench.engine.process(container)
            require(number is None or number > 1, f"its process is {number}")
        bench.engine.wait(container, PATIENCE)
        require(bench.engine.process(container) is None, "it has a process after its end")


def a_program_that_is_not_there_is_told(bench: Bench) -> None:
    template = bench.template("", command=("/no/such/program",))
    try:
        with bench.created(template) as one:
            bench.engine.attach(one).close()
            bench.engine.start(one)
            state = bench.engine.wait(one, PATIENCE)
            require(state and not state.running and state.exit_code > 0, f"it ended with {state}")
    except SandboxError:
        require(not bench.ours(), "a container is left")


def what_was_never_made_is_unknown(bench: Bench) -> None:
    engine = bench.engine
    found = engine.state(UNKNOWN), engine.wait(UNKNOWN, 1), engine.process(UNKNOWN)
    require(found == (None, None, None), found)
    unavailable(lambda: engine.attach(UNKNOWN), "attaching to nothing")
    unavailable(lambda: engine.start(UNKNOWN), "starting nothing")


def an_engine_that_is_gone_is_unavailable(bench: Bench) -> None:
    require(bench.gone, "the bench names no engine that is gone")
    assert bench.gone is not None
    gone = bench.gone()
    template = bench.template(SPEAK, "0")
    asked = {
        "info": gone.info,
        "create": lambda: gone.create(template, labels(bench.owner, "conformance", PATIENCE)),
        "attach": lambda: gone.attach(UNKNOWN),
        "start": lambda: gone.start(UNKNOWN),
        "state": lambda: gone.state(UNKNOWN),
        "process": lambda: gone.process(UNKNOWN),
        "wait": lambda: gone.wait(UNKNOWN, 0.1),
        "remove": lambda: gone.remove(UNKNOWN),
        "leftovers": gone.leftovers,
        "images.find": lambda: gone.images.find(ABSENT_IMAGE),
        "images.names": lambda: gone.images.names("image"),
    }
    for name, ask in asked.items():
        unavailable(ask, name)
