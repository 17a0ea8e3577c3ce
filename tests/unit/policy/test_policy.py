"""Decisions of the policy: pure functions, rule by rule."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gdal_mcp.plan import Effect, FileChanges, Plan, Review
from gdal_mcp.policy import policy as module
from gdal_mcp.policy.policy import (
    Allow,
    Deny,
    PolicyEntry,
    PolicyRequest,
    PolicyRule,
    RequireApproval,
    case,
    decide,
)
from gdal_mcp.toolboxes.gdal.catalogue.load import packaged
from gdal_mcp.tools.toolbox import aliases_of
from sandbox.outputs.store import Transfer
from tests.unit.values import draft, located, output, plan

Policy = partial(module.Policy, aliases=aliases_of(packaged()))
READ, CREATE, REPLACE = (plan(draft(change)) for change in (None, output(), output(replaces=("out.tif",))))
REMOVE = plan(replace(draft(None), files=FileChanges(removes=(located("old.tif"),))))
MOVE = plan(
    replace(draft(None), files=FileChanges(transfers=(Transfer(located("a.tif"), located("b.tif", None)),)))
)
ASKED = plan(
    replace(
        draft(None),
        files=FileChanges(removes=(located("old.tif"),)),
        review=Review(always_needs_approval=True),
    )
)
HERE, THERE = Path("/data/here"), Path("/data/there")


def judged(checked: Plan, policy: module.Policy) -> Any:
    return decide(case(checked.draft, checked.tool, checked.principal), policy)


def policy_request(**more: Any) -> PolicyRequest:
    values: dict[str, Any] = {"tool": "convert", "principal": "token:ann", "effect": Effect.CREATE}
    return PolicyRequest(**{**values, "algorithm": "raster convert", "workspaces": frozenset({HERE}), **more})


def test_what_needs_a_person_without_a_rule():
    for checked, mode, allowed in (
        (READ, "writes", True), (CREATE, "writes", False), (REPLACE, "writes", False), (REMOVE, "writes", False),
        (MOVE, "writes", False), (READ, "always", False), (CREATE, "always", False), (READ, "never", True),
        (REPLACE, "never", True), (ASKED, "never", False), (ASKED, "writes", False),
    ):  # fmt: skip
        verdict = judged(checked, Policy(mode))
        assert isinstance(verdict, Allow if allowed else RequireApproval), (checked.effect, mode)
        assert verdict.reason


def test_the_first_rule_that_fits_decides():
    allow, deny = PolicyRule(decision="allow"), PolicyRule(decision="deny")
    assert isinstance(decide(policy_request(), Policy(rules=(allow, deny))), Allow)
    assert isinstance(decide(policy_request(), Policy(rules=(deny, allow))), Deny)


def test_rule_matches_tool_effect_workspace_and_principal(subtests: pytest.Subtests):
    for decision in ("allow", "deny", "require"):
        for limits, fits in (
            ({}, True), ({"tools": ("conv*",)}, True), ({"tools": ("* convert",)}, True),
            ({"tools": ("info",)}, False), ({"effects": frozenset({Effect.REPLACE})}, False),
            ({"effects": frozenset({Effect.CREATE})}, True), ({"principals": ("token:ann",)}, True),
            ({"principals": ("token:*",)}, True), ({"principals": ("token:an",)}, False),
            ({"principals": ("TOKEN:ANN",)}, False), ({"workspaces": (HERE,)}, True),
            ({"workspaces": (THERE,)}, False),
        ):  # fmt: skip
            with subtests.test(decision=decision, limits=limits, fits=fits):
                rule = PolicyRule(decision=decision, **limits)
                verdict = decide(
                    policy_request(), Policy("never" if decision != "allow" else "writes", (rule,))
                )
                verdict_type = {"allow": Allow, "deny": Deny, "require": RequireApproval}[decision]
                otherwise = Allow if decision != "allow" else RequireApproval
                assert isinstance(verdict, verdict_type if fits else otherwise)


@pytest.mark.claim("args.rules-hold-for-what-runs")
def test_rule_covers_everything_that_may_run_its_name(subtests: pytest.Subtests):
    for tool, algorithm, steps, named in (
        ("convert", "raster convert", (), "vector convert"),
        ("info", "raster info", (), "mdim info"),
        ("gdal_write", "convert", (), "raster_convert"),
        ("pipeline", "pipeline", (), "vector pipeline"),
        ("pipeline", "pipeline", ("raster reproject",), "raster reproject"),
        ("gdal_translate", "raster convert", (), "raster clip"),
        ("gdal_merge", "raster mosaic", (), "raster stack"),
        ("gdalwarp", "raster reproject", (), "raster reproject"),
    ):
        with subtests.test(tool=tool, named=named):
            request = policy_request(tool=tool, algorithm=algorithm, steps=steps)
            deny, require = (
                PolicyRule(decision=decision, tools=(named,)) for decision in ("deny", "require")
            )
            assert isinstance(decide(request, Policy("never", (deny,))), Deny)
            assert isinstance(decide(request, Policy("never", (require,))), RequireApproval)
            allow = PolicyRule(decision="allow", tools=(named,))  # a part of what may run is not all of it
            assert isinstance(decide(request, Policy(rules=(allow,))), RequireApproval)
            everything = PolicyRule(decision="allow", tools=("raster*", "vector*", "mdim*"))
            assert isinstance(decide(request, Policy(rules=(everything,))), Allow)


def test_allow_needs_every_workspace_and_deny_only_one():
    both = policy_request(workspaces=frozenset({HERE, THERE}))
    allow, deny = (
        PolicyRule(decision="allow", workspaces=(HERE,)),
        PolicyRule(decision="deny", workspaces=(HERE,)),
    )
    assert isinstance(decide(both, Policy(rules=(allow,))), RequireApproval)
    assert isinstance(decide(both, Policy("never", (deny,))), Deny)
    nowhere = policy_request(workspaces=frozenset())
    assert isinstance(decide(nowhere, Policy(rules=(allow,))), RequireApproval)


@pytest.mark.claim("approval.losses-always-asked")
def test_deleting_calls_ask_whatever_the_rules_say():
    taking = policy_request(effect=Effect.DESTROY, always_needs_approval=True)
    for mode in ("writes", "always", "never"):
        for rules in ((), (PolicyRule(decision="allow"),)):
            verdict = decide(taking, Policy(mode, rules))
            assert isinstance(verdict, RequireApproval)
            assert not verdict.grantable
        assert isinstance(decide(taking, Policy(mode, (PolicyRule(decision="deny"),))), Deny)


@pytest.mark.claim("approval.losses-always-asked")
@pytest.mark.parametrize("effect", list(Effect))
def test_grant_never_approves_destructive_calls(effect: Effect):
    for policy in (Policy("always"), Policy("always", (PolicyRule(decision="require"),))):
        verdict = decide(policy_request(effect=effect), policy)
        assert isinstance(verdict, RequireApproval)
        assert verdict.grantable is (effect is not Effect.DESTROY)


def test_channels_of_a_rule_decide_where_approval_counts():
    rule = PolicyRule(decision="require", ways=frozenset({"console"}))
    for request in (policy_request(), policy_request(always_needs_approval=True)):
        verdict = decide(request, Policy(rules=(rule,)))
        assert isinstance(verdict, RequireApproval)
        assert verdict.ways == {"console"}


def test_first_matching_name_selects_the_entry():
    ann, all_of_them = PolicyEntry(principals=("token:ann",)), PolicyEntry(principals=("token:*", "local:*"))
    policy = Policy(entries=(ann, all_of_them))
    assert policy.entry("token:ann") is ann
    assert policy.entry("local:bob") is all_of_them
    assert policy.entry("oauth:https://issuer.example#ann") is None


@pytest.mark.claim("approval.policy-whole")
def test_deny_rule_matches_every_spelling_and_pipelines(subtests: pytest.Subtests):
    steps = ("raster read", "raster reproject", "raster write")
    for call in (
        {"tool": "gdal_write", "algorithm": "raster reproject"},
        {"tool": "raster_reproject"},
        {"tool": "pipeline", "algorithm": "pipeline", "steps": steps},
    ):
        for pattern in ("raster reproject", "raster_reproject", "raster-reproject", "raster_*", "raster *"):
            with subtests.test(call=call, pattern=pattern):
                policy = Policy(rules=(PolicyRule(decision="deny", tools=(pattern,)),), mode="never")
                assert isinstance(decide(policy_request(**call), policy), Deny)
