"""A node without a required property is refused, unless the operator has named this property; then it is reported,
never hidden.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from sandbox.attestation import attest
from sandbox.engines.k8s import pod as pod_module
from sandbox.errors import AttestationFailed, IsolationRefused
from sandbox.isolation.rows import Row
from sandbox.runner import Runner
from sandbox.template import SandboxTemplate
from sandbox.waiting import Cancellation
from tests.engines.bench import Bench
from tests.kubernetes.conftest import NODE_PIDS, Ground, ask

pytestmark = [pytest.mark.engine, pytest.mark.nightly, pytest.mark.claim("engine.kubernetes-nodes-without")]


def attested(bench: Bench, **changes: Any) -> tuple[Row, ...]:
    cancel = Cancellation()
    template: SandboxTemplate = replace(bench.template(""), **changes)
    try:
        return attest(Runner(bench.engine, bench.owner), template, bench.staging, cancel)
    finally:
        cancel.close()


def warned_rows(rows: tuple[Row, ...]) -> Mapping[str, str]:
    return {row.name: row.found for row in rows if row.verdict == "warning"}


def test_a_kernel_without_landlock(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """As found by the gate if the kernel does not have the system call."""
    assert warned_rows(attested(bench, nodes_without=("landlock", "pids-limit"))) == {}
    gate = pod_module.source("sandbox.engines.k8s", "gate.py")
    monkeypatch.setattr(pod_module, "source", lambda *_: gate.replace("    if abi < 1:", "    if True:"))
    for lacking in ((), ("pids-limit",)):
        with pytest.raises(AttestationFailed):
            attested(bench, nodes_without=lacking)
    reported = warned_rows(attested(bench, nodes_without=("landlock",)))
    assert {*reported} == {"scratch /tmp", "open files of the Pod"}
    assert "/dev/termination-log" in reported["open files of the Pod"]


def test_a_node_without_a_limit_of_processes(bench: Bench) -> None:
    """As reported by a call whose own limit is lower than that of the node."""
    fewer = replace(bench.limits, pids=NODE_PIDS // 4)
    for lacking in ((), ("landlock",)):
        with pytest.raises(AttestationFailed):
            attested(bench, limits=fewer, nodes_without=lacking)
    assert {*warned_rows(attested(bench, limits=fewer, nodes_without=("pids-limit",)))} == {"processes"}


def test_runtime_class_is_applied_and_its_kernel_reported(bench: Bench, ground: Ground) -> None:
    classes, name = "/apis/node.k8s.io/v1/runtimeclasses", ground.namespace
    with pytest.raises(IsolationRefused):
        attested(bench, runtime=name)
    ask(ground.admin, "POST", classes, {"metadata": {"name": name}, "handler": "runc"})
    try:
        kernel = next(row for row in attested(bench, runtime=name) if row.name == "kernel")
        assert name in kernel.found
        assert kernel.verdict == "note"
    finally:
        ask(ground.admin, "DELETE", f"{classes}/{name}")
