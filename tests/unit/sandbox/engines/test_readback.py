"""The read-back, against an engine that deviates in one field."""

import pytest

from sandbox.engines.docker_spec import differences
from tests.unit.sandbox.hardening_kit import DOCKER_20, DOCKER_28, body, host, truthful


def test_order_image_labels_and_default_runtime_are_ignored():
    asked = body(runtime="")
    made = truthful(asked)
    for name in ("MaskedPaths", "ReadonlyPaths", "SecurityOpt", "Ulimits", "Mounts"):
        made["HostConfig"][name].reverse()
    made["Config"]["Labels"]["org.opencontainers.image.title"] = "GDAL"
    made["Config"]["Healthcheck"]["Interval"] = 7_000_000_000
    made["HostConfig"]["Runtime"] = "runc"
    made["Mounts"].reverse()
    assert differences(asked, made) == ()


def test_podman_list_of_dropped_capabilities_equals_all():
    asked = body()
    made = truthful(asked)
    default = (
        "CHOWN DAC_OVERRIDE FOWNER FSETID KILL NET_BIND_SERVICE SETFCAP SETGID SETPCAP SETUID SYS_CHROOT"
    )
    made["HostConfig"]["CapDrop"] = ["CAP_" + name for name in default.split()]
    assert differences(asked, made) == ()
    made["HostConfig"]["CapDrop"].remove("CAP_SETUID")
    assert [one.name for one in differences(asked, made)] == ["HostConfig.CapDrop"]


def _lies(value):
    """Every minimal change of a JSON value: a leaf altered, an element or key added or removed."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield value + 1
        yield -1
    elif isinstance(value, str):
        yield value + "x"
        yield from [None] if value else []
    elif value is None:
        yield "x"
        yield ["x"]
    elif isinstance(value, list):
        yield from (
            [*value, extra] for extra in ({}, *([] if value and isinstance(value[0], dict) else ["x", ""]))
        )
        for index, inner in enumerate(value):
            yield value[:index] + value[index + 1 :]
            yield from ([*value[:index], lie, *value[index + 1 :]] for lie in _lies(inner))
    else:
        yield {**value, "x": "x"}
        for key, inner in value.items():
            yield from [{one: value[one] for one in value if one != key}] if inner else []
            yield from ({**value, key: lie} for lie in _lies(inner))


# (section, field) -> parts of it that decide nothing; separate tests above check them
FREE = {("Config", "Labels"): "an image adds its own", ("Config", "Healthcheck"): "an image's intervals stay"}


def _broken_words():
    for facts in (DOCKER_20, DOCKER_28):
        asked = body(facts)
        for section in ("Config", "HostConfig"):
            fields = asked if section == "Config" else asked["HostConfig"]
            for name in set(fields) - {"HostConfig"}:
                made = truthful(asked)[section][name]
                for lie in _lies(made):
                    if (section, name) not in FREE or "x" not in (lie or {}):
                        yield asked, section, name, lie


@pytest.mark.claim("sandbox.read-back")
def test_any_single_change_of_any_field_is_noticed():
    count = 0
    for asked, section, name, lie in _broken_words():
        made = truthful(asked)
        made[section][name] = lie
        assert f"{section}.{name}" in [one.name for one in differences(asked, made)], (name, lie)
        count += 1
    assert count > 500


@pytest.mark.claim("sandbox.read-back")
@pytest.mark.parametrize("name", ["Image", "Path", "Args", "Mounts"])
def test_any_change_in_derived_fields_is_noticed(name):
    asked = body()
    for lie in _lies(truthful(asked)[name]):
        made = {**truthful(asked), name: lie}
        if name == "Mounts" and _only_undecisive(lie, truthful(asked)[name]):
            continue
        assert differences(asked, made), lie


def _only_undecisive(lie, truth):
    """The `Mode` of a bind only repeats `RW` and `Propagation`; an unknown key of a row is not a mount."""
    known = ("Type", "Source", "Destination", "RW", "Propagation")
    rows = [[row.get(key) for key in known] for row in lie]
    return rows == [[row[key] for key in known] for row in truth]


def test_empty_key_is_noticed_where_it_matters():
    for section, name, got in (
        ("Config", "Volumes", {"/data": {}}),
        ("HostConfig", "PortBindings", {"80/tcp": None}),
        ("HostConfig", "Sysctls", {"net.ipv4.ip_forward": ""}),
        ("HostConfig", "Tmpfs", {**host()["Tmpfs"], "/etc": ""}),
    ):
        asked = body()
        made = truthful(asked)
        made[section][name] = got
        assert [one.name for one in differences(asked, made)] == [f"{section}.{name}"]


@pytest.mark.claim("network.no-interface")
def test_network_and_missing_apparmor_are_noticed():
    for name, got in (
        ("NetworkSettings", {"Networks": {"bridge": {}}, "Ports": {}}),
        ("NetworkSettings", {"Networks": {}, "Ports": {"80/tcp": None}}),
        ("AppArmorProfile", "unconfined"),
    ):
        asked = body()
        assert [one.name for one in differences(asked, {**truthful(asked), name: got})] == [name]


def test_tmpfs_is_listed_as_mount_only_on_request():
    asked = body()
    made = truthful(asked)
    for place, noticed in (("/tmp", []), ("/etc", ["Mounts"])):
        made["Mounts"].append(
            {"Type": "tmpfs", "Source": "", "Destination": place, "RW": True, "Propagation": ""}
        )
        assert [one.name for one in differences(asked, made)] == noticed


def test_empty_answer_differs_in_every_required_field():
    fields = {"Config.User", "Image", *(f"HostConfig.{one}" for one in ("CapDrop", "SecurityOpt", "Memory"))}
    for answer in ({}, {"Config": None, "HostConfig": None}):
        assert fields <= {one.name for one in differences(body(), answer)}


@pytest.mark.claim("sandbox.read-back")
def test_new_field_is_read_back_too():
    asked = body()
    asked["HostConfig"]["Novelty"] = asked["Novelty"] = "on"
    made = truthful(asked)
    made["HostConfig"]["Novelty"] = made["Config"]["Novelty"] = "off"
    assert [one.name for one in differences(asked, made)] == ["Config.Novelty", "HostConfig.Novelty"]


def test_unlimited_swap_is_accepted_only_from_incapable_engine():
    """A kernel without swap accounting: Docker warns, and records -1. The actual limit is measured from inside."""
    asked = body()
    made = truthful(asked)
    made["HostConfig"]["MemorySwap"] = -1
    assert differences(asked, made, limits_swap=False) == ()
    assert [one.name for one in differences(asked, made)] == ["HostConfig.MemorySwap"]
    made["HostConfig"]["MemorySwap"] = asked["HostConfig"]["Memory"] * 2
    assert differences(asked, made, limits_swap=False)
