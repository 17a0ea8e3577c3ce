"""The values that limit a container: none of them can mean "no limit"."""

import math
from dataclasses import fields, replace

import pytest

from sandbox.isolation.policy import rlimits
from sandbox.template import Limits, SandboxTemplate

TEMPLATE = SandboxTemplate(image="sha256:abc", command=("true",), user=(1000, 1000), limits=Limits())


@pytest.mark.claim("resources.limits-hard")
def test_no_limit_can_be_switched_off(subtests):
    for value in (0, -1, 0.0, -0.5, math.inf, math.nan):
        for name in [field.name for field in fields(Limits)]:
            with subtests.test(value=value, name=name), pytest.raises(ValueError):
                Limits(**{name: value})


def test_an_allocation_fails_before_the_kernel_kills():
    limits = Limits(memory_bytes=1000 << 20)
    assert limits.memory_bytes * 3 // 4 < rlimits(limits)["data"] < limits.memory_bytes


def test_full_processor_use_until_deadline_is_allowed():
    for wall, cpus in [(300.0, 2.0), (10.0, 0.5), (0.1, 8.0)]:
        assert rlimits(Limits(wall_seconds=wall, cpus=cpus))["cpu"] > wall * cpus


@pytest.mark.claim("sandbox.not-root")
def test_a_container_never_runs_as_root():
    for user in [(0, 1000), (1000, 0), (0, 0), (-1, 1000), (1000, -1)]:
        with pytest.raises(ValueError):
            replace(TEMPLATE, user=user)


@pytest.mark.claim("sandbox.image-by-content")
def test_an_image_is_named_by_its_content_alone():
    for image in ["", "gdal", "ghcr.io/osgeo/gdal:latest", "ghcr.io/osgeo/gdal@sha256:abc"]:
        with pytest.raises(ValueError):
            replace(TEMPLATE, image=image)
