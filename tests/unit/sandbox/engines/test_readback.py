"""The read-back, against an engine that deviates in one field."""

import pytest

from sandbox.engines.docker_spec import differences
from tests.unit.sandbox.hardening_kit import DOCKER_20, DOCKER_28, body, host, truthful


def test_order_image_labels_and_default_runtime_are_ignored():
    requested = body(runtime="")
    reported = truthful(requested)
    for name in ("MaskedPaths", "ReadonlyPaths", "SecurityOpt", "Ulimits", "Mounts"):
        reported["HostConfig"][name].reverse()
    reported["Config"]["Labels"]["org.opencontainers.image.title"] = "GDAL"
    reported["Config"]["Healthcheck"]["Interval"] = 7_000_000_000
    reported["HostConfig"]["Runtime"] = "runc"
    reported["Mounts"].reverse()
    assert differences(requested, reported) == ()


def test_podman_list_of_dropped_capabilities_equals_all():
    requested = body()
    reported = truthful(requested)
    default = (
        "CHOWN DAC_OVERRIDE FOWNER FSETID KILL NET_BIND_SERVICE SETFCAP SETGID SETPCAP SETUID SYS_CHROOT"
    )
    reported["HostConfig"]["CapDrop"] = ["CAP_" + name for name in default.split()]
    assert differences(requested, reported) == ()
    reported["HostConfig"]["CapDrop"].remove("CAP_SETUID")
    assert [difference.name for difference in differences(requested, reported)] == ["HostConfig.CapDrop"]


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
            yield from [{name: value[name] for name in value if name != key}] if inner else []
            yield from ({**value, key: lie} for lie in _lies(inner))


# (section, field) -> parts of it that decide nothing; separate tests above check them
FREE = {("Config", "Labels"): "an image adds its own", ("Config", "Healthcheck"): "an image's intervals stay"}


def _broken_words():
    for facts in (DOCKER_20, DOCKER_28):
        requested = body(facts)
        for section in ("Config", "HostConfig"):
            fields = requested if section == "Config" else requested["HostConfig"]
            for name in set(fields) - {"HostConfig"}:
                original = truthful(requested)[section][name]
                for lie in _lies(original):
                    if (section, name) not in FREE or "x" not in (lie or {}):
                        yield requested, section, name, lie


@pytest.mark.claim("sandbox.read-back")
def test_any_single_change_of_any_field_is_noticed():
    count = 0
    for requested, section, name, lie in _broken_words():
        reported = truthful(requested)
        reported[section][name] = lie
        assert f"{section}.{name}" in [difference.name for difference in differences(requested, reported)], (
            name,
            lie,
        )
        count += 1
    assert count > 500


@pytest.mark.claim("sandbox.read-back")
@pytest.mark.parametrize("name", ["Image", "Path", "Args", "Mounts"])
def test_any_change_in_derived_fields_is_noticed(name):
    requested = body()
    for lie in _lies(truthful(requested)[name]):
        reported = {**truthful(requested), name: lie}
        if name == "Mounts" and _only_undecisive(lie, truthful(requested)[name]):
            continue
        assert differences(requested, reported), lie


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
        requested = body()
        reported = truthful(requested)
        reported[section][name] = got
        assert [difference.name for difference in differences(requested, reported)] == [f"{section}.{name}"]


@pytest.mark.claim("network.no-interface")
def test_network_and_missing_apparmor_are_noticed():
    for name, got in (
        ("NetworkSettings", {"Networks": {"bridge": {}}, "Ports": {}}),
        ("NetworkSettings", {"Networks": {}, "Ports": {"80/tcp": None}}),
        ("AppArmorProfile", "unconfined"),
    ):
        requested = body()
        assert [
            difference.name for difference in differences(requested, {**truthful(requested), name: got})
        ] == [name]


def test_tmpfs_is_listed_as_mount_only_on_request():
    requested = body()
    reported = truthful(requested)
    for place, noticed in (("/tmp", []), ("/etc", ["Mounts"])):
        reported["Mounts"].append(
            {"Type": "tmpfs", "Source": "", "Destination": place, "RW": True, "Propagation": ""}
        )
        assert [difference.name for difference in differences(requested, reported)] == noticed


def test_empty_answer_differs_in_every_required_field():
    fields = {
        "Config.User",
        "Image",
        *(f"HostConfig.{name}" for name in ("CapDrop", "SecurityOpt", "Memory")),
    }
    for answer in ({}, {"Config": None, "HostConfig": None}):
        assert fields <= {difference.name for difference in differences(body(), answer)}


@pytest.mark.claim("sandbox.read-back")
def test_new_field_is_read_back_too():
    requested = body()
    requested["HostConfig"]["Novelty"] = requested["Novelty"] = "on"
    reported = truthful(requested)
    reported["HostConfig"]["Novelty"] = reported["Config"]["Novelty"] = "off"
    assert [difference.name for difference in differences(requested, reported)] == [
        "Config.Novelty",
        "HostConfig.Novelty",
    ]


def test_unlimited_swap_is_accepted_only_from_incapable_engine():
    """A kernel without swap accounting: Docker warns, and records -1. The actual limit is measured from inside."""
    requested = body()
    reported = truthful(requested)
    reported["HostConfig"]["MemorySwap"] = -1
    assert differences(requested, reported, limits_swap=False) == ()
    assert [difference.name for difference in differences(requested, reported)] == ["HostConfig.MemorySwap"]
    reported["HostConfig"]["MemorySwap"] = requested["HostConfig"]["Memory"] * 2
    assert differences(requested, reported, limits_swap=False)
