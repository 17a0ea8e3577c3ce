"""The configuration for a runtime, and when no runtime can be used: the pure part of the engine without a daemon."""

from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from sandbox.engines.oci.config import SecurityLabels, config
from sandbox.engines.oci.confinement import selinux_labels
from sandbox.engines.oci.kernel import delegated_controllers, delegated_group, delegation_error
from sandbox.engines.oci.runtime import FLOORS, Runtime, usable
from sandbox.errors import EngineUnavailable, IsolationRefused
from sandbox.isolation.probe_rules import CONFINED
from sandbox.isolation.rows import Evidence, judged
from sandbox.template import Mount, SandboxTemplate, VolumePath
from tests.unit.sandbox.hardening_kit import STAGING, TEMPLATE, WORKSPACE

PLAIN = replace(TEMPLATE, runtime="")


def runtime_config(template: SandboxTemplate = PLAIN, labels: SecurityLabels | None = None) -> dict[str, Any]:
    return config(template, "/gdal-mcp/1", "x86_64", labels or SecurityLabels())


def options(destination: PurePosixPath | str) -> set[str]:
    return set(
        next(row["options"] for row in runtime_config()["mounts"] if row["destination"] == str(destination))
    )


def test_all_mounts_but_output_are_recursively_read_only() -> None:
    assert {"rro", "rnosuid", "rnodev", "rnoexec", "rprivate"} <= options(WORKSPACE)
    assert {"rw", "nosuid", "nodev", "noexec"} <= options(STAGING)
    assert "rbind" not in options(STAGING)
    assert {"ro", "noexec"} <= options(WORKSPACE / ".gdal-mcp")
    assert "ro" in options("/dev")
    shown = [row["destination"] for row in runtime_config()["mounts"]]
    assert not {"/dev/shm", "/dev/pts", "/dev/mqueue", "/sys"} & set(shown)
    places = [row["destination"] for row in runtime_config(replace(PLAIN, cgroup_visible=True))["mounts"]]
    assert set(places) - set(shown) == {"/sys", "/sys/fs/cgroup"}


def test_a_volume_of_another_engine_is_refused() -> None:
    volume = Mount(VolumePath("/data", "disk", PurePosixPath("a")), WORKSPACE)
    with pytest.raises(IsolationRefused):
        runtime_config(replace(PLAIN, mounts=(volume,)))


def test_security_modules_are_told_what_confines_it() -> None:
    assert not {"apparmorProfile", "selinuxLabel"} & set(runtime_config()["process"])
    assert runtime_config(labels=SecurityLabels(apparmor="ours"))["process"]["apparmorProfile"] == "ours"
    for pair in ((3, 3), (3, 2), (0, 1022), (1023, 1022)):
        labels = selinux_labels(*pair)
        configuration = runtime_config(labels=labels)
        assert configuration["process"]["selinuxLabel"] == labels.selinux
        assert configuration["linux"]["mountLabel"] == labels.selinux_files
        first, second = (int(category[1:]) for category in labels.selinux.rpartition(":")[2].split(","))
        assert 0 <= first < second <= 1023


def test_active_security_module_must_confine_the_container() -> None:
    for options, label, verdict in (
        (("name=apparmor",), "gdal-mcp-sandbox (enforce)", "held"),
        (("name=apparmor",), "unconfined", "failed"), (("name=apparmor",), "", "failed"),
        (("name=selinux",), "system_u:system_r:unconfined_t:s0", "failed"),
        (("name=selinux",), "system_u:system_r:container_t:s0:c1,c2", "held"),
        (("name=seccomp",), "", "n/a"),
    ):  # fmt: skip
        evidence = Evidence(PLAIN, look={"files": {"security label": label}}, security_options=options)
        assert [row.verdict for row in judged((CONFINED,), evidence)] == [verdict], (options, label)


@pytest.mark.claim("engine.weak-refused")
def test_a_runtime_below_its_floor_is_not_used() -> None:
    old, new = Runtime("crun", "/x", "1.7.9"), Runtime("runc", "/y", "1.1.5")
    assert usable((old, new)) == (new,)
    for none in ((), (old,), (Runtime("runc", "/y", "0"),)):
        with pytest.raises(EngineUnavailable):
            usable(none)
    assert list(FLOORS) == ["crun", "runc"]


@pytest.mark.claim("engine.oci-bounded-or-refused")
def test_what_is_missing_without_root_is_named() -> None:
    assert "memory, pids" in delegation_error(frozenset({"cpu"}))
    assert "Delegate" in delegation_error(frozenset())
    assert not delegation_error(frozenset({"cpu", "memory", "pids"}))


def test_delegated_controllers_come_from_own_version_2_group(tmp_path: Path) -> None:
    (tmp_path / "user.slice").mkdir()
    for groups, controllers, expected in (
        ("0::/user.slice\n", "cpu memory pids\n", {"cpu", "memory", "pids"}),
        ("0::/user.slice\n", "memory pids\n", {"memory", "pids"}),
        ("0::/elsewhere\n", "cpu memory pids\n", set()),
        ("4:memory:/user.slice\n1:cpu:/user.slice\n", "cpu memory pids\n", set()),  # version 1 only
        ("4:memory:/user.slice\n0::/user.slice\n", None, set()),  # hybrid: no controller is of version 2
    ):
        (tmp_path / "groups").write_text(groups)
        (tmp_path / "user.slice/cgroup.controllers").unlink(missing_ok=True)
        if controllers is not None:
            (tmp_path / "user.slice/cgroup.controllers").write_text(controllers)
        own = delegated_group(tmp_path, tmp_path / "groups")
        assert delegated_controllers(own) == expected, (groups, controllers)


@pytest.mark.claim("engine.oci-rootless")
def test_rootless_config_only_changes_devices_and_user_namespace() -> None:
    ours, theirs = (config(PLAIN, "/gdal-mcp/x", "x86_64", rootless=rootless) for rootless in (False, True))
    linux = theirs["linux"]
    assert linux["namespaces"].pop() == {"type": "user"}
    for kind, number in zip(("uidMappings", "gidMappings"), PLAIN.user, strict=True):
        assert linux.pop(kind) == [{"containerID": number, "hostID": 0, "size": 1}]
    assert ours["linux"]["resources"].pop("devices")
    assert ours["process"].pop("oomScoreAdj") == 0
    assert theirs == ours
