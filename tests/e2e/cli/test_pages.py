"""The tutorial and the how-to page, run command by command on the data that they name."""

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from mcp import Client, StdioServerParameters

from gdal_mcp.server.mcp.server import build
from gdal_mcp.toolboxes.toolbox import Toolbox
from gdal_mcp.tools.look import LIST_WORKSPACE
from tests.e2e.cli.conftest import Desk, Ended, gdal_mcp
from tests.e2e.mcp.talk import Place, environment
from tests.e2e.remote.origin import Origin, origin
from tests.integration.memory_server import ANN, Server, World, server, toolbox
from tests.unit.sandbox.pool_kit import measure_nothing
from tests.waiting import until

pytestmark = pytest.mark.engine

ROOT = Path(__file__).parents[3]
DATA = ROOT / "examples/tutorial"
REMOTE = "https://data.example.org"
JOBS = 12


def sections(page: str) -> dict[str, list[str]]:
    """The commands of `gdal-mcp` in the shell blocks of a page, by heading."""
    parts = re.split(r"^## (.*)$", (ROOT / "docs" / page).read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    shown = {
        heading: [
            line
            for block in re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
            for line in block.splitlines()
            if line.startswith("gdal-mcp ")
        ]
        for heading, text in zip(parts[::2], parts[1::2], strict=True)
    }
    return {heading: lines for heading, lines in shown.items() if lines}


@dataclass
class Reader:
    """A person who types the commands of a page and answers every question with yes."""

    place: Place
    web: Origin
    answers: list[Ended] = field(default_factory=list)

    def type(self, line: str) -> Ended:
        ended = gdal_mcp(*self.words(line), variables={"GDAL_MCP_STATE_DIR": str(self.place.state)})
        assert ended.code == 0, f"{line}\n{ended.stdout}\n{ended.stderr}"
        self.answers.append(ended)
        return ended

    def words(self, line: str) -> list[str]:
        words = [word.replace(REMOTE, self.web.url("/ok", "localhost")) for word in shlex.split(line)[1:]]
        if "--remote" in words:
            at = words.index("--remote")
            words[at : at + 2] = ["--config", str(self.place.state.parent / "remote.toml")]
        if "--save" in words:
            at = words.index("--save")
            words[at + 1] = str(self.place.state.parent / words[at + 1])
        if "CALL" in words:
            words[words.index("CALL")] = self.newest()
        yes = ["--yes"] if words[0] == "call" else []
        return [*words, *yes, "--workspace", str(self.place.workspace)]

    def newest(self) -> str:
        """The id in the first line that `gdal-mcp undo` printed last."""
        lists = (
            ended.stdout for ended in reversed(self.answers) if re.match(r"[0-9a-f]{16}  ", ended.stdout)
        )
        return next(lists)[:16]


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Origin]:
    with origin(tmp_path_factory.mktemp("web")) as site:
        site.files = {"dem.tif": (DATA / "dem.tif").read_bytes()}
        yield site


@pytest.fixture
def reader(tmp_path: Path, desk: Desk, web: Origin, tmp_path_factory: pytest.TempPathFactory) -> Reader:
    """A copy of the data, and a state folder in which this host is already attested."""
    place = Place.made(tmp_path)
    shutil.copytree(DATA, place.workspace, dirs_exist_ok=True)
    place.state.mkdir(mode=0o700)
    known = desk.state / "attestation-gdal.json"
    if known.exists():
        shutil.copy(known, place.state)
    authority = next(tmp_path_factory.getbasetemp().glob("web*/ca.pem"))
    (tmp_path / "remote.toml").write_text(
        f'[remote]\nca = "{authority}"\n[[remote.source]]\nat = "{web.url("/", "localhost")}"\nnetworks = ["127.0.0.0/8", "::1/128"]\n'
    )
    return Reader(place, web)


def test_tutorial_ends_with_map_and_restored_file(reader: Reader):
    steps = sections("tutorial.md")
    *before, (_, last) = steps.items()
    for line in (line for _, lines in before for line in lines):
        reader.type(line)
    files = reader.place.workspace
    table = (files / "relief.csv").read_text(encoding="utf-8").splitlines()
    assert {row.split(",")[0]: row.split(",")[4] for row in table[1:]}["Campbell"] == "1076"
    assert (files / "map.tif").read_bytes()[:2] == b"II"
    assert (files / "relief.tif").exists()
    assert (reader.place.state.parent / "dem.png").read_bytes().startswith(b"\x89PNG")
    first = (files / "shade.tif").read_bytes()
    replaced = reader.type(last[0])
    assert (files / "shade.tif").read_bytes() != first
    for line in last[1:]:
        reader.type(line)
    assert (files / "shade.tif").read_bytes() == first
    assert replaced.json["replaced"]


def program() -> dict[str, Any]:
    """The names that the program for developers defines."""
    [text] = re.findall(
        r"^```python\n(.*?)^```", (ROOT / "docs/developer.md").read_text(), re.MULTILINE | re.DOTALL
    )
    names: dict[str, Any] = {"__name__": "page"}
    exec(text, names)
    return names


@pytest.mark.nightly
@pytest.mark.parametrize("answer", ["y", "n"])
def test_program_asks_before_it_writes(
    reader: Reader, answer: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    names, command, asked = program(), reader.place.command(), []
    monkeypatch.setattr("builtins.input", lambda text: asked.append(text) or answer)
    names["SERVER"] = StdioServerParameters(command=command[0], args=command[1:], env=environment())
    anyio.run(names["main"])
    assert len(asked) == 1
    assert "[300, 240] EPSG:4326" in capsys.readouterr().out
    assert (reader.place.workspace / "dem-utm.tif").exists() == (answer == "y")


@pytest.mark.nightly
def test_program_fetches_the_result_of_a_slow_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    measure_nothing(monkeypatch)

    async def main(memory_server: Server) -> Any:
        memory_server.world.gate.clear()
        async with Client(build(memory_server.app, who=lambda _ctx: ANN), mode="legacy") as client:
            names, results = program(), []

            async def fetched() -> None:
                results.append(
                    await names["call"](client, "make", {"path": "in.bin", "output": "out.bin"}, 2)
                )

            async with anyio.create_task_group() as group:
                group.start_soon(fetched)
                await anyio.to_thread.run_sync(until, lambda: waiting(memory_server) == [0])
                memory_server.world.gate.set()
            return results

    def with_list(world: World) -> Toolbox:
        box = toolbox(world)
        return replace(box, toolsets={"core": lambda: (*box.toolsets["core"](), LIST_WORKSPACE)})

    with server(tmp_path, approval="never", make_toolbox=with_list) as memory_server:
        [result] = anyio.run(main, memory_server)
        assert result["outputs"][0]["path"] == str(memory_server.root / "out.bin")
        assert (memory_server.root / "out.bin").read_bytes() == b"made"


def waiting(memory_server: Server) -> list[int]:
    """How many requests wait for each running call that only `make` can be."""
    return [call.waiting for call in memory_server.pipeline.activity.all() if call.tool == "make"]


HOWTO = sections("howto.md")


def test_the_page_has_its_jobs():
    assert len(HOWTO) == JOBS


@pytest.mark.nightly
@pytest.mark.parametrize("job", HOWTO)
def test_each_job_runs_and_leaves_what_it_names(reader: Reader, job: str):
    for line in HOWTO[job]:
        ended = reader.type(line)
        if " call " in line and "output" in (arguments := json.loads(shlex.split(line)[3])):
            assert (reader.place.workspace / arguments["output"]).stat().st_size > 0
            assert ended.json["outputs"]


@pytest.mark.nightly
def test_the_join_finds_the_county_of_each_town(reader: Reader):
    _, joined, _ = map(reader.type, HOWTO["Join"])
    rows = [list(row.values()) for row in joined.json["untrusted"]["report"]["rows"]]
    assert ["Jellico", "Campbell", "Tennessee"] in rows
