"""A limit that the low-level runtime cannot set for a user is refused; the same error as root is a fault of the
engine.
"""

import pytest

from sandbox.engines.docker import refuse_undelegated
from sandbox.errors import EngineUnavailable, IsolationRefused

RUNC = "error setting cgroup config for procHooks process: openat2 /sys/fs/cgroup/user.slice/cpu.max: no such file or directory"
CRUN = "the requested cgroup controller `cpu` is not available"


@pytest.mark.parametrize("error", [RUNC, CRUN])
def test_undelegated_limit_is_refused_with_what_to_delegate(error: str) -> None:
    with pytest.raises(IsolationRefused, match="Delegate=cpu memory pids"), refuse_undelegated(rootless=True):
        raise EngineUnavailable(error)


@pytest.mark.parametrize(("error", "rootless"), [(RUNC, False), ("no space left on device", True)])
def test_other_errors_of_a_start_stay_the_engines(error: str, *, rootless: bool) -> None:
    with pytest.raises(EngineUnavailable), refuse_undelegated(rootless=rootless):
        raise EngineUnavailable(error)
