"""Pipelines as JSON and in GDAL's notation: same meaning, same words, and every output published together."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from gdal_mcp.errors import ToolError
from gdal_mcp.plan import Draft, Effect, effect_of
from gdal_mcp.settings import Settings
from gdal_mcp.toolboxes.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.toolboxes.gdal.catalogue.load import packaged
from gdal_mcp.toolboxes.gdal.datasets.paths import Paths
from gdal_mcp.tools.common import DraftContext
from gdal_mcp.tools.pipelines import MAX_STEPS, draft_pipeline
from sandbox.workspace import Workspace, Workspaces
from tests.boxes import preflight, surface

Drafting = Callable[..., Draft]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    (folder / "sub").mkdir(parents=True)
    for name in ("dem.tif", "other.tif", "zones.gpkg", "old.tif", "sub/in.tif"):
        (folder / name).write_bytes(b"x")
    return folder


@pytest.fixture
def draft(root: Path, tmp_path: Path) -> Drafting:
    """`draft(steps, path="pipeline", **settings)` is the server's draft of a pipeline."""

    def make(steps: Any, path: str = "pipeline", **options: Any) -> Draft:
        settings = Settings(workspaces=[root], state_dir=tmp_path / "state", **options)
        workspaces = Workspaces((Workspace.at(root, writable=True),))
        paths = Paths(workspaces, "outputs", "0123456789abcdef", 2)
        desk = DraftContext(paths, settings, surface(settings), preflight(settings), packaged())
        return draft_pipeline(path, {"pipeline": steps}, desk)

    return make


def step(name: str, **arguments: Any) -> dict[str, Any]:
    branches = arguments.pop("branches", None)
    named = {key.replace("_", "-"): value for key, value in arguments.items()}
    return {"step": name, "arguments": named, **({"branches": branches} if branches else {})}


SAME = [
    ([step("read", input="dem.tif"), step("hillshade", zfactor=2), step("write", output="out.tif")],
     "read dem.tif ! hillshade --zfactor=2 ! write out.tif"),
    ([step("read", input="dem.tif"), step("hillshade", zfactor=2), step("write", output="out.tif")],
     "read --input dem.tif ! hillshade -z 2 ! write --output=out.tif"),
    ([step("read", input="dem.tif"), step("contour", interval=10), step("simplify", tolerance=5), step("write", output="lines.gpkg")],
     "read dem.tif ! contour --interval=10 ! simplify --tolerance=5 ! write lines.gpkg"),
    ([step("read", input="zones.gpkg"), step("rasterize", size=[10, 20], burn=[1]), step("write", output="burnt.tif")],
     "read zones.gpkg ! rasterize --size=10,20 --burn=1 ! write burnt.tif"),
    ([step("read", input="dem.tif"), step("tee", branches=[[step("slope"), step("write", output="slope.tif")], [step("write", output="sub/copy.tif")]]),
      step("hillshade"), step("write", output="shade.tif")],
     "read dem.tif ! tee [ slope ! write slope.tif ] [ write sub/copy.tif ] ! hillshade ! write shade.tif"),
    ([step("mosaic", input=["dem.tif", "other.tif"]), step("write", output="both.tif", creation_option=["COMPRESS=LZW", "TILED=YES"])],
     "mosaic dem.tif other.tif ! write --output=both.tif --co=COMPRESS=LZW --co TILED=YES"),
    ([step("read", input="dem.tif"), step("reproject", output_crs="EPSG:4326", resolution=[0.1, 0.1]), step("info")],
     "read dem.tif ! reproject --output-crs=EPSG:4326 --resolution=0.1,0.1 ! info"),
    ([step("read", input="dem.tif"), step("blend", operator="multiply", overlay={"steps": [step("read", input="other.tif"), step("hillshade")]}),
      step("write", output="blend.tif")],
     "read dem.tif ! blend --operator=multiply --overlay [ read other.tif ! hillshade ] ! write blend.tif"),
    ([step("mosaic", input=[{"steps": [step("read", input="dem.tif"), step("slope")]}, {"steps": [step("read", input="other.tif"), step("slope")]}]),
      step("write", output="m.tif")],
     "mosaic [ read dem.tif ! slope ] [ read other.tif ! slope ] ! write m.tif"),
    ([step("read", input="dem.tif"), step("zonal-stats", stat=["mean"], zones={"steps": [step("read", input="zones.gpkg"), step("buffer", distance=1)]}),
      step("write", output="stats.csv")],
     "read dem.tif ! zonal-stats --stat=mean --zones [ read zones.gpkg ! buffer --distance=1 ] ! write stats.csv"),
]  # fmt: skip


def test_both_pipeline_notations_give_the_same_command(draft: Drafting) -> None:
    for listed, text in SAME:
        from_list, from_text = draft(listed), draft(text)
        assert from_list.command.argv == from_text.command.argv
        assert (from_list.inputs, from_list.outputs, from_list.work.named) == (
            from_text.inputs,
            from_text.outputs,
            from_text.work.named,
        )
        assert from_list.work.arguments == from_text.work.arguments


@pytest.mark.claim("args.pipelines-parsed")
def test_nested_pipeline_paths_are_absolute_with_staged_outputs(draft, root):
    drafted = draft(
        "read sub/in.tif ! clip --like=zones.gpkg ! blend --operator=multiply"
        " --overlay [ read other.tif ! tee [ write sub/t.tif ] ! slope ] ! write x.tif"
    )
    assert [source.path for source in drafted.inputs] == [
        root / "sub/in.tif",
        root / "zones.gpkg",
        root / "other.tif",
    ]
    assert [output.target.path for output in drafted.outputs] == [root / "x.tif", root / "sub/t.tif"]
    assert " ".join(drafted.command.argv) == (
        f"gdal pipeline read --input={root}/sub/in.tif ! clip --like={root}/zones.gpkg ! blend --operator=multiply"
        f" --overlay [ read --input={root}/other.tif ! tee [ write --output=/staging/t.tif ] ! slope ]"
        " ! write --output=/staging/x.tif"
    )
    assert set(drafted.work.algorithms) >= {"raster blend", "raster slope"}


@pytest.mark.claim("args.pipelines-parsed")
def test_nesting_smuggles_nothing(draft: Drafting) -> None:
    inner = {"steps": [step("read", input="other.tif")]}
    deep: Any = inner
    for _ in range(200):
        deep = {"steps": [step("read", input="dem.tif"), step("blend", operator="multiply", overlay=deep)]}
    for overlay in (
        {"steps": [step("read", input="/etc/passwd")]},
        {"steps": [step("read", input="../other.tif")]},
        {"steps": [step("read", input="other.tif"), step("write", output="y.tif")]},
        {"steps": [step("read", input="other.tif"), step("tee", branches=[[step("write", output="dem.tif", overwrite=True)]])]},
        {"steps": [step("read", input="zones.gpkg"), step("buffer", distance=1)]},
        {"steps": [step("hillshade")]},
        {"steps": []},
        {"steps": "read other.tif"},
        {**inner, "shell": "x"},
        [inner, "other.tif"],
        [inner, inner],
        deep,
    ):  # fmt: skip
        steps = [
            step("read", input="dem.tif"),
            step("blend", operator="multiply", overlay=overlay),
            step("write", output="x.tif"),
        ]
        with pytest.raises((ToolError, ValidationError)):
            draft(steps)
    for text in (
        "read dem.tif ! hillshade --zfactor [ read other.tif ] ! write x.tif",
        "read dem.tif ! write --output [ read other.tif ]",
        "read dem.tif ! blend --overlay=other.tif --overlay [ read other.tif ] --operator=multiply ! write x.tif",
        "read dem.tif ! blend other.tif [ read other.tif ] --operator=multiply ! write x.tif",
        "read dem.tif ! blend --operator=multiply --overlay [ read other.tif ! read dem.tif ] ! write x.tif",
    ):
        with pytest.raises(ToolError):
            draft(text)


def test_step_that_cannot_accept_previous_output_is_refused(draft: Drafting) -> None:
    draft(
        "read dem.tif ! polygonize ! buffer --distance=1 ! rasterize --size=9,9 --burn=1 ! hillshade ! write out.tif"
    )
    for path, text in [
        ("pipeline", "read dem.tif ! hillshade ! buffer --distance=1 ! write x.gpkg"),
        ("pipeline", "read zones.gpkg ! buffer --distance=1 ! hillshade ! write x.tif"),
        ("pipeline", "read dem.tif ! rasterize --size=9,9 --burn=1 ! hillshade ! polygonize ! hillshade ! write x.tif"),
        ("pipeline", "hillshade ! write x.tif"),
        ("pipeline", "read dem.tif ! info ! write x.tif"),
        ("pipeline", "read dem.tif ! read other.tif ! write x.tif"),
        ("raster pipeline", "read dem.tif ! polygonize ! write x.gpkg"),
        ("raster pipeline", "read zones.gpkg ! buffer --distance=1 ! write x.gpkg"),
        ("vector pipeline", "read zones.gpkg ! hillshade ! write x.tif"),
        ("pipeline", "read dem.tif ! tee [ buffer --distance=1 ! write y.gpkg ] ! hillshade ! write x.tif"),
        ("pipeline", "read dem.tif ! write x.tif ! write y.tif"),
    ]:  # fmt: skip
        with pytest.raises(ArgumentRefused):
            draft(text, path)


def test_branch_outputs_are_published_with_the_last_one(draft: Drafting, root: Path) -> None:
    drafted = draft(
        "read dem.tif ! tee [ write a.tif ] [ slope ! tee [ write b.tif ] ! write sub/c.tif ] ! write d.tif"
    )
    assert [output.target.path for output in drafted.outputs] == [root / name for name in ("d.tif", "a.tif", "b.tif", "sub/c.tif")]  # fmt: skip
    assert drafted.output is not None
    assert drafted.output.target.name == "d.tif"


def test_outputs_colliding_with_files_or_others_are_refused(draft: Drafting) -> None:
    for text in [
        "read dem.tif ! tee [ write same.tif ] ! write sub/same.tif",  # both are same.tif in staging
        "read dem.tif ! tee [ write dem.tif --overwrite ] ! write x.tif",
        "read dem.tif ! clip --like=other.tif ! write other.tif --overwrite",
        "read dem.tif ! write old.tif",
        "read dem.tif ! tee [ write old.tif ] ! write x.tif",
        "read missing.tif ! write x.tif",
        "read dem.tif ! write missing/x.tif",
        # `overwrite` of one write does not apply to the file that another write names
        "read dem.tif ! tee [ write --overwrite other.tif ] ! write old.tif",
    ]:
        with pytest.raises(ToolError):
            draft(text)


def test_an_overwrite_says_what_is_replaced(draft: Drafting, root: Path) -> None:
    drafted = draft("read dem.tif ! tee [ write old.tif --overwrite ] ! write x.tif")
    assert [[old.path for old in output.replaces] for output in drafted.outputs] == [[], [root / "old.tif"]]
    assert effect_of(drafted) is Effect.REPLACE


def test_a_pipeline_that_only_reads_is_a_read(draft: Drafting) -> None:
    for text in ("hillshade ! info", "compare --reference=other.tif"):
        drafted = draft(f"read dem.tif ! {text}")
        assert (drafted.outputs, effect_of(drafted)) == ((), Effect.READ)


@pytest.mark.claim("args.pipelines-parsed")
def test_an_excluded_algorithm_is_no_step_either(draft: Drafting) -> None:
    for name in ["raster_hillshade", "raster hillshade", "gdal_raster_hillshade"]:
        for text in [
            "read dem.tif ! hillshade ! write x.tif",
            "read dem.tif ! HILLSHADE ! write x.tif",
            "read dem.tif ! tee [ hillshade ! write y.tif ] ! write x.tif",
        ]:
            with pytest.raises(ToolError) as caught:
                draft(text, exclude_tools=(name,))
            assert caught.value.code == "DENIED"
            draft(text.replace("hillshade", "slope").replace("HILLSHADE", "slope"), exclude_tools=(name,))


@pytest.mark.claim("args.exclusion-whole")
@pytest.mark.claim("args.rules-hold-for-what-runs")
def test_a_step_of_both_kinds_cannot_evade_exclusion(draft):
    text = "read zones.gpkg ! reproject --output-crs=EPSG:4326 ! write x.gpkg"
    assert {"raster reproject", "vector reproject"} <= set(draft(text).work.algorithms)
    for path in ("pipeline", "raster pipeline"):
        with pytest.raises(ToolError) as caught:
            draft(text, path, exclude_tools=("raster_reproject",))
        assert caught.value.code == "DENIED"
    draft(text, "vector pipeline", exclude_tools=("raster_reproject",))
    with pytest.raises(ToolError):
        draft(text, "vector pipeline", exclude_tools=("raster_reproject", "vector_reproject"))


@pytest.mark.claim("args.pipelines-parsed")
def test_a_step_is_held_to_its_own_arguments(draft: Drafting) -> None:
    for listed in [
        [step("hillshade", branches=[[step("write", output="x.tif")]])],
        [step("read", input="dem.tif"), step("tee")],
        [step("read", input="dem.tif")] + [step("hillshade")] * MAX_STEPS,
        [step("read", input="dem.tif"), step("tee", branches=[[step("slope")] * (MAX_STEPS + 1)])],
        [step("read", inputs="dem.tif")],
        [step("read", input="dem.tif"), step("hillshade", config="x")],
        [step("read", input="dem.tif"), step("hillshade", zfactor="two")],
    ]:
        with pytest.raises((ArgumentRefused, ValidationError)):
            draft(listed)
