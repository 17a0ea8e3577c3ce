"""The proxy permits the requests that the server needs, and no other part of the engine's API."""

import copy
import json
import socket
from pathlib import Path

import docker
import pytest

from gdal_mcp.cli.main import main
from gdal_mcp.testing.samples import write_samples
from sandbox.engines.docker import DockerEngine
from sandbox.engines.docker_spec import create_body
from sandbox.labels import OWNER
from sandbox.runner import Runner
from tests.conftest import USER, handler
from tests.unit.sandbox.hardening_kit import engine_info
from tests.waiting import until

pytestmark = [pytest.mark.nightly, pytest.mark.engine]

API = "/v1.41"
SOME_ID = "0123456789abcdef" * 4


@pytest.fixture
def place(deployed, request):
    """A workspace with the samples, and a state folder, both where mounts may come from."""
    folder = deployed / f"place-{request.node.name[:20]}-{id(request):x}"
    (folder / "workspace").mkdir(parents=True)
    (folder / "workspace").chmod(0o755)
    write_samples(folder / "workspace")
    return folder


def options(place: Path, proxy, image) -> list[str]:
    places = ["--workspace", str(place / "workspace"), "--state-dir", str(place / "state")]
    return [*places, "--engine", proxy.address, "--image", image.reference]


def test_doctor_finds_nothing_wrong_through_the_proxy(proxy, place, image, capsys):
    assert main(["doctor", "--json", *options(place, proxy, image)]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [row for row in report["rows"] if row["state"] == "failed"] == []
    assert {"attestation", "catalogue"} <= {row["group"] for row in report["rows"]}


@pytest.fixture
def slot(proxy, image, owner, make_template):
    """A started container, reached through the proxy."""
    client = docker.DockerClient(base_url=proxy.address, version="1.41")
    engine = DockerEngine(client)
    launched = Runner(engine, owner.id).launch(make_template(handler("pass")), "proxied")
    yield launched
    launched.wire.close()
    launched.container.remove()
    client.close()


def test_client_disconnection_reaches_containers_through_the_proxy(slot):
    """Otherwise a dead server would leave a running container."""
    assert slot.container.state().running
    slot.wire.close()
    until(lambda: not slot.container.state().running)


OWN = "%7B%22label%22%3A%5B%22io.gdal-mcp.owner%22%5D%7D"  # the filter for containers of ours
OF_ONE = "exec kill update rename restart stop pause unpause copy resize %65xec start/ start;x exec?/start json".split()
REFUSED = {
    "POST": [
        *(f"/containers/{SOME_ID}/{verb}" for verb in OF_ONE), f"/exec/{SOME_ID}/start", "/containers/prune", "/containers/json",
        "/commit?container=x", "/build", "/build/prune", "/images/create?fromImage=debian", "/images/load", "/images/x/push",
        "/images/x/tag?repo=y", "/images/prune", "/volumes/create", "/networks/create", "/swarm/init", "/services/create",
        "/secrets/create", "/plugins/pull", "/auth", "/session", "/grpc", f"//containers/{SOME_ID}/start",
        # by name or by a part of an id, which anybody could guess
        "/containers/web/attach", f"/containers/{SOME_ID[:12]}/start",
    ],
    "DELETE": ["/images/x", "/volumes/x", "/containers/json", "/containers/web?force=1"],
    "PUT": [f"/containers/{SOME_ID}/archive?path=/", f"/containers/{SOME_ID}/start"],
    "HEAD": [f"/containers/{SOME_ID}/archive?path=/"],
    "GET": [
        *(f"/containers/{SOME_ID}{verb}" for verb in ("", "/archive?path=/", "/export", "/top", "/changes", "/attach/ws")),
        *(f"/{resource}" for resource in "swarm nodes services tasks secrets configs plugins volumes networks events system/df".split()),
        f"/exec/{SOME_ID}/json", "/images/x/get", "/images/search?term=x", "/distribution/x/json",
        # spellings that the engine and the proxy might read differently
        f"/containers/{SOME_ID}/json/../../../volumes", "/images/../volumes/x/json", "/images/x%2f..%2f../json",
        "/images/x/../../volumes/json", "/images/x//y/json", f"/containers/{SOME_ID}/json?size=1;all=1",
        f"/containers/{SOME_ID}/json?size=%00'",
        # containers of others
        "/containers/json", "/containers/json?all=1", "/containers/json?filters=%7B%7D",
        "/containers/json?filters=%7B%22label%22%3A%5B%22other%22%5D%7D", f"/containers/json?filters=%7B%7D&filters={OWN}",
        f"/containers/json?filters={OWN}&filters=%7B%7D", f"/containers/json?x=1;filters=%7B%7D&filters={OWN}",
    ],
}  # fmt: skip


@pytest.mark.claim("engine.proxy")
def test_nothing_else_of_the_api_is_let_through(proxy, subtests):
    for method, targets in REFUSED.items():
        for target in targets:
            with subtests.test(method=method, target=target):
                assert proxy.ask(method, API + target)[0] == 403


def test_older_and_other_api_spellings_are_refused(proxy, subtests):
    """Before version 1.24, a start request could make a container privileged."""
    for version in ("", "/v1.12", "/v1.23", "/v1.40", "/v2.0", "/v1.41/v1.12", "/V1.41"):
        with subtests.test(version=version):
            assert proxy.ask("POST", f"{version}/containers/{SOME_ID}/start")[0] == 403
            assert proxy.ask("GET", f"{version}/info")[0] == 403


def test_only_a_create_request_has_a_body(proxy):
    body = {"HostConfig": {"Privileged": True}}
    for method, verb in (("POST", "/start"), ("POST", "/wait"), ("DELETE", ""), ("GET", "/json")):
        assert proxy.ask(method, f"{API}/containers/{SOME_ID}{verb}", body)[0] == 403


def test_what_is_allowed_reaches_the_engine(proxy):
    """The engine itself answers, so the refusals above come from the proxy."""
    assert proxy.ask("GET", "/version")[0] == 200
    assert proxy.ask("GET", f"{API}/info")[0] == 200
    assert proxy.ask("GET", f"{API}/images/json")[0] == 200
    assert proxy.ask("GET", f"{API}/images/no-such-image/json")[0] == 404
    assert proxy.ask("POST", f"{API}/containers/{SOME_ID}/start")[0] == 404
    assert proxy.ask("DELETE", f"{API}/containers/{SOME_ID}?force=1")[0] == 404


@pytest.fixture
def create_request(client, make_template, deployed):
    """The body of the server's create request. Containers that are made from it are removed at the end."""
    template = make_template(handler("pass"), workspace=deployed)
    body = create_body(template, engine_info((1, 41), "x86_64", "1", "name=seccomp"), {})
    body["Labels"] = {"test-of-the-proxy": "1"}
    yield body
    for container in client.containers.list(all=True, filters={"label": "test-of-the-proxy"}):
        container.remove(force=True)


def container_count(client) -> int:
    return len(client.containers.list(all=True, filters={"label": "test-of-the-proxy"}))


def host(**values):
    return lambda body: body["HostConfig"].update(values)


def mount(**values):
    return lambda body: body["HostConfig"]["Mounts"][0].update(values)


WEAKER = {
    "privileged": host(Privileged=True),
    "in small letters": lambda body: body.update(hostconfig={"privileged": True}),
    "capability": host(CapAdd=["SYS_ADMIN"]),
    "device": host(Devices=[{"PathOnHost": "/dev/mem"}]),
    "any device": host(DeviceCgroupRules=["a *:* rwm"]),
    "bind": host(Binds=["/:/host"]),
    "volumes of another": host(VolumesFrom=["web"]),
    "group of the engine": host(GroupAdd=["0"]),
    "processes of the host": host(PidMode="host"),
    "processes of another": host(PidMode="container:web"),
    "network of the host": host(NetworkMode="host"),
    "shared memory of the host": host(IpcMode="host"),
    "names of the host": host(UTSMode="host"),
    "users of the host": host(UsernsMode="host"),
    "control groups of the host": host(CgroupnsMode="host"),
    "another control group": host(CgroupParent="/"),
    "sysctl": host(Sysctls={"kernel.shm_rmid_forced": "0"}),
    "nothing masked": host(MaskedPaths=[]),
    "all writable": host(ReadonlyPaths=[]),
    "no filter": host(SecurityOpt=["seccomp=unconfined"]),
    "no AppArmor": host(SecurityOpt=["apparmor=unconfined"]),
    "no SELinux": host(SecurityOpt=["label:disable"]),
    "everything shown": host(SecurityOpt=["systempaths=unconfined"]),
    "port": host(PortBindings={"80/tcp": [{"HostPort": "80"}]}),
    "the host's root": mount(Source="/"),
    "the engine's socket": mount(Source="/var/run/docker.sock"),
    "a way round": lambda body: mount(Source=body["HostConfig"]["Mounts"][0]["Source"] + "/../../etc")(body),
    "a longer name": lambda body: mount(Source=body["HostConfig"]["Mounts"][0]["Source"] + "-other")(body),
    "shared propagation": lambda body: body["HostConfig"]["Mounts"][0]["BindOptions"].update(
        Propagation="rshared"
    ),
    "volume": mount(Type="volume", Source="web"),
    "volume of a driver": mount(
        Type="volume", VolumeOptions={"DriverConfig": {"Options": {"device": "/", "o": "bind"}}}
    ),
    "mount of another kind": lambda body: body["HostConfig"]["Mounts"].append(
        {"Type": "volume", "Target": "/x"}
    ),
    "anonymous volume": lambda body: body.update(Volumes={"/data": {}}),
    "networking": lambda body: body.update(NetworkingConfig={"EndpointsConfig": {"bridge": {}}}),
}


@pytest.mark.claim("engine.proxy")
def test_a_container_that_may_more_is_not_created(proxy, client, create_request, subtests):
    for name, weaken in WEAKER.items():
        with subtests.test(name=name):
            weaken(weaker := copy.deepcopy(create_request))
            assert proxy.ask("POST", f"{API}/containers/create", weaker)[0] == 403
            assert container_count(client) == 0


def test_what_the_server_asks_for_is_created(proxy, client, create_request):
    status, body = proxy.ask("POST", f"{API}/containers/create", create_request)
    assert status == 201, body
    assert container_count(client) == 1


def escaped(text: str) -> str:
    return text.replace('"Privileged": false', '"\\u0050rivileged": true')


def folded(text: str) -> str:
    """The body with a letter that the engine reads as an s."""
    return text.replace('"Binds": []', '"Bind\u017f": ["/:/host"]')


def twice(text: str) -> str:
    return text.replace('"Privileged": false', '"Privileged": false, "Privileged": true')


@pytest.mark.claim("engine.proxy")
def test_no_spelling_hides_a_key(proxy, client, create_request, subtests):
    for spelling in (escaped, folded, twice):
        with subtests.test(spelling=spelling):
            text = json.dumps(create_request, ensure_ascii=False)
            assert spelling(text) != text
            assert proxy.ask("POST", f"{API}/containers/create", spelling(text).encode())[0] == 403
            assert container_count(client) == 0


def test_body_too_long_to_examine_is_refused(proxy, client, create_request):
    create_request["Labels"]["padding"] = "x" * 150_000
    create_request["ZHostConfig"] = {"Privileged": True}
    assert proxy.ask("POST", f"{API}/containers/create", create_request)[0] == 403
    assert container_count(client) == 0


def test_a_body_without_a_length_is_refused(proxy, client, create_request):
    text = json.dumps(create_request).encode()
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(text), text)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(proxy.socket))
        head = f"POST {API}/containers/create HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
        connection.sendall(head.encode() + b"Content-Type: application/json\r\n\r\n" + chunked)
        assert b" 403 " in connection.recv(4096).split(b"\r\n")[0]
    assert container_count(client) == 0


@pytest.mark.claim("engine.proxy")
def test_only_containers_of_ours_are_listed(proxy, client, image, slot, owner):
    stranger = client.containers.create(image.id, ["true"], labels={"test-of-the-proxy": "1"})
    try:
        status, body = proxy.ask("GET", f"{API}/containers/json?all=1&filters={OWN}")
    finally:
        stranger.remove(force=True)
    assert status == 200
    listed = {row["Id"]: row["Labels"] for row in json.loads(body)}
    assert listed[slot.container.id][OWNER] == owner.id
    assert stranger.id not in listed


def test_nobody_else_may_use_the_socket(proxy):
    assert proxy.socket.stat().st_mode & 0o777 == 0o600
    assert 0 not in USER
