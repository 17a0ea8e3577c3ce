"""The create body, where no test of a container covers it: values, and parts that depend on the engine."""

from dataclasses import replace

import pytest
from hardening_kit import DOCKER_20, DOCKER_28, body, host

from sandbox.errors import IsolationRefused


@pytest.mark.claim("files.mounts-only")
def test_old_engine_hides_mounts_below_a_bind():
    for row in host()["Mounts"]:
        assert row["Type"] == "bind"
        assert row["BindOptions"] == {"Propagation": "rprivate", "NonRecursive": True}


@pytest.mark.claim("files.mounts-only")
def test_capable_engine_makes_binds_recursively_read_only():
    workspace, staging = host(DOCKER_28)["Mounts"]
    assert workspace["ReadOnly"]
    assert workspace["BindOptions"] == {"Propagation": "rprivate", "ReadOnlyForceRecursive": True}
    assert not staging["ReadOnly"]
    assert staging["BindOptions"] == {"Propagation": "rprivate", "NonRecursive": True}


def test_template_overrides_name_servers_devices_and_binds():
    """Name servers in resolv.conf, and settings that an engine adds only if it is configured to, or if the host has
    them.
    """
    empty = ("Devices", "DeviceRequests", "DeviceCgroupRules", "Binds", "VolumesFrom")
    expected = {
        "Dns": ["127.0.0.1"], "AutoRemove": False, "OomKillDisable": False, **{name: [] for name in empty},
    }  # fmt: skip
    assert expected.items() <= host().items()


def test_cgroup_namespace_is_private_where_supported():
    assert "CgroupnsMode" not in host(DOCKER_20)
    assert host(DOCKER_28)["CgroupnsMode"] == "private"


def test_only_the_attestation_sees_its_control_group():
    masked = host(cgroup_visible=True)["MaskedPaths"]
    assert "/sys" not in masked
    assert {"/sys/firmware", "/proc/kcore"} <= set(masked)


@pytest.mark.claim("sandbox.environment")
def test_the_environment_is_ours_alone():
    image = ["PATH=/evil", "LD_PRELOAD=/usr/lib/libmimalloc.so.2", "GDAL_DATA=/x=y"]
    assert sorted(body(image_environment=image)["Env"]) == [
        "GDAL_DATA", "HOME=/nonexistent", "HOSTNAME", "LD_PRELOAD", "PATH=/usr/bin",
    ]  # fmt: skip


@pytest.mark.claim("engine.weak-refused")
def test_an_engine_that_cannot_isolate_is_refused():
    for lack in (
        {"api_version": (1, 40)},
        {"security_options": ()},
        {"security_options": ("name=apparmor",)},
        {"architecture": "s390x"},
    ):
        with pytest.raises(IsolationRefused):
            body(replace(DOCKER_20, **lack))
