"""What the real engine answers to inspect: as asked, weaker than asked, and what an image would slip in."""

import copy

import pytest
from hardening_box import ENVIRONMENT, open_box

from sandbox.engines.docker_spec import differences

pytestmark = pytest.mark.engine

DECLARED = """
ENV LD_PRELOAD=/usr/lib/libmimalloc.so.2
ENV GDAL_DRIVER_PATH=/evil
ENTRYPOINT ["/bin/echo", "entry"]
CMD ["command"]
USER root
WORKDIR /etc
EXPOSE 80
LABEL purpose=image other=image
HEALTHCHECK --interval=7s CMD true
"""


@pytest.fixture(scope="module")
def box(image_id, tmp_path_factory):
    with open_box(image_id, tmp_path_factory.mktemp("box")) as opened:
        yield opened


@pytest.fixture
def derived(box, image_id):
    """Makes an image that declares things; removes it afterwards."""
    made = []

    def make(declared):
        base = box.api.create_container(image_id, "true")["Id"]
        try:
            made.append(box.api.commit(base, changes=declared.strip().splitlines())["Id"])
        finally:
            box.api.remove_container(base)
        return made[-1], box.api.inspect_image(made[-1])["Config"]["Env"]

    yield make
    for image in made:
        box.api.remove_image(image, force=True)


@pytest.mark.claim("sandbox.image-declares-nothing")
def test_what_an_image_declares_has_no_effect(box, derived):
    image, environment = derived(DECLARED)
    body = box.body("/usr/bin/env", image=image, image_environment=environment)
    assert differences(body, box.inspected(body)) == ()
    assert sorted(box.run(body).text.split()) == sorted(
        f"{name}={value}" for name, value in ENVIRONMENT.items()
    )


@pytest.mark.claim("sandbox.image-declares-nothing")
def test_an_image_whose_environment_was_not_told_is_noticed(box, derived):
    image, _ = derived("ENV LD_PRELOAD=/usr/lib/libmimalloc.so.2")
    body = box.body("true", image=image)
    assert [one.field for one in differences(body, box.inspected(body))] == ["Config.Env"]


@pytest.mark.claim("sandbox.image-declares-nothing")
def test_an_image_that_brings_a_volume_is_noticed(box, derived):
    image, environment = derived("VOLUME /data")
    body = box.body("true", image=image, image_environment=environment)
    assert {one.field for one in differences(body, box.inspected(body))} == {"Config.Volumes", "Mounts"}


def test_this_engine_keeps_its_word(box, subtests):
    for visible in (False, True):
        with subtests.test(visible=visible):
            body = box.body("true", cgroup_visible=visible)
            assert differences(body, box.inspected(body)) == ()


@pytest.mark.claim("sandbox.read-back")
def test_a_weaker_container_is_noticed(box, subtests):
    for field, weaker in (
        ("Privileged", True),
        ("CapAdd", ["SYS_ADMIN"]),
        ("CapDrop", []),
        ("SecurityOpt", ["no-new-privileges:true"]),
        ("ReadonlyRootfs", False),
        ("NetworkMode", "host"),
        ("PidMode", "host"),
        ("IpcMode", "private"),
        ("Memory", 0),
        ("PidsLimit", 0),
        ("NanoCpus", 0),
        ("Ulimits", []),
        ("Tmpfs", {}),
        ("MaskedPaths", []),
        ("ReadonlyPaths", []),
        ("Binds", ["/etc:/host:ro"]),
        ("Devices", [{"PathOnHost": "/dev/null", "PathInContainer": "/dev/x", "CgroupPermissions": "rwm"}]),
        ("GroupAdd", ["0"]),
        ("LogConfig", {"Type": "json-file", "Config": {}}),
        ("RestartPolicy", {"Name": "always", "MaximumRetryCount": 0}),
    ):
        with subtests.test(field=field, weaker=weaker):
            asked = box.body("true")
            made = copy.deepcopy(asked)
            made["HostConfig"][field] = weaker
            if field == "Memory":
                made["HostConfig"]["MemorySwap"] = 0
            if field == "NetworkMode":  # the engine refuses a host's name with the host's network
                made.update(Hostname="", NetworkDisabled=False)
            found = {one.field for one in differences(asked, box.inspected(made))}
            assert f"HostConfig.{field}" in found
