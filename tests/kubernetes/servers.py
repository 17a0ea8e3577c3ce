"""Servers whose calls are Pods, and the calls that the tests here make."""

import contextlib
import itertools
import signal
from collections.abc import Iterator
from dataclasses import dataclass

from sandbox.labels import CALL
from tests.e2e.mcp.pipes import Pipes, piped
from tests.e2e.mcp.talk import Place
from tests.kubernetes.conftest import Ground
from tests.security.faults.scenes import Scene, outcome_of
from tests.waiting import until

INFO = Scene("info", "info", {"path": "in.tif"})
WRITE = Scene("write", "convert", {"input": "in.tif", "output": "out.tif"})
DEFLATED = Scene(
    "write",
    "convert",
    {"input": "huge.vrt", "output": "out.tif", "creation_options": {"COMPRESS": "DEFLATE"}},
)
_NUMBERS = itertools.count(1)


@contextlib.contextmanager
def serving(ground: Ground, place: Place, **more: str) -> Iterator[Pipes]:
    """A server; the test may kill it."""
    log = place.state.with_suffix(f".{next(_NUMBERS)}.log")
    env = ground.environment(**{"GDAL_MCP_POOL_MAX": "0", **more})
    with (
        contextlib.suppress(BrokenPipeError),
        piped(place.command("--approval", "never"), log, env=env) as pipes,
    ):
        pipes.hello()
        yield pipes


def killed(pipes: Pipes) -> None:
    pipes.process.send_signal(signal.SIGKILL)
    pipes.process.wait()


def huge(place: Place, side: int = 150_000) -> None:
    """Creates the input of DEFLATED: by default, pixels for minutes of work."""
    DEFLATED.prepare(place)
    source = '<SourceFilename relativeToVRT="1">in.tif</SourceFilename><SourceBand>1</SourceBand>'
    places = f'<SrcRect xOff="0" yOff="0" xSize="40" ySize="30"/><DstRect xOff="0" yOff="0" xSize="{side}" ySize="{side}"/>'
    band = f'<VRTRasterBand dataType="Byte" band="1"><SimpleSource>{source}{places}</SimpleSource></VRTRasterBand>'
    place.path("huge.vrt").write_text(
        f'<VRTDataset rasterXSize="{side}" rasterYSize="{side}">{band}</VRTDataset>'
    )


@dataclass(frozen=True)
class Busy:
    """A server with a call that is writing its output."""

    pipes: Pipes
    pod: str
    number: int

    def outcome(self) -> str:
        return outcome_of(DEFLATED.finish(self.pipes, self.number))


@contextlib.contextmanager
def busy(ground: Ground, place: Place, side: int = 150_000, **more: str) -> Iterator[Busy]:
    huge(place, side)
    with serving(ground, place, **more) as pipes:
        assert outcome_of(INFO.call(pipes)) == "OK"
        until(lambda: ground.pods() == {})
        number = DEFLATED.begin(pipes)
        until(lambda: len(waiting(ground)) == 1 and any(place.staged))
        (name,) = waiting(ground)
        yield Busy(pipes, name, number)


def waiting(ground: Ground) -> set[str]:
    """The Pods that run and are not being deleted."""
    return {
        name
        for name, pod in ground.pods().items()
        if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
    }


def purposes(ground: Ground) -> set[str]:
    """The purposes of the existing Pods: a call's id, or information that a server needs before its first call."""
    return {pod["metadata"]["annotations"][CALL] for pod in ground.pods().values()}
