"""A staging folder is private, measured, and leaves nothing behind; unsuitable entries are never published."""

import errno
import os
import pwd
import re
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from staging_kit import CALL, USER, Trail, area_at, leftovers, publish, tree, write

from sandbox.errors import OutputRejected, StagingFailed
from sandbox.outputs import filetree
from sandbox.outputs.dirops import DirOps
from sandbox.outputs.store import RecoveryOutcome
from sandbox.template import Limits
from sandbox.workspace import RESERVED, Workspace
from tests.unit.sandbox.crash_child import ended

ROOT_HOST = os.geteuid() == 0
SMALL = Limits(staging_bytes=1_000_000, staging_files=20, file_bytes=600_000)


def modes(*paths: Path) -> list[int]:
    return [stat.S_IMODE(path.stat().st_mode) for path in paths]


def deep(folder: Path, levels: int) -> None:
    """Creates nested folders, deeper than the longest possible path."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)


# --- opening


@pytest.mark.claim("staging.private")
def test_container_gets_own_empty_folder_in_private_one(workspace):
    with area_at(workspace).open(CALL, USER) as staging:
        own = workspace / RESERVED
        out = staging.path
        assert out.is_relative_to(own)
        assert list(out.iterdir()) == []
        assert out.stat().st_uid == USER[0]
        assert modes(own, own / "staging", own / "undo", out.parent, out) == [0o755, *[0o700] * 4]
        assert (own / ".gitignore").read_text() == "*\n"
        assert workspace.stat().st_uid == os.geteuid()


def test_one_id_is_one_staging(workspace):
    area = area_at(workspace)
    with area.open(CALL, USER) as staging:
        write(staging.path, {"kept": b"1"})
        with pytest.raises(StagingFailed):
            area.open(CALL, USER)
        assert (staging.path / "kept").exists()


def test_invalid_ids_and_root_containers_get_no_staging(workspace):
    for bad in ("", "short", "../../etc/x", "with/slash", "with space", "new\nline1", "x" * 65, "ünïcode1"):
        with pytest.raises(StagingFailed):
            area_at(workspace).open(bad, USER)
    for user in ((0, 0), (0, 1000), (1000, 0)):
        with pytest.raises(StagingFailed):
            area_at(workspace).open(CALL, user)
    assert not (workspace / RESERVED).exists() or leftovers(workspace) == []


def test_unprivileged_server_stages_nothing_for_another_user(workspace, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 4321)
    with pytest.raises(StagingFailed):
        area_at(workspace).open(CALL, (1234, 1234))
    assert list(workspace.iterdir()) == []


@pytest.mark.claim("outputs.read-only-workspaces")
def test_a_read_only_workspace_is_never_written(workspace):
    area = type(area_at(workspace))(Workspace.at(workspace, writable=False))
    with pytest.raises(StagingFailed):
        area.open(CALL, USER)
    with pytest.raises(StagingFailed):
        area.prepare()
    assert list(workspace.iterdir()) == []


@pytest.mark.claim("staging.private")
def test_link_in_place_of_server_folder_is_refused(tmp_path):
    write(tmp_path, {"elsewhere/": b""})
    for number, name in enumerate((RESERVED, f"{RESERVED}/staging", f"{RESERVED}/undo")):
        root = tmp_path / str(number)
        write(root, {f"{name}/": b""})
        (root / name).rmdir()
        (root / name).symlink_to(tmp_path / "elsewhere")
        with pytest.raises(StagingFailed):
            area_at(root).open(CALL, USER)
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A workspace that every user can reach, unlike pytest's own folders."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        (Path(folder) / "workspace").mkdir()
        yield Path(folder) / "workspace"


@pytest.mark.skipif(not ROOT_HOST, reason="only root can make a folder of somebody else's")
def test_advice_for_root_about_owners_store_works(reachable):
    """The server uses nobody else's journals, and each solution that the error names works."""
    workspace = reachable
    os.chown(workspace, *USER)
    (workspace / RESERVED).mkdir()
    os.chown(workspace / RESERVED, *USER)
    with pytest.raises(StagingFailed) as caught:
        area_at(workspace).prepare()
    named = set(re.findall(r"--[a-z-]+", str(caught.value)))
    assert {"--run-as", "--workspace-ro"} <= named
    assert str(workspace / RESERVED) in str(caught.value)
    assert str(USER[0]) in str(caught.value) or pwd.getpwuid(USER[0]).pw_name in str(caught.value)
    assert as_user(lambda: area_at(workspace).prepare()) == 0
    assert sorted(path.name for path in (workspace / RESERVED).iterdir()) == [".gitignore", "staging", "undo"]


@pytest.mark.skipif(not ROOT_HOST, reason="only root can make a folder of somebody else's")
def test_advice_for_user_about_roots_store_works(reachable):
    workspace = reachable
    area_at(workspace).prepare()
    os.chown(workspace, *USER)
    workspace.chmod(0o755)
    report = workspace.parent / "told"
    report.touch()
    report.chmod(0o666)

    def prepare() -> None:
        try:
            area_at(workspace).prepare()
        except StagingFailed as failed:
            report.write_text(str(failed))

    as_user(prepare)
    (command,) = re.findall(r"sudo (chown [^)]*)", report.read_text())
    subprocess.run(command, shell=True, check=True)
    assert as_user(lambda: area_at(workspace).prepare()) == 0


def as_user(work) -> int:
    """Runs it in a child as USER, and returns the exit code."""

    def change_user_and_work() -> None:
        os.setgroups([])
        os.setgid(USER[1])
        os.setuid(USER[0])
        work()

    return ended(change_user_and_work)


@pytest.mark.claim("staging.private")
def test_folder_writable_by_others_is_not_trusted(workspace):
    area_at(workspace).prepare()
    (workspace / RESERVED / "undo").chmod(0o777)
    with pytest.raises(StagingFailed):
        area_at(workspace).open(CALL, USER)


# --- measuring


def test_usage_counts_sizes_blocks_and_entries_without_links(workspace, tmp_path):
    write(tmp_path, {"elsewhere/big": b"x" * 5_000_000})
    with area_at(workspace).open(CALL, USER) as staging:
        write(staging.path, {"a": b"x" * 10_000, "folder/b": b"y" * 50_000})
        with (staging.path / "sparse").open("wb") as sparse:
            sparse.truncate(500_000)
        usage = staging.usage()
        assert (usage.files, usage.largest_bytes) == (4, 500_000)
        assert usage.bytes >= 560_000
        (staging.path / "link").symlink_to(tmp_path / "elsewhere")
        assert staging.usage().bytes < usage.bytes + 100_000


def test_usage_and_collection_agree_on_limits(workspace):
    area = area_at(workspace)
    for contents, within in (
        ({"a": b"x" * 500_000}, True),
        ({f"{number}": b"" for number in range(20)}, True),
        ({f"{number}": b"" for number in range(21)}, False),
        ({f"{number}/": b"" for number in range(21)}, False),
        ({"a": b"x" * 700_000}, False),
        ({"a": b"x" * 510_000, "b": b"x" * 510_000}, False),
    ):
        with area.open(CALL, USER) as staging:
            write(staging.path, contents)
            assert staging.usage(SMALL).exceeds(SMALL) is not within
            if within:
                assert {staged.name for staged in staging.collect(SMALL)} == set(contents)
            else:
                with pytest.raises(OutputRejected):
                    staging.collect(SMALL)


@pytest.mark.claim("resources.staging-capped")
def test_job_cannot_hide_files_in_deep_folders(workspace):
    with area_at(workspace).open(CALL, USER) as staging:
        deep(staging.path, 1500)
        assert staging.usage(Limits(staging_files=100_000)).exceeds(Limits(staging_files=100_000))


@pytest.mark.claim("resources.staging-capped")
def test_job_cannot_hide_files_behind_a_mode(workspace):
    """Root can read the folder; for any other user an unreadable folder counts as exceeding the limits."""
    with area_at(workspace).open(CALL, USER) as staging:
        write(staging.path, {"hidden/big": b"x" * 900_000})
        (staging.path / "hidden").chmod(0)
        assert staging.usage(SMALL).exceeds(SMALL)


def test_usage_bears_files_that_come_and_go(workspace):
    with area_at(workspace).open(CALL, USER) as staging:
        churn = (
            "import os, itertools\n"
            "for n in itertools.count():\n"
            "    for f in range(30): os.makedirs(f'{f % 7}/{f}', exist_ok=True); open(f'{f % 7}/{f}/x', 'w').close()\n"
            "    for f in range(30): os.unlink(f'{f % 7}/{f}/x'); os.rmdir(f'{f % 7}/{f}')\n"
            "    if n == 5: print('going', flush=True)\n"
        )
        with subprocess.Popen([sys.executable, "-c", churn], cwd=staging.path, stdout=subprocess.PIPE) as job:
            assert job.stdout is not None
            job.stdout.readline()
            counts = {staging.usage().files for _ in range(300)}
            job.kill()
        assert max(counts) <= 7 + 60


# --- collecting


def test_files_and_folders_are_collected_with_their_sizes(workspace):
    with area_at(workspace).open(CALL, USER) as staging:
        write(staging.path, {"dem.tif": b"12345", "cube.zarr/a": b"12", "cube.zarr/b/c": b"345"})
        collected = [
            (staged.name, staged.is_folder, staged.size, staged.files) for staged in staging.collect()
        ]
    assert collected == [("cube.zarr", True, 5, 2), ("dem.tif", False, 5, 1)]


def _socket(out: Path) -> None:
    here = os.open(".", os.O_RDONLY)
    os.chdir(out)  # a socket's path is at most 108 bytes
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket")
    os.fchdir(here)
    os.close(here)


UNFIT: dict[str, Callable[[Path], object]] = {
    "a link to a file": lambda out: (out / "link").symlink_to("/etc/passwd"),
    "a dangling link": lambda out: (out / "link").symlink_to("nowhere"),
    "a link to a folder": lambda out: (out / "link").symlink_to("/"),
    "a link in a folder": lambda out: (out / "folder/link").symlink_to("../good.tif"),
    "a second name": lambda out: (out / "name").hardlink_to(out / "good.tif"),
    "a pipe": lambda out: os.mkfifo(out / "pipe"),
    "a pipe in a folder": lambda out: os.mkfifo(out / "folder/pipe"),
    "a socket": _socket,
    "a line break in a name": lambda out: (out / "two\nlines.tif").touch(),
    "an escape in a name": lambda out: (out / "\x1b[2J.tif").touch(),
    "a C1 control in a name": lambda out: (out / "\x9b2J.tif").touch(),
    "a line separator in a folder's name": lambda out: (out / "\u2028").mkdir(),
    "invalid UTF-8 in a name": lambda out: (out / "\udcff.tif").touch(),
    "a folder too deep": lambda out: deep(out, 70),
    "the name of a server's own folder": lambda out: (out / "folder" / RESERVED.upper()).mkdir(),
}
if ROOT_HOST:
    UNFIT["a device"] = lambda out: os.mknod(out / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))


@pytest.mark.claim("staging.inspected")
@pytest.mark.parametrize("spoil", UNFIT.values(), ids=UNFIT)
def test_one_unfit_entry_refuses_the_whole_output(workspace, spoil):
    with area_at(workspace).open(CALL, USER) as staging:
        write(staging.path, {"good.tif": b"good", "folder/": b""})
        assert staging.collect()
        spoil(staging.path)
        with pytest.raises(OutputRejected):
            staging.collect()
    assert tree(workspace) == {}
    assert leftovers(workspace) == []


def test_files_barred_by_mode_are_still_collected(workspace):
    with area_at(workspace).open(CALL, USER) as staging:
        write(staging.path, {"folder/inner/a": b"1", "b": b"22"})
        for name in ("folder/inner/a", "folder/inner", "folder", "b", "."):
            (staging.path / name).chmod(0)
        assert sum(staged.size for staged in staging.collect()) == 3


# --- leaving


@pytest.mark.claim("staging.removed")
def test_leaving_removes_everything_whatever_it_is(workspace, tmp_path):
    write(tmp_path, {"elsewhere/precious": b"1"})
    with area_at(workspace).open(CALL, USER) as staging:
        out = staging.path
        write(out, {"good.tif": b"good", "folder/": b"", "barred/inner/file": b"1", "full/inner/file": b"1"})
        for spoil in (spoil for name, spoil in UNFIT.items() if "link to" not in name and "deep" not in name):
            spoil(out)
        (out / "away").symlink_to(tmp_path / "elsewhere")
        (out / "full/inner/away").symlink_to(tmp_path / "elsewhere")
        deep(out, 2000)
        (out / "barred/inner").chmod(0)
        (out / "barred").chmod(0o500)
        out.chmod(0)
    assert leftovers(workspace) == []
    assert tree(tmp_path / "elsewhere") == {"precious": b"1"}


def test_removal_handles_more_names_than_one_batch(workspace, monkeypatch):
    monkeypatch.setattr(filetree, "_BATCH", 10)
    with area_at(workspace).open(CALL, USER) as staging:
        write(staging.path, {f"folder-{n % 12}/inner-{n % 3}/{n}": b"" for n in range(300)})
        write(staging.path, {f"{number}": b"" for number in range(100)})
    assert leftovers(workspace) == []


@pytest.mark.claim("staging.removed")
def test_error_exit_removes_everything_and_keeps_the_error(workspace):
    with pytest.raises(ZeroDivisionError), area_at(workspace).open(CALL, USER) as staging:
        write(staging.path, {"a": b"1"})
        raise ZeroDivisionError
    assert leftovers(workspace) == []
    with pytest.raises(StagingFailed):
        staging.collect()


@pytest.mark.claim("staging.removed")
def test_unfinished_removal_is_left_to_recovery_without_failing(workspace, monkeypatch):
    area = area_at(workspace)
    with monkeypatch.context() as late:
        late.setattr(filetree, "_REMOVAL_SECONDS", -1.0)
        with area.open(CALL, USER) as staging:
            write(staging.path, {"a": b"1", "folder/inner/file": b"1"})
        assert leftovers(workspace) == [CALL]
        assert [finding.outcome for finding in area.recover()] == [RecoveryOutcome.DAMAGED]
    assert [finding.outcome for finding in area.recover()] == [RecoveryOutcome.DISCARDED]
    assert leftovers(workspace) == []


@contextmanager
def holding_open(folder: Path) -> Iterator[Callable[[], int]]:
    """A process of the container's user in a folder, which creates a file there on request and returns the error
    number.
    """
    (questions, ask), (answers, tell) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ask)
        os.chdir(folder)
        if ROOT_HOST:
            os.setgroups([])
            os.setgid(USER[1])
            os.setuid(USER[0])
        os.read(questions, 1)
        try:
            os.close(os.open("more", os.O_CREAT | os.O_EXCL))
        except OSError as error:
            os.write(tell, bytes([error.errno or 0]))
        else:
            os.write(tell, bytes([0]))
        os._exit(0)

    def fill() -> int:
        os.write(ask, b"!")
        return os.read(answers, 1)[0]

    try:
        yield fill
    finally:
        os.close(ask)
        os.waitpid(child, 0)
        for end in (questions, answers, tell):
            os.close(end)


@contextmanager
def opened(folder: Path) -> Iterator[int]:
    file = os.open(folder, os.O_RDONLY)
    yield file
    os.close(file)


@pytest.mark.claim("staging.removed")
def test_root_lets_nobody_fill_what_it_removes(workspace, monkeypatch):
    """A process in the folder of a container remains there after the container is gone, and could keep the removal
    busy.
    """
    with area_at(workspace).open(CALL, USER) as staging:
        out = staging.path
        write(out, {"a": b"1"})
        with holding_open(out) as fill:
            with monkeypatch.context() as late, opened(out.parent) as above:
                late.setattr(filetree, "_REMOVAL_SECONDS", -1.0)
                with pytest.raises(TimeoutError):
                    filetree.remove(above, out.name)
            assert fill() == (errno.EACCES if ROOT_HOST else 0)
        assert (out / "a").exists()
    assert leftovers(workspace) == []


def test_nothing_stays_open(workspace):
    area = area_at(workspace)
    write(workspace, {"dem.tif": b"old"})
    before = len([*Path("/proc/self/fd").iterdir()])
    for number in range(3):
        publish(area, {"dem.tif": b"new", "cube.zarr/a/b": b"1"}, f"call-000{number}")
        area.undo(f"call-000{number}")
        area.recover()
        with pytest.raises(StagingFailed):
            area.undo("call-none")
    with area.open("call-bad1", USER) as staging:
        deep(staging.path, 80)
        with pytest.raises(OutputRejected):
            staging.collect()
    assert len([*Path("/proc/self/fd").iterdir()]) == before


# --- dead and living processes


@pytest.mark.claim("staging.removed")
def test_only_staging_of_dead_processes_is_removed(workspace):
    area = area_at(workspace)
    child = os.fork()
    if child == 0:
        dead = area_at(workspace).open("dead-call", USER)
        write(dead.path, {"half": b"1"})
        os._exit(0)
    os.waitpid(child, 0)
    with area.open("alive-call", USER) as staging:
        write(staging.path, {"half": b"1"})
        recovered = area.recover()
        assert [(finding.staging_id, finding.outcome) for finding in recovered] == [
            ("dead-call", RecoveryOutcome.DISCARDED)
        ]
        assert leftovers(workspace) == ["alive-call"]
        assert tree(staging.path) == {"half": b"1"}
    assert area.recover() == ()


@pytest.mark.parametrize("point", ["open.folder.after", "open.lock.before", "open.lock.after"])
def test_staging_under_creation_does_not_count_as_dead(workspace, point):
    recoveries = []
    recovering = threading.Thread(target=lambda: recoveries.append(area_at(workspace).recover()))
    trail = Trail()

    def meanwhile(where: str) -> None:
        trail(where)
        if where == point:
            recovering.start()
            recovering.join(0.3)  # long enough for a recovery that would not wait

    with area_at(workspace, DirOps(meanwhile)).open(CALL, USER) as staging:
        recovering.join()
        assert recoveries == [()]
        write(staging.path, {"a": b"1"})
    assert point in trail.points


def test_recovery_leaves_foreign_names_alone(workspace, tmp_path):
    area = area_at(workspace)
    area.prepare()
    write(tmp_path, {"elsewhere/precious": b"1"})
    for folder in ("staging", "undo"):
        (workspace / RESERVED / folder / "linked-call").symlink_to(tmp_path / "elsewhere")
        write(workspace / RESERVED / folder, {"notes.txt": b"mine", "some-file": b"mine"})
    assert area.recover() == ()
    assert tree(tmp_path / "elsewhere") == {"precious": b"1"}
    assert leftovers(workspace) == ["linked-call", "notes.txt", "some-file"]


def test_root_server_is_refused_on_ownerless_file_system(tmp_path, monkeypatch):
    def refuse(*_arguments):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "fchown", refuse)
    area = area_at(tmp_path)
    with pytest.raises(StagingFailed, match="uid=1000,gid=1000"):
        area.open("staging-1", (65534, 65534))
    assert leftovers(tmp_path) == []
