"""Attacks through the tools: refused with a typed error before anything runs, or harmless by effect.

The ids are those of the project's table of hostile inputs: P paths, D and E dataset names, A arguments, X second order,
R resources.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.attack_calls import (
    ARGUMENTS,
    COMPUTES,
    EXTERNAL,
    FLOODS,
    HAND_PICKED,
    NAMES,
    PATHS,
    PIPED,
    SQL,
    Call,
    read,
    steps,
    write,
)
from tests.mcp.attack_files import World, judged, lay_all, refused_all, told
from tests.mcp.attack_options import OPTIONS
from tests.mcp.conftest import Containers
from tests.mcp.hostile_files import CANARY, HIDDEN
from tests.mcp.talk import Person, Place, Talk, talking
from tests.oracle.container import Oracle

pytestmark = [pytest.mark.engine, pytest.mark.claim("args.refused-before-anything-runs")]


@pytest.fixture(scope="module")
def own(grounds: Path, oracle: Oracle, place: Place) -> Place:
    made = Place.made(grounds / "attacks")
    lay_all(made, oracle, place.workspace)
    return made


@pytest.fixture(scope="module")
def world(own: Place) -> World:
    return World.seen(own, own.workspace.parent / "outside")


@pytest.fixture(scope="module")
def victim(own: Place, world: World, grounds: Path, containers: Containers) -> Iterator[Talk]:
    """A server that asks only where it must, and a person who would say yes. At the end the world is looked over."""
    command = own.command(
        "--approval", "never", "--timeout-seconds", "10", "--memory", "512MiB", "--log-level", "debug"
    )
    log = grounds / "attacks.log"
    with talking(command, log, person=Person()) as made:
        yield made
        owners = own.owners
    assert containers.of_owners(owners) == []
    assert own.staged == []
    world.check(log)


@pytest.fixture(scope="module")
def without_sql(own: Place, world: World, grounds: Path) -> Iterator[Talk]:
    log = grounds / "attacks-no-sql.log"
    with talking(own.command("--approval", "never", "--no-sql"), log, person=Person()) as made:
        yield made
    world.check(log)


@pytest.fixture(scope="module")
def with_sql(own: Place, world: World, grounds: Path) -> Iterator[Talk]:
    command = own.command("--approval", "never", "--timeout-seconds", "5")
    log = grounds / "attacks-sql.log"
    with talking(command, log, person=Person()) as made:
        yield made
    world.check(log)


def uses(name: str) -> dict[str, Call]:
    """The places where a dataset can be named: alone, in a list, beside the input, in a step, by name, as a file to work on."""
    return {
        "read": read("raster info", input=name),
        "features": read("vector info", input=name, features=True),
        "mdim": read("mdim info", input=name),
        "list": write("raster mosaic", input=["ok.tif", name], output="x.tif"),
        "like": write("raster clip", input="ok.tif", like=name, output="x.tif"),
        "mask": write("raster fill-nodata", input="dem.tif", mask=name, output="x.tif"),
        "named": write("raster calc", input=[f"A={name}"], calc=["A+1"], output="x.tif"),
        "table": write("raster color-map", input="dem.tif", color_map=name, output="x.tif"),
        "schema": write("vector create", schema=name, output="x.gpkg"),
        "step": ("pipeline", {"steps": [{"step": "read", "arguments": {"input": name}}, {"step": "info"}]}),
        "branch": ("pipeline", {"steps": [{"step": "read", "arguments": {"input": "ok.tif"}},
                                           {"step": "mosaic", "arguments": {"input": [name]}}]}),
        "identify": read("dataset identify", filename=["ok.tif", name]),
        "updated": write("raster edit", dataset=name, nodata="1"),
        "overviews": write("raster overview add", input=name, levels=[2]),
        "delete": write("dataset delete", filename=[name]),
        "rename": write("dataset rename", source=name, destination="x.tif"),
        "copy": write("dataset copy", source=name, destination="x.tif"),
        "remove": write("vsi delete", filename=name),
        "move": write("vsi move", source=name, destination="x.tif"),
        "sync": write("vsi sync", source=name, destination="x"),
        "vsi list": read("vsi list", filename=name),
        "vsi copy": write("vsi copy", source=name, destination="x.tif"),
        "zip": write("vsi sozip create", input=[name], output="x.zip"),
        "write": write("raster convert", input="ok.tif", output=name, output_format="GTiff"),
        "sink": ("pipeline", {"steps": [{"step": "read", "arguments": {"input": "ok.tif"}},
                                         {"step": "write", "arguments": {"output": name, "overwrite": True}}]}),
        "preview": ("preview", {"path": name}),
        "folder": ("list_workspace", {"path": name}),
        "planned": ("validate_call", {"tool": "info", "arguments": {"path": name}}),
        "gdalinfo": ("gdalinfo", {"dataset": name}),
        "convert": ("convert", {"input": name, "output": "x.tif"}),
        "gdalwarp": ("gdalwarp", {"src_datasets": ["ok.tif", name], "t_srs": "EPSG:4326"}),
        "polygonize": ("gdal_polygonize", {"src_dataset": "ok.tif", "mask": name}),
    }  # fmt: skip


def some(name: str, number: int) -> dict[str, Call]:
    """Reading it, and a third of its other uses: each name meets some, each use meets many names.

    A name without a slash is a fine one for a file that is yet to be written.
    """
    made = uses(name)
    may = set() if "/" in name or not name.isprintable() else {"write", "sink"}
    keys = ["read", "features", *list(made)[2 + number % 3 :: 3]]
    may |= {"schema"} if name.startswith("{") else set()  # a document is what it takes
    return {key: made[key] for key in keys if key not in may}


@pytest.mark.nightly
@pytest.mark.claim("paths.inside")
@pytest.mark.parametrize("start", range(0, len(PATHS), 8))
def test_a_path_out_of_the_workspace_is_refused_wherever_a_path_can_stand(
    victim: Talk, own: Place, start: int
):
    calls = {
        (key, use): call
        for number, (key, path) in list(enumerate(PATHS.items()))[start : start + 8]
        for use, call in some(path, number).items()
    }
    refused_all(victim, own, calls)


@pytest.mark.nightly
@pytest.mark.claim("names.files-only")
@pytest.mark.parametrize("start", range(0, len(NAMES), 12))
def test_a_dataset_name_that_is_no_file_is_refused_wherever_one_can_stand(
    victim: Talk, own: Place, start: int
):
    calls = {
        (name, use): call
        for number, name in list(enumerate(NAMES))[start : start + 12]
        for use, call in some(name, number).items()
    }
    refused_all(victim, own, calls)


@pytest.mark.claim("args.unknown-refused")
def test_an_argument_that_reaches_further_is_refused_before_anything_runs(victim: Talk, own: Place):
    refused_all(victim, own, ARGUMENTS | {f"{key} by hand": call for key, call in HAND_PICKED.items()})


PARTS = [
    'NETCDF:"ok.tif":v', "DERIVED_SUBDATASET:AMPLITUDE:ok.tif", "RADARSAT_2_CALIB:UNCALIB:ok.tif", "GPKG:zones.gpkg:zones",
]  # fmt: skip
ASTRAY = [
    ("ok.tif", "../outside/secret.tif"), ("ok.tif", "/etc/passwd"), ("zones.gpkg", "/etc/passwd"), ("ok.tif", "ln_rel.tif"),
    ("zones.gpkg", "ln_passwd.csv"), ("ok.tif", "/vsicurl/http://127.0.0.1/x.tif"), ("ok.tif", "http://127.0.0.1/x.tif"),
    ("ok.tif", "/vsistdin/"), ("zones.gpkg", "/dev/zero"),
]  # fmt: skip


@pytest.mark.claim("names.read-whole")
def test_a_name_of_a_part_opens_that_file_of_the_workspace_or_nothing(victim: Talk, own: Place):
    calls = {name: victim.start("info", path=name) for name in PARTS}
    for name, call in calls.items():
        result = call.result(timeout=120)
        told(result)
        if result.is_error:
            assert result.structured_content["error"]["code"] == "GDAL_ERROR"
        else:
            inside = str(own.path("zones.gpkg" if "zones" in name else "ok.tif"))
            assert inside in victim.record(result.structured_content)["argv"][-1]
    assert not calls["GPKG:zones.gpkg:zones"].result().is_error


@pytest.mark.claim("names.read-whole")
def test_a_name_of_a_part_of_another_place_is_refused_before_anything_runs(
    victim: Talk, subtests: pytest.Subtests
):
    for name in PARTS:
        for inside, astray in ASTRAY:
            if inside in name:
                with subtests.test(name=name, astray=astray):
                    judged(victim.call("info", path=name.replace(inside, astray)))


VALUES = ("/etc/passwd", "plain", "1", "YES")


def options_of(argument: str, driver: str, name: str, value: str) -> Iterator[tuple[str, Call]]:
    """The option for rasters and for vectors, alone and in the steps of a pipeline."""
    text = f"{name}={value}"
    for kind, source in (("raster", "ok.tif"), ("vector", "zones.gpkg")):
        if argument == "open-option":
            yield kind, read(f"{kind} info", input=source, input_format=[driver], open_option=[text])
            yield f"{kind} any", read(f"{kind} info", input=source, open_option=[text])
        elif (kind, argument) != ("raster", "layer-creation-option"):
            named = {"input": source, "output": "x.out", "output_format": driver, argument: [text]}
            yield kind, write(f"{kind} convert", **named)
            step = {"output": "x.out", "output-format": driver, argument: [text]}
            yield f"{kind} step", ("pipeline", {"steps": [{"step": "read", "arguments": {"input": source}}, {"step": "write", "arguments": step}]})  # fmt: skip


@pytest.mark.nightly
@pytest.mark.claim("args.options-allow-listed")
@pytest.mark.parametrize("argument", OPTIONS)
def test_a_driver_option_that_reaches_further_is_refused_whatever_its_value(
    victim: Talk, own: Place, argument: str
):
    calls = {}
    for driver, names in OPTIONS[argument].items():
        for number, name in enumerate(names.split()):
            value = VALUES[(number + len(driver)) % len(VALUES)]
            calls |= {
                (driver, name, value, use): call for use, call in options_of(argument, driver, name, value)
            }
    errors = refused_all(victim, own, calls)
    assert {error["code"] for error in errors.values()} <= {"INVALID_ARGUMENT", "NETWORK_BLOCKED"}


@pytest.mark.claim("args.options-allow-listed")
def test_an_option_of_the_same_drivers_that_reaches_nothing_is_passed_on(victim: Talk):
    """What is refused above is refused for what it is, not for where it stands."""
    calls = [
        write("raster convert", input="ok.tif", output="passed.tif", creation_option=["COMPRESS=LZW"]),
        read("raster info", input="ok.tif", input_format=["GTiff"], open_option=["NUM_THREADS=1"]),
        steps("read zones.gpkg ! write passed.gpkg --layer-creation-option=FID=id"),
    ]
    for tool, arguments in calls:
        planned = victim.done("validate_call", tool=tool, arguments=arguments)
        assert planned["valid"], planned


@pytest.mark.claim("args.pipelines-parsed")
def test_no_step_runs_a_program_however_it_is_spelt(victim: Talk, own: Place):
    calls = {text: steps(text) for text in EXTERNAL}
    for path in ("pipeline", "raster pipeline", "vector pipeline"):
        calls |= {
            (path, text): write(path, pipeline=text)
            for text in EXTERNAL
            if "zones" in text or "vector" not in path
        }
    spellings = (
        "external",
        "External",
        " external",
        "raster external",
        "gdal external",
        "exter\u200bnal",
        "external\0",
    )
    for name in spellings:
        for given in ({"command": "id"}, {}):
            listed = [
                {"step": "read", "arguments": {"input": "ok.tif"}},
                {"step": name, "arguments": given},
                {"step": "write", "arguments": {"output": "x.tif"}},
            ]
            calls[name, str(given)] = ("pipeline", {"steps": listed})
            calls[name, str(given), "tool"] = write(name, **given)
    refused_all(victim, own, calls)


@pytest.mark.claim("args.pipelines-parsed")
def test_a_pipeline_reaches_no_further_than_its_steps_may(victim: Talk, own: Place):
    calls: dict[Any, Call] = {text: steps(text) for text in PIPED}
    calls |= {("write", text): write("pipeline", pipeline=text) for text in PIPED[::2]}
    calls |= {("read", text): read("pipeline", pipeline=text) for text in PIPED[1::2]}
    calls["config"] = write("pipeline", pipeline="read ok.tif ! write x.tif", config={"GDAL_SKIP": ""})
    calls["input"] = write("pipeline", pipeline="read ! write x.tif", input="/etc/passwd")
    calls["output"] = write("pipeline", pipeline="read ok.tif ! write", output="../outside/PWNED.tif")
    refused_all(victim, own, calls)


def sql_calls(statement: str) -> dict[str, Call]:
    """Wherever SQL may stand, in every dialect."""
    made = {
        dialect: write("vector sql", input="zones.gpkg", output="sql.gpkg", sql=[statement], dialect=dialect)
        for dialect in ("OGRSQL", "SQLITE")
    }
    made["none"] = write("vector sql", input="zones.gpkg", output="sql.gpkg", sql=[statement])
    made["info"] = read("vector info", input="zones.gpkg", sql=statement)
    made["like"] = write("raster clip", input="ok.tif", output="x.tif", like="zones.gpkg", like_sql=statement)
    made["burnt"] = write(
        "vector rasterize", input="zones.gpkg", output="x.tif", sql=statement, size=[5, 5], burn=[1]
    )
    step = {"step": "sql", "arguments": {"sql": [statement]}}
    made["step"] = ("pipeline", {"steps": [{"step": "read", "arguments": {"input": "zones.gpkg"}}, step, {"step": "write", "arguments": {"output": "x.gpkg"}}]})  # fmt: skip
    return made


@pytest.mark.claim("sql.can-be-off")
def test_a_server_without_sql_takes_no_statement_at_all(without_sql: Talk, own: Place):
    calls = {
        (statement, use): call
        for statement in ("SELECT * FROM zones", *SQL[:3])
        for use, call in sql_calls(statement).items()
    }
    refused_all(without_sql, own, calls)


@pytest.mark.nightly
@pytest.mark.claim("sql.one-select")
def test_a_statement_that_only_computes_ends_by_the_limits_and_tells_nothing_of_the_host(with_sql: Talk):
    for statement in COMPUTES:
        result = with_sql.start(
            "gdal_read", **read("vector info", input="zones.gpkg", sql=statement, dialect="SQLITE")[1]
        )
        told(result.result(timeout=300))


@pytest.mark.claim("sql.one-select")
def test_no_statement_reaches_another_file(with_sql: Talk, own: Place):
    calls = {
        (statement, use): call
        for number, statement in enumerate(SQL)
        for use, call in list(sql_calls(statement).items())[number % 2 :: 2]
    }
    refused_all(with_sql, own, calls)


@pytest.mark.claim("sql.one-select")
def test_a_plain_statement_does_what_it_says(with_sql: Talk, own: Place):
    """The traps above are refused for what they say, not because it is SQL."""
    tool, arguments = write(
        "vector sql", input="zones.gpkg", output="plain-sql.geojson", sql=["SELECT name FROM zones WHERE value > 5"]
    )  # fmt: skip
    made = with_sql.done(tool, **arguments)
    assert made["outputs"][0]["description"]["layers"][0]["features"] == 1
    assert "south" in own.path("plain-sql.geojson").read_text()


def ends(talk: Talk, *calls: Call) -> list[dict[str, Any]]:
    """What the calls were told, made together; nothing of the host is in it."""
    under_way = [talk.start(tool, **arguments) for tool, arguments in calls]
    answers = [call.result(timeout=300) for call in under_way]
    for answer in answers:
        told(answer)
    return [answer.structured_content for answer in answers]


@pytest.mark.claim("names.read-whole")
def test_names_that_only_look_dangerous_are_names(victim: Talk, own: Place):
    """A list with a comma in a name, names like switches, drivers and formulas: one dataset each."""
    odd = ["comma,name.tif", "--config", "PG:host=x.tif"]
    answers = ends(
        victim,
        *(read("raster info", input=name) for name in odd),
        *(
            steps(f'read "{name}" ! info')
            for name in ("a b.tif", "semi;colon.tif", "comma,name.tif", "$(id).tif")
        ),
    )
    assert [answer["size"] for answer in answers] == [[20, 20]] * len(answers)


@pytest.mark.claim("names.read-whole")
def test_an_archive_of_the_workspace_is_read_and_nothing_behind_it(victim: Talk, own: Place):
    """Zip slip names and links in archives lead nowhere: inside an archive nothing is extracted or followed."""
    good = [
        read("raster info", input=name)
        for name in ("/vsizip/ok.zip/ok.tif", "/vsizip/{ok.zip}/folder/in.tif", "/vsitar/links.tar/ok.tif")
    ]
    bad = [
        read("raster info", input=name)
        for name in ("/vsizip/slip.zip/etc/PWNED.tif", "/vsitar/links.tar/secret.tif", "/vsizip/slip.zip/outside/secret.tif")
    ]  # fmt: skip
    lists = [
        read("vsi sozip list", input="slip.zip"),
        write("vsi sozip optimize", input=["slip.zip"], output="again.zip"),
    ]
    answers = ends(victim, *good, *bad, *lists)
    assert [answer["size"] for answer in answers[:3]] == [[20, 20]] * 3
    assert all("error" in answer for answer in answers[4:5])


@pytest.mark.claim("outputs.own-files-only")
def test_deleting_a_dataset_that_refers_to_others_takes_away_itself_alone(victim: Talk, own: Place):
    source = own.path("ok.tif").read_bytes()
    for name in ("gone.vrt", "renamed.vrt", "copied.vrt"):
        own.path(name).write_bytes(own.path("ok.vrt").read_bytes())
    answers = ends(
        victim,
        write("dataset delete", filename=["gone.vrt"]),
        write("dataset rename", source="renamed.vrt", destination="other-name.vrt"),
        write("dataset copy", source="copied.vrt", destination="copy-of.vrt"),
    )
    assert not [answer for answer in answers if "error" in answer]
    assert [own.path(name).exists() for name in ("gone.vrt", "renamed.vrt", "copied.vrt")] == [
        False,
        False,
        True,
    ]
    assert own.path("other-name.vrt").is_file()
    assert own.path("copy-of.vrt").is_file()
    assert own.path("ok.tif").read_bytes() == source  # neither deleted, renamed nor copied along
    assert not [path for path in own.workspace.glob("*.tif") if path.stem in ("other-name", "copy-of")]


@pytest.mark.claim("outputs.own-files-only")
def test_an_overwrite_of_a_dataset_that_refers_to_others_leaves_them(victim: Talk, own: Place):
    own.path("over.vrt").write_bytes(own.path("ok.vrt").read_bytes())
    own.path("edited.vrt").write_bytes(own.path("ok.vrt").read_bytes())
    answers = ends(
        victim,
        write("raster convert", input="dem.tif", output="over.vrt", overwrite=True),
        write("raster edit", dataset="edited.vrt", nodata="1"),
    )
    assert not [answer for answer in answers if "error" in answer]


@pytest.mark.claim("outputs.own-files-only")
def test_what_takes_a_folder_away_takes_a_link_in_it_and_not_what_it_leads_to(
    victim: Talk, own: Place, world: World
):
    for folder in ("doomed", "moving"):
        own.path(folder).mkdir()
        own.path(folder).joinpath("link").symlink_to(world.outside / "victim")
        own.path(folder).joinpath("file.txt").write_text("x")
    answers = ends(
        victim,
        write("vsi delete", filename="doomed", recursive=True),
        write("vsi move", source="moving", destination="moved"),
    )
    assert not own.path("doomed").exists() or "error" in answers[0]
    assert (world.outside / "victim" / "keep.txt").read_bytes() == CANARY
    for path in own.workspace.rglob("keep.txt"):
        assert path.is_relative_to(own.workspace / "nowhere"), "a file from outside was copied in"


@pytest.mark.claim("resources.certain-excess-refused")
def test_a_flood_is_refused_by_its_estimate(victim: Talk, own: Place):
    """By the arguments alone, or by what the container says of the inputs before it works."""
    under_way = {key: victim.start(tool, **arguments) for key, (tool, arguments) in FLOODS.items()}
    for key, call in under_way.items():
        error = call.result(timeout=300).structured_content["error"]
        assert error["code"] in {"DISK_LIMIT", "MEMORY_LIMIT", "TIMEOUT"}, (key, error)
        assert "at least" in error["message"], (key, error)  # foreseen, not run into
    assert not own.path("big.tif").exists()
    assert not own.path("tiles").exists()


@pytest.mark.claim("content.reads-nothing-outside")
def test_a_chain_of_our_own_outputs_stays_inside(victim: Talk, own: Place):
    victim.done("gdalbuildvrt", src_datasets=["ok.tif"], dst_vrt="chain1.vrt")
    victim.done("convert", input="chain1.vrt", output="chain2.vrt", output_format="VRT")
    victim.done("gdal_translate", src_dataset="chain2.vrt", dst_dataset="-rf.tif")
    assert own.path("-rf.tif").is_file()


@pytest.mark.claim("content.cleaned")
def test_text_from_inside_a_file_cannot_hide_or_drive_a_terminal(victim: Talk, subtests: pytest.Subtests):
    for name, tool in (
        ("injection.vrt", "info"),
        ("injection.geojson", "info"),
        ("injection.vrt", "gdalinfo"),
    ):
        with subtests.test(name=name, tool=tool):
            result = victim.call(tool, **{"path" if tool == "info" else "dataset": name})
            assert not result.is_error, result.structured_content
            text = told(result)
            assert "IGNORE" in text or name.endswith("geojson")  # cleaned, not left out
            assert HIDDEN not in text


@pytest.mark.claim("content.cleaned")
def test_a_layer_of_a_hostile_name_is_described_cleanly(victim: Talk):
    told(victim.call("convert", input="injection.geojson", output="named.gpkg"))


@pytest.mark.claim("audit.secrets-not-kept")
def test_secrets_in_refused_arguments_are_not_kept(victim: Talk, own: Place, grounds: Path):
    secret = "hunter2-not-for-the-log"
    victim.failed("info", path=f"PG:host=db user=me password={secret}")
    victim.failed("convert", input="ok.tif", output="x.tif", extra_args=[f"--password={secret}"])
    kept = [path for path in own.state.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
    assert kept == []
    assert secret not in (grounds / "attacks.log").read_text()
