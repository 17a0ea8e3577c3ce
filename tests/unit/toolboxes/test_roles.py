"""The role of every argument: complete, closed, and in agreement with GDAL's observed behaviour."""

import tomllib
from importlib.resources import files

import pytest

from gdal_mcp.toolboxes.gdal.catalogue.checks import CHECKS
from gdal_mcp.toolboxes.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.toolboxes.gdal.catalogue.forms import FORMS, split
from gdal_mcp.toolboxes.gdal.catalogue.load import packaged, shared_rules
from gdal_mcp.toolboxes.gdal.catalogue.model import PATH_ROLES, RESERVED_TOKENS, Argument, Role

Row = tuple[str, Argument]

EVERY = (*packaged().algorithms.values(), *(step.algorithm for step in packaged().steps.values()))
ROWS: list[Row] = [(algorithm.path, argument) for algorithm in EVERY for argument in algorithm.arguments]


def role(path: str, name: str) -> Role:
    return packaged().algorithms[path].long_names[name].role


@pytest.mark.claim("args.total-roles")
def test_every_argument_has_a_role_with_a_reason() -> None:
    assert len(packaged().algorithms) >= 120
    assert len(packaged().steps) >= 80
    assert [(path, argument.name) for path, argument in ROWS if len(argument.rule.reason) < 5] == []


@pytest.mark.claim("args.total-roles")
def test_every_text_has_a_check_every_path_form() -> None:
    spoken = (Role.VALUE, Role.EXPRESSION)
    texts = [row for row in ROWS if row[1].element_type == "string" and row[1].role in spoken]
    assert texts
    assert [(path, argument.name) for path, argument in texts if argument.rule.check not in CHECKS] == []
    assert [(path, argument.name) for path, argument in ROWS if argument.rule.form not in FORMS] == []
    assert [
        (path, argument.name)
        for path, argument in ROWS
        if argument.rule.form and argument.role not in PATH_ROLES
    ] == []


@pytest.mark.claim("args.total-roles")
def test_every_dataset_is_a_place_or_forbidden() -> None:
    datasets = [row for row in ROWS if row[1].element_type == "dataset"]
    wrong = [
        (path, argument.name)
        for path, argument in datasets
        if argument.role not in PATH_ROLES | {Role.FORBIDDEN}
    ]
    assert datasets
    assert wrong == []


def test_every_list_of_choices_is_held_to_it() -> None:
    chosen = [row for row in ROWS if row[1].choices and row[1].element_type == "string"]
    free = [
        (path, argument.name)
        for path, argument in chosen
        if argument.rule.check not in ("choice", "output-format")
    ]
    assert [row for row in free if role(*row) is not Role.FORBIDDEN] == []


def test_hidden_arguments_are_forbidden_or_set_by_server() -> None:
    hidden = [row for row in ROWS if row[1].hidden]
    assert {"config", "spawned", "no-check-expression", "max-cache-size"} <= {
        argument.name for _, argument in hidden
    }
    wrong = [
        (path, argument.name)
        for path, argument in hidden
        if argument.role not in (Role.FORBIDDEN, Role.HOST_OWNED)
    ]
    assert wrong == []


@pytest.mark.claim("args.no-bare-words")
def test_settable_arguments_are_not_reserved_process_tokens() -> None:
    settable = [argument for _, argument in ROWS if argument.role not in (Role.FORBIDDEN, Role.HOST_OWNED)]
    assert not {f"--{argument.name}" for argument in settable} & RESERVED_TOKENS


# Arguments that contain a path, a document, SQL or code, found by a survey that ran GDAL.
SURVEY = {
    Role.INPUT: """
        dataset identify --filename, dataset copy --source, driver rpftoc create --input,
        raster blend --overlay, raster clip --like, raster color-map --color-map,
        raster compare --reference, raster edit --color-map, raster fill-nodata --mask,
        raster overview add --overview-src, raster overview refresh --like, raster pansharpen --spectral,
        raster pixel-info --position-dataset, raster rgb-to-palette --color-map, raster sieve --mask,
        raster viewshed --sd-filename, raster zonal-stats --zones, raster zonal-stats --weights,
        vector create --schema, vector layer-algebra --method, vsi copy --source, vsi list --filename,
        vsi sozip create --input
    """,
    Role.OUTPUT: """
        dataset copy --destination, driver rpftoc create --output, raster tile --output,
        vector partition --output, vsi copy --destination, vsi sozip create --output,
        vsi sync --destination
    """,
    Role.UPDATE: """
        dataset delete --filename, dataset rename --source, driver gpkg repack --dataset,
        driver openfilegdb repack --dataset, raster edit --dataset, raster overview add --input,
        raster overview delete --input, raster overview refresh --input, raster update --output,
        vector update --output, vsi delete --filename, vsi move --source
    """,
    Role.FORBIDDEN: """
        raster tile --mapml-template, raster tile --parallel-method, raster tile --spawned,
        raster tile --config-options-in-stdin, raster calc --no-check-expression, vector sql --update,
        raster info --config, driver gti create --xml-filename
    """,
    Role.EXPRESSION: """
        raster calc --calc, raster reclassify --mapping, raster clip --like-sql, vector filter --where,
        vector grid average --sql, vector sql --sql, raster pipeline --pipeline
    """,
}


def test_surveyed_arguments_have_the_expected_roles() -> None:
    for expected, arguments in SURVEY.items():
        for path, name in (entry.strip().split(" --") for entry in " ".join(arguments.split()).split(",")):
            assert role(path, name) is expected, (path, name)


@pytest.mark.claim("args.no-bare-words")
def test_no_argument_reads_a_file_by_at_sign() -> None:
    for name in ["gcp", "mapping", "where", "sql"]:
        carriers = [
            argument for _, argument in ROWS if argument.name == name and argument.element_type == "string"
        ]
        assert carriers
        assert {argument.rule.check for argument in carriers} == {name}


def test_switches_that_change_an_output_say_so() -> None:
    update = ("add", "append", "overwrite-layer", "resume", "update", "upsert")
    modes = {(argument.name, argument.rule.mode) for _, argument in ROWS if argument.rule.mode}
    assert modes == {("overwrite", "replace"), *((name, "update") for name in update)}


def test_no_rule_is_without_an_argument() -> None:
    text = (
        files("gdal_mcp.toolboxes.gdal.catalogue").joinpath("data", "roles.toml").read_text(encoding="utf-8")
    )
    roles = tomllib.loads(text)
    shared = {(name, kind) for name, rule in shared_rules(roles).items() for kind in rule["types"]}
    own = {(path, name) for path, rules in roles["algorithm"].items() for name in rules}
    assert shared - {(argument.name, argument.type) for _, argument in ROWS} == set()
    assert own - {(path, argument.name) for path, argument in ROWS} == set()


def test_inner_path_of_every_form_round_trips() -> None:
    for form, text, inner, full in [
        ("", "a.tif", "a.tif", "/ws/a.tif"),
        ("named", "A=a.tif", "a.tif", "A=/ws/a.tif"),
        ("named", "a.tif", "a.tif", "/ws/a.tif"),
        ("named", "A=b=c.tif", "b=c.tif", "A=/ws/b=c.tif"),
        ("band", "a.tif,band=12", "a.tif", "/ws/a.tif,band=12"),
        ("band", "a,b.tif", "a,b.tif", "/ws/a,b.tif"),
        ("listed", "a.tif", "a.tif", "/ws/a.tif"),
        ("output-tree", "tiles", "tiles", "/ws/tiles"),
        ("document", "schema.json", "schema.json", "/ws/schema.json"),
    ]:
        parts = split(form, text, "x")
        assert parts.path == inner
        assert parts.join(f"/ws/{inner}", "x") == full


def test_no_form_accepts_empty_text_or_nul() -> None:
    for form in sorted(FORMS):
        for text in ("", "a\0b", "x" * 5000):
            with pytest.raises(ArgumentRefused):
                split(form, text, "x")


def test_text_read_as_list_or_pipeline_is_refused() -> None:
    for form, text in [
        *(("listed", text) for text in ("@list.txt", "*.tif", "a?.tif", "a[1].tif")),
        *(("named", text) for text in ("@list.txt", "A=@list.txt", "A=*.tif", "A=[ read x ]", "A= [ read x ]", "A=", "[read x]")),
        *(("band", text) for text in ("@x", "*.tif,band=1", "a[1].tif")),
        *(("document", text) for text in ("{", '{"a": NaN}', '{"a":1} x')),
    ]:  # fmt: skip
        with pytest.raises(ArgumentRefused):
            split(form, text, "x")


def test_path_whose_name_reads_as_syntax_is_refused() -> None:
    for form, text, place in [
        ("named", "a.tif", "/ws/x=y/a.tif"),
        ("listed", "a.tif", "/ws/x[1]/a.tif"),
        ("band", "a.tif", "/ws/a,band=3"),
        ("band", "a.tif,band=1", "/ws/x,band=2/a.tif"),
    ]:
        with pytest.raises(ArgumentRefused):
            split(form, text, "x").join(place, "x")
