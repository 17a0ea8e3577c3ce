"""A plan's digest changes with everything that an approval covers, and with nothing else."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdal_mcp.plan import Command, Effect, FileChanges
from sandbox.outputs.store import Transfer
from sandbox.template import Limits
from sandbox.workspace import Identity
from tests.unit.values import draft, located, output, plan

ONE = plan()
MOVED = Transfer(located("a.tif"), located("b.tif", None))
CHANGED_INPUTS = (Identity(1, 2, 10, 1_000), Identity(1, 1, 11, 1_000), Identity(1, 1, 10, 1_001))
CHANGES = {
    **{
        f"an input that is {identity}": plan(
            replace(draft(output()), inputs=(replace(located("in.tif"), identity=identity),))
        )
        for identity in CHANGED_INPUTS
    },
    "tool": plan(tool="gdalwarp"),
    "principal": plan(principal="local:bob"),
    "option": plan(draft(output(), options=("-of", "PNG"))),
    "word boundary": plan(draft(output(), options=("-of GTiff",))),
    "input": plan(draft(output(), inputs=("other.tif",))),
    "second input": plan(draft(output(), inputs=("in.tif", "in2.tif"))),
    "output": plan(draft(output("else.tif"))),
    "something in its place": plan(draft(output(replaces=("out.tif",)))),
    "a companion in its place": plan(draft(output(replaces=("out.tif", "out.tif.ovr")))),
    "something shared": plan(draft(output(shared=("out.prj",)))),
    "update": plan(draft(output(replaces=("out.tif",), update=True))),
    "kind": plan(draft(output(kind="array"))),
    "second output": plan(replace(draft(output()), outputs=(output(), output("b.tif")))),
    "removal": plan(replace(draft(output()), files=FileChanges(removes=(located("old.tif"),)))),
    "transfer": plan(replace(draft(output()), files=FileChanges(transfers=(MOVED,)))),
    "what our own program is told": plan(
        replace(draft(output()), command=replace(draft(output()).command, extra={"limit": 1}))
    ),
    "memory": plan(limits=Limits(memory_bytes=1)),
    "deadline": plan(limits=Limits(wall_seconds=1)),
    "image": plan(image_id="sha256:01"),
    "runtime": plan(runtime="runsc"),
    "mounts": plan(mounts=("/data/ws:ro", "/data/other:ro")),
}


@pytest.mark.claim("approval.bound-to-plan")
def test_each_thing_that_matters_makes_another_digest():
    digests = {name: changed.digest for name, changed in CHANGES.items()}
    assert ONE.digest not in digests.values()
    assert len(set(digests.values())) == len(digests)


def test_digest_ignores_call_id_and_argument_spelling():
    assert plan(call_id="fedcba9876543210").digest == ONE.digest
    assert plan(arguments={"src_dataset": "./in.tif"}).digest == ONE.digest


def test_digest_ignores_names_the_server_made():
    first, second = (plan(draft(output(name, server_named=True))) for name in ("in_a1.tif", "in_b2.tif"))
    assert first.digest == second.digest
    assert first.digest != plan(draft(output("in_a1.tif"))).digest


@pytest.mark.claim("approval.bound-to-plan")
@given(st.lists(st.text(), min_size=1, max_size=4), st.lists(st.text(), min_size=1, max_size=4))
def test_two_different_command_lines_never_share_a_digest(first: list[str], second: list[str]):
    digests = [plan(draft(output(), options=tuple(words))).digest for words in (first, second)]
    assert (digests[0] == digests[1]) == (first == second)


def test_the_effect_is_what_happens_to_the_workspace():
    assert plan(draft(None)).effect is Effect.READ
    assert plan(draft(output())).effect is Effect.CREATE
    assert plan(draft(output(replaces=("out.tif",)))).effect is Effect.REPLACE
    assert plan(draft(output(shared=("out.prj",)))).effect is Effect.REPLACE
    assert (
        plan(replace(draft(None), files=FileChanges(removes=(located("old.tif"),)))).effect is Effect.DESTROY
    )
    assert plan(replace(draft(None), files=FileChanges(transfers=(MOVED,)))).effect is Effect.DESTROY


def test_operands_stand_where_the_classic_programs_want_them():
    parts = ("p", ("-o",), ("/a", "/b"), "/out")
    assert Command(*parts).argv == ("p", "-o", "/a", "/b", "/out")
    assert Command(*parts, output_first=True).argv == ("p", "-o", "/out", "/a", "/b")
    assert Command("p", (), ("/a",)).argv == ("p", "/a")
