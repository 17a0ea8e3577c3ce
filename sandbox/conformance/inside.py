"""What a container may see and do, told from inside and by effect."""

from dataclasses import replace

from sandbox.conformance.bench import ENVIRONMENT, IN_WORKSPACE, MIB, Bench, require
from sandbox.conformance.looking import ASK_MEMORY, COMPUTE, FORK, TAKE_MEMORY
from sandbox.hardening import rlimits
from sandbox.isolation.attestation import attest
from sandbox.runner import Runner
from sandbox.template import SCRATCH_TARGET
from sandbox.waiting import Cancellation

_FEW_PIDS = 48  # room for a runtime that counts threads of its own, and far fewer than the program tries
_SHARE = 0.25  # of one processor
# that a program with two busy processes may get in a second of it; unbounded it gets two
_SHARE_SECONDS = 0.8
_SCRATCH_SLACK = MIB  # what a file system counts besides the bytes of files


def the_user_is_the_template_s(bench: Bench) -> None:
    uid, gid = bench.user
    ids = bench.look["ids"]
    require(set(ids[:3]) == {uid} and set(ids[3:]) == {gid}, f"ids {ids}, asked {bench.user}")
    require(set(bench.look["groups"]) <= {gid}, f"groups {bench.look['groups']}")
    require("SUCCEEDED" not in bench.look["become"].values(), bench.look["become"])


def there_is_no_capability(bench: Bench) -> None:
    held = {name: row[0] for name, row in bench.look["status"].items() if name.startswith("Cap")}
    require(held and all(int(bits, 16) == 0 for bits in held.values()), held)


def no_privilege_is_gained(bench: Bench) -> None:
    require(bench.look["no_new_privs"] == 1, "no-new-privileges is not set")
    found = bench.look["setuid"]
    require(found in ("none in the image", [str(bench.user[0])]), f"a setuid program runs as {found}")


def forbidden_calls_are_refused(bench: Bench) -> None:
    allowed = [name for name, found in bench.look["calls"].items() if found == "SUCCEEDED"]
    require(not allowed, f"these calls are answered: {allowed}")


def sockets_are_local_ones(bench: Bench) -> None:
    opened = [name for name, found in bench.look["sockets"].items() if found == "SUCCEEDED"]
    require(not opened, f"these sockets can be made: {opened}")
    require(bench.look["unix_socket"] == "SUCCEEDED", "not even a local socket can be made")


def the_filter_is_in_force(bench: Bench) -> None:
    require(bench.look["status"].get("Seccomp") == ["2"], f"Seccomp {bench.look['status'].get('Seccomp')}")


def there_is_no_network(bench: Bench) -> None:
    found = set(bench.look["interfaces"])
    require(found <= {"lo"}, f"interfaces {sorted(found)}")
    reached = [address for address, how in bench.look["connect"].items() if how == "SUCCEEDED"]
    require(not reached, f"it reached {reached}")


def the_root_is_read_only(bench: Bench) -> None:
    written = [path for path, found in bench.look["written"].items() if found == "SUCCEEDED"]
    require(not written, f"it wrote to {written}")


def there_is_no_shared_memory(bench: Bench) -> None:
    require(bench.look["shared_memory"] != "SUCCEEDED", "it wrote to /dev/shm")


def a_read_only_mount_is_read(bench: Bench) -> None:
    require(bench.look["input"] == IN_WORKSPACE, f"it read {bench.look['input']!r}")
    require("SUCCEEDED" not in bench.look["workspace"].values(), bench.look["workspace"])
    kept = (bench.workspace / "input.txt").read_text(encoding="utf-8")
    require(kept == IN_WORKSPACE and not (bench.workspace / "new").exists(), "the host's folder was changed")


def a_writable_mount_is_the_host_s(bench: Bench) -> None:
    require(bench.look["staged"] == "SUCCEEDED", bench.look["staged"])
    made = bench.staging / "made.txt"
    require(
        made.is_file() and made.read_text(encoding="utf-8") == "made inside", "its file is not on the host"
    )
    status = made.stat()
    require(
        (status.st_uid, status.st_gid) == bench.user, f"its file belongs to {status.st_uid}:{status.st_gid}"
    )


def a_covered_folder_is_empty(bench: Bench) -> None:
    names, written = bench.look["covered"]
    require(names == [], f"it sees {names}")
    require(written != "SUCCEEDED", "it wrote where nothing is to be")


def scratch_is_bounded_and_runs_nothing(bench: Bench) -> None:
    total, reason = bench.look["scratch"]["all"]
    most = bench.limits.scratch_bytes + _SCRATCH_SLACK
    require(reason == "ENOSPC" and 0 < total <= most, f"{total} bytes, then {reason or 'no end'}")
    require(bench.look["scratch"]["program"] != "SUCCEEDED", "a program in scratch runs")


def the_environment_is_the_template_s(bench: Bench) -> None:
    # Python sets the first of itself, some engines the second, which tells what anybody may know
    unasked = {"LC_CTYPE": "C.UTF-8", "HOSTNAME": "sandbox"}
    found = {name: value for name, value in bench.look["environment"].items() if unasked.get(name) != value}
    require(found == ENVIRONMENT, f"its environment is {found}")
    require(bench.look["hostname"] == "sandbox", f"it is called {bench.look['hostname']}")
    require(bench.look["folder"] == str(SCRATCH_TARGET), f"it starts in {bench.look['folder']}")


def the_host_is_not_told(bench: Bench) -> None:
    told = {path: text[:40] for path, text in bench.look["host"].items() if text and not text.startswith("E")}
    require(not told, told)
    require(bench.look["sys"] in ([], "EACCES", "ENOENT"), f"/sys holds {bench.look['sys']}")
    require(bench.look["settings"] != "SUCCEEDED", "a setting of the kernel can be changed")


def there_is_no_device(bench: Bench) -> None:
    found = bench.look["devices"]
    require(found["listed"] == [] and found["node"] != "SUCCEEDED", found)


def it_sees_itself_alone(bench: Bench) -> None:
    own, seen = bench.look["processes"]
    require((own, seen) == (1, [1]), f"it is {own} among {seen}")


def resource_limits_are_the_template_s(bench: Bench) -> None:
    want = {name.upper(): [value, value] for name, value in rlimits(bench.limits).items()}
    require(bench.look["rlimits"] == want, f"{bench.look['rlimits']}, asked {want}")


def a_file_ends_at_its_limit(bench: Bench) -> None:
    require(
        bench.look["scratch"]["file"] == [bench.limits.file_bytes, "EFBIG"], bench.look["scratch"]["file"]
    )


def open_files_end_at_their_limit(bench: Bench) -> None:
    require(bench.look["open_files"] == [bench.limits.open_files, "EMFILE"], bench.look["open_files"])


def memory_is_refused_before_it_is_gone(bench: Bench) -> None:
    require(
        bench.run(ASK_MEMORY, str(bench.limits.memory_bytes)).answer == "refused", "all the memory was given"
    )


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
    ran = bench.run(FORK, limits=replace(bench.limits, pids=_FEW_PIDS))
    if ran.code == 0:
        count, reason = ran.answer
        require(count < _FEW_PIDS and reason != "none", f"{count} processes, then {reason}")


def processor_time_is_bounded(bench: Bench) -> None:
    used = bench.run(COMPUTE, limits=replace(bench.limits, cpus=_SHARE)).answer
    require(used < _SHARE_SECONDS, f"{used:.2f} s of processor time in a second, asked for {_SHARE}")


def attestation_accepts_it(bench: Bench) -> None:
    """Asked as the product asks it, before any call."""
    cancel = Cancellation()
    try:
        found = attest(Runner(bench.engine, bench.owner), bench.template(""), bench.staging, cancel)
    finally:
        cancel.close()
    require(found.ok, [row for row in found.rows if not row.ok])
