"""Attestation of this host: it passes, and finds from inside every weakness that an engine could add."""

from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath

import pytest

from sandbox import attestation
from sandbox.attestation import attest
from sandbox.errors import AttestationFailed
from sandbox.labels import OWNER
from sandbox.outcome import Exited
from sandbox.outputs.staging import StagingArea
from sandbox.workspace import RESERVED, Workspace
from tests.conftest import USER, handler
from tests.engines.kit import weaken_docker

pytestmark = pytest.mark.engine


@pytest.fixture(autouse=True)
def _nothing_is_left(client, owner):
    yield
    assert client.api.containers(all=True, filters={"label": f"{OWNER}={owner.id}"}) == []


@pytest.fixture
def probe(runner, make_template, workspace, cancel):
    """`probe()` attests a container with a workspace, a mask over the server's folder, and staging."""
    (workspace / "input.tif").write_bytes(b"raster")

    def run_attestation():
        with StagingArea(Workspace.at(workspace, writable=True)).open("staging-0001", USER) as staging:
            base = make_template(handler("pass"), workspace=workspace, staging=staging.path)
            template = replace(base, masks=(PurePosixPath(workspace / RESERVED),))
            return attest(runner, template, staging.path, cancel)

    return run_attestation


@pytest.fixture
def weaken(monkeypatch):
    """`weaken(change)`: see `weaken_docker`."""
    return partial(weaken_docker, monkeypatch)


def test_this_host_isolates_as_asked(probe):
    rows = probe()
    assert all(row.ok for row in rows)
    names = {"user", "CapEff", "Seccomp", "cgroup memory", "cgroup pids", "cgroup cpus"}
    assert names | {"write outside scratch and output"} <= {row.name for row in rows}


def setting(**values):
    return lambda _body, host: host.update(values)


def mounts(change):
    return lambda _body, host: change(host["Mounts"])


def without_limit(name):
    def change(_body, host):
        host["Ulimits"] = [limit for limit in host["Ulimits"] if limit["Name"] != name]

    return change


def tmpfs(change):
    """Changes mount points and their options."""
    return lambda _body, host: host.update(Tmpfs=dict(filter(None, map(change, host["Tmpfs"].items()))))


WEAK = {
    "user": lambda body, _host: body.update(User="0:0"),
    "supplementary groups": setting(GroupAdd=["0"]),
    "CapBnd": setting(CapDrop=[]),
    "NoNewPrivs": setting(SecurityOpt=[]),
    "Seccomp": setting(SecurityOpt=["no-new-privileges:true", "seccomp=unconfined"]),
    "open sockets of other families": setting(SecurityOpt=["no-new-privileges:true"]),
    "network interfaces": lambda body, host: (
        body.update(NetworkDisabled=False),
        host.update(NetworkMode="host"),
    ),
    "mount /": setting(ReadonlyRootfs=False),
    "mount /staging": mounts(lambda rows: rows[1].update(ReadOnly=True)),
    "foreign mounts": mounts(lambda rows: rows.append({**rows[0], "Source": "/etc", "Target": "/host"})),
    "foreign environment": lambda body, _host: body["Env"].append("SECRET=1"),
    "missing environment": lambda body, _host: body.update(Env=["PATH=/usr/local/bin:/usr/bin:/bin"]),
    "scratch /tmp": tmpfs(lambda row: (row[0], row[1].replace("noexec,", "exec,"))),
    "mount {workspace}": mounts(lambda rows: rows[0].update(ReadOnly=False)),
    "mask {workspace}/.gdal-mcp": tmpfs(lambda row: row if row[0] == "/tmp" else None),
    "shared memory": setting(IpcMode="private"),
    "rlimit NOFILE": without_limit("nofile"),
    "rlimit FSIZE": without_limit("fsize"),
    "rlimit DATA": without_limit("data"),
    "rlimit CPU": without_limit("cpu"),
    "cgroup memory": setting(Memory=0, MemorySwap=0),
    "cgroup pids": setting(PidsLimit=0),
    "cgroup cpus": setting(NanoCpus=0),
}


@pytest.mark.claim("sandbox.host-attested", "engine.ignored-limits-are-noticed", "files.reserved-covered")
@pytest.mark.parametrize("name", WEAK)
def test_each_weakness_is_found_from_inside(probe, weaken, workspace, name):
    weaken(WEAK[name])
    with pytest.raises(AttestationFailed) as caught:
        probe()
    assert name.format(workspace=workspace) in str(caught.value)  # the row, which is data
    assert not (workspace / ".gdal-mcp-probe").exists()


@pytest.mark.claim("sandbox.host-attested")
@pytest.mark.parametrize("holds", [[], ["another.tif"], ["input.tif", "more.tif"]])
def test_another_folder_in_the_workspaces_place_is_found(probe, weaken, tmp_path, workspace, holds):
    """Like an engine with another view of the host's files. An equal number of names does not mean equal names."""
    other = tmp_path / "other"
    (other / ".gdal-mcp").mkdir(parents=True)
    for name in holds:
        (other / name).touch()
    weaken(mounts(lambda rows: rows[0].update(Source=str(other))))
    with pytest.raises(AttestationFailed) as caught:
        probe()
    assert f"{workspace} is this host" in str(caught.value)


def test_folder_is_identified_by_names_on_another_kernel(probe, weaken, tmp_path, monkeypatch):
    """A virtual machine shows the host's folder with its own device and inode numbers; on the same kernel the numbers
    decide.
    """
    (tmp_path / "other/.gdal-mcp").mkdir(parents=True)
    (tmp_path / "other/input.tif").touch()
    weaken(mounts(lambda rows: rows[0].update(Source=str(tmp_path / "other"))))
    with pytest.raises(AttestationFailed):
        probe()
    monkeypatch.setattr(attestation, "comparable_boot", lambda _info: "another kernel's")
    assert probe()


@pytest.mark.claim("sandbox.host-attested")
def test_one_empty_folder_is_not_taken_for_another(
    weaken, runner, make_template, staging, tmp_path, cancel, monkeypatch
):
    for name in ("asked", "other"):
        (tmp_path / name).mkdir(mode=0o755)
    weaken(mounts(lambda rows: rows[0].update(Source=str(tmp_path / "other"))))
    template = make_template(handler("pass"), workspace=tmp_path / "asked", staging=staging.path)
    for _ in range(2):
        with pytest.raises(AttestationFailed) as caught:
            attest(runner, template, staging.path, cancel)
        assert f"{tmp_path}/asked is this host" in str(caught.value)
        monkeypatch.setattr(attestation, "comparable_boot", lambda _info: "another kernel's")


@pytest.mark.claim("sandbox.host-attested")
def test_replaced_staging_folder_is_noticed(probe, weaken, tmp_path):
    (tmp_path / "other").mkdir(mode=0o777)
    weaken(mounts(lambda rows: rows[1].update(Source=str(tmp_path / "other"))))
    with pytest.raises(AttestationFailed) as caught:
        probe()
    assert "staging is this host" in str(caught.value)


@pytest.mark.claim("sandbox.self-measured")
def test_a_weaker_container_gets_no_job(run, weaken, staging):
    leave = "open('/staging/ran', 'w').close()"
    assert run(leave, staging=staging.path).outcome == Exited(0)
    assert (staging.path / "ran").exists()
    (staging.path / "ran").unlink()
    weaken(setting(CapDrop=[]))
    with pytest.raises(AttestationFailed):
        run(leave, staging=staging.path)
    assert not (staging.path / "ran").exists()
