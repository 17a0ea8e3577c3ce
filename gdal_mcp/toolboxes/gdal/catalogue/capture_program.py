"""Runs in a GDAL container and prints GDAL's algorithms, arguments, drivers and options as one JSON document.

Uses only the standard library, osgeo and the `gdal` program; reads no files except libraries, and writes only to
stdout. Its argument is a JSON list of texts that are searched for in the libraries.

The algorithms are those in GDAL's own list. The Python bindings cannot instantiate a pipeline step. So a step's
arguments come from GDAL's JSON usage, their spelling from the step's help text, and what neither shows from the
algorithm of the same name.
"""

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from functools import cache
from typing import Any

from osgeo import gdal

DESCRIPTION_LETTERS = 120

OPTION_LISTS = {
    "creation": "DMD_CREATIONOPTIONLIST",
    "layer": "DS_LAYER_CREATIONOPTIONLIST",
    "open": "DMD_OPENOPTIONLIST",
}
CAPABILITIES = {
    "raster": "DCAP_RASTER",
    "vector": "DCAP_VECTOR",
    "multidim": "DCAP_MULTIDIM_RASTER",
    "open": "DCAP_OPEN",
    "create": "DCAP_CREATE",
    "createcopy": "DCAP_CREATECOPY",
    "create_layer": "DCAP_CREATE_LAYER",
    "create_multidim": "DCAP_CREATE_MULTIDIMENSIONAL",
    "translate_from": "DCAP_VECTOR_TRANSLATE_FROM",
    "update": "DCAP_UPDATE",
    "append": "DCAP_APPEND",
}

# GDAL accepts more names than it lists; the bindings can only look up one name at a time.
HIDDEN_ALIASES = (
    "a_srs", "b", "bbox_srs", "crs", "dst-crs", "dst-field-type", "dst-max", "dst-min", "dst-nodata", "dstalpha",
    "dstnodata", "extent", "geometry_srs", "layer", "nln", "nlt", "no-check-srs", "ot", "output-type", "s_srs", "skip",
    "skip-failures", "skipfailures", "src-crs", "src-field-type", "src-max", "src-min", "src-nodata", "srcnodata",
    "srs", "t_srs", "tap", "te", "te_srs", "tr", "ts", "where",
)  # fmt: skip
HIDDEN_CHOICES = ("near",)

# Values that `--json-usage` has for nearly every argument: left out of the data, and used as defaults by its reader.
ASSUMED = {
    "required": False,
    "repeated_arg_allowed": True,
    "min_count": 0,
    "max_count": 2147483647,
    "available_in_pipeline_step": False,
}


# indexed by GDAL's argument type (GAAT_*)
TYPES = tuple("boolean string integer real dataset string_list integer_list real_list dataset_list".split())
SHORTCUTS = ("convert", "info")  # commands that GDAL leaves out of its own list
NEVER = "external"  # a step that runs a shell command
# not captured: it stores input paths relative to its output, which is in a staging folder until it is published
LEFT_OUT = ("driver parquet create-metadata-file",)
PIPELINES = ("pipeline", "raster pipeline", "vector pipeline")
KINDS = ("raster", "vector")
PLACES = ("first", "middle", "last")

# keys of an argument that GDAL's JSON usage does not have
HOW = ("short_name", "aliases", "positional", "hidden_choices")

SECTION = re.compile(r"(\S.*):")  # heading in a help text, such as `Advanced Options:`
COMMON = "Common Options"
POSITIONAL = "Positional arguments"
OPTION = re.compile(r"  ((?:--?[A-Za-z0-9][A-Za-z0-9-]*, )*--[A-Za-z0-9][A-Za-z0-9-]*)(?= |$)")

# For each kind of pipeline, an inline dataset, because GDAL opens the input first, and a step that may not be last.
ENDLESS = {
    "pipeline": ('<VRTDataset rasterXSize="1" rasterYSize="1"/>', "unscale"),
    "raster pipeline": ('<VRTDataset rasterXSize="1" rasterYSize="1"/>', "unscale"),
    "vector pipeline": ('{"type":"FeatureCollection","features":[]}', "swap-xy"),
}

LIBRARY = re.compile(r"/\S*/lib(?:gdal|geos|geos_c|proj|spatialite|sqlite3|tiff)\.so\S*")

Entry = dict[str, Any]


def main() -> None:
    gdal.UseExceptions()
    usage = json.loads(run_gdal("--json-usage").stdout)
    algorithms = [algorithm(path) for path in (*leaf_paths(usage), *SHORTCUTS)]
    document = {
        "gdal": gdal.VersionInfo("RELEASE_NAME"),
        "messages": sorted(present_texts(json.loads(sys.argv[1]))),
        "file_systems": sorted({prefix.rstrip("/?") for prefix in gdal.GetFileSystemsPrefixes()}),
        "skipped": sorted(filter(None, (gdal.GetConfigOption("GDAL_SKIP") or "").split(","))),
        "algorithms": algorithms,
        "steps": steps({entry["path"]: entry for entry in algorithms}),
        "drivers": [driver(gdal.GetDriver(number)) for number in range(gdal.GetDriverCount())],
        "warp": option_list(gdal.WarpGetOptionList()),
        "transform": option_list(gdal.GetTranformerOptionList()),
    }
    sys.stdout.write(json.dumps(document, ensure_ascii=False))


def present_texts(texts: list[str]) -> set[str]:
    """The texts that occur in the libraries of GDAL, or in libraries whose messages GDAL passes on."""
    with open("/proc/self/maps", encoding="utf-8") as maps:  # noqa: PTH123
        paths = {match[0] for match in map(LIBRARY.search, maps) if match}
    contents = []
    for path in sorted(paths):
        with open(path, "rb") as library:  # noqa: PTH123
            contents.append(library.read())
    return {text for text in texts if any(text.encode() in content for content in contents)}


def leaf_paths(node: dict[str, Any]) -> Iterator[str]:
    """The paths of all leaf commands of a node except LEFT_OUT, in GDAL's order."""
    for below in node["sub_algorithms"]:
        yield from leaf_paths(below)
    if not node["sub_algorithms"] and (path := " ".join(node["full_path"][1:])) not in LEFT_OUT:
        yield path


@cache
def run_gdal(*words: str) -> subprocess.CompletedProcess[str]:
    """Runs the `gdal` program with these words and ignores its exit code: help exits with 0 or 1."""
    command = ["gdal", *words]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)  # noqa: S603


def instance(path: str) -> Any:
    first, *rest = path.split(" ")
    gdal_algorithm = gdal.GetGlobalAlgorithmRegistry().InstantiateAlg(first)
    for name in rest:
        gdal_algorithm = gdal_algorithm.InstantiateSubAlgorithm(name)
    return gdal_algorithm


def usage_arguments(usage: Entry) -> dict[str, tuple[str, dict[str, Any]]]:
    """The arguments in a JSON usage by name, each with the list it is in: input, output or input_output."""
    return {
        argument["name"]: (place, argument)
        for place in ("input", "output", "input_output")
        for argument in usage.get(f"{place}_arguments", [])
    }


def algorithm(path: str) -> Entry:
    gdal_algorithm = instance(path)
    usage = json.loads(gdal_algorithm.GetUsageAsJSON())
    visible = usage_arguments(usage)
    names = gdal_algorithm.GetArgNames()
    handles = {name: gdal_algorithm.GetArg(name) for name in names}
    hidden: dict[str, list[str]] = {}  # canonical name -> hidden aliases
    for candidate in HIDDEN_ALIASES:
        handle = None if candidate in handles else quietly(gdal_algorithm.GetArg, candidate)
        if handle is not None:
            hidden.setdefault(handle.GetName(), []).append(candidate)
    return {
        "path": path,
        "description": usage["description"],
        "url": usage.get("url", ""),
        "arguments": [
            described(handles[name], *visible.get(name, ("", {})), hidden.get(name, [])) for name in names
        ],
    }


def described(handle: Any, place: str, usage: Entry, hidden: list[str]) -> Entry:
    is_choice = handle.GetChoices() and handle.GetType() == gdal.GAAT_STRING
    added = {
        "place": place,
        "short_name": handle.GetShortName(),
        "aliases": sorted({*(handle.GetAliases() or ()), *hidden}),
        "positional": handle.IsPositional(),
        "hidden": not usage,  # accepted on a command line, but not in the command's usage
        "hidden_choices": [
            choice for choice in HIDDEN_CHOICES if is_choice and quietly(handle.SetAsString, choice)
        ],
    }
    kind = TYPES[handle.GetType()]
    return {"name": handle.GetName(), "type": kind, **without_assumed(usage), **shown(added)}


def without_assumed(usage: Entry) -> Entry:
    return {key: value for key, value in usage.items() if key not in ASSUMED or value != ASSUMED[key]}


def shown(added: dict[str, Any]) -> Entry:
    return {key: value for key, value in added.items() if value is not False and value not in ("", [])}


def quietly(call: Any, text: str) -> Any:
    try:
        return call(text)
    except RuntimeError:
        return None


def steps(leaves: dict[str, Entry]) -> list[Entry]:
    """Every step once, in the order of `gdal pipeline`."""
    pipelines = {
        path: json.loads(instance(path).GetUsageAsJSON())["pipeline_algorithms"] for path in PIPELINES
    }
    usages = {path: {usage["name"]: usage for usage in listed} for path, listed in pipelines.items()}
    # hidden arguments that every algorithm has, and therefore every step
    hidden = [
        {argument["name"] for argument in leaf["arguments"] if "hidden" in argument}
        for leaf in leaves.values()
    ]
    first = next(iter(leaves.values()))
    common = [argument for argument in first["arguments"] if argument["name"] in set.intersection(*hidden)]
    entries: dict[str, tuple[Entry, Entry]] = {}
    for entry in pipelines["pipeline"]:
        # raster or vector according to the step's documentation URL; both if that page covers all pipelines
        named = re.search(r"/gdal_(raster|vector)_", entry["url"])
        both = [kind for kind in KINDS if entry["name"] in usages[f"{kind} pipeline"]]
        for kind in () if entry["name"] == NEVER else [named[1]] if named else both:
            homes = [path for path in (f"{kind} pipeline", "pipeline") if entry["name"] in usages[path]]
            usage = usages[homes[0]][entry["name"]]
            for name in names_of(usage, homes[0]):
                head = {"path": f"{kind} {name}", "name": name, "pipelines": homes}
                entries[head["path"]] = head, usage
    return [step(head, usage, leaves.get(path), common) for path, (head, usage) in entries.items()]


def names_of(usage: Entry, home: str) -> list[str]:
    """The step's name, or the names of its sub-steps if it is a group, which has no arguments."""
    name = usage["name"]
    if usage_arguments(usage):
        return [name]
    return [
        f"{name} {substep}"
        for substep in re.findall(r"^  - ([a-z0-9-]+): ", help_of(name, home), re.MULTILINE)
    ]


def help_of(name: str, home: str) -> str:
    """The help text of a step. GDAL prints that of a sub-step only inside a pipeline."""
    if " " in name:
        return run_gdal(*home.split(" "), "read", "/x", "!", *name.split(" "), "--help").stdout
    _, *blocks = re.split(r"^\* ", run_gdal(*home.split(" "), "--help").stdout, flags=re.MULTILINE)
    return next((block for block in blocks if block.partition(" ")[0] == name), "")


def step(head: Entry, usage: Entry, leaf: Entry | None, common: list[Entry]) -> Entry:
    """The entry of a step. Arguments equal to those of `leaf`, the algorithm of the same path, are only named."""
    known = {argument["name"]: argument for argument in leaf["arguments"]} if leaf else {}
    current = step_arguments(head, usage, known)
    kind, name = head["path"].split(" ", 1)
    where = places(name.split(" ")[0], head["pipelines"][0])
    about = leaf if leaf and " " in name else usage  # for a sub-step, `usage` is that of its group
    texts = {"description": about["description"], "url": about.get("url", ""), "places": where}
    hidden = [argument["name"] for argument in known.values() if "hidden" in argument] if leaf else common
    arguments = [
        argument["name"] if argument == known.get(argument["name"]) else argument for argument in current
    ]
    # kinds of data received from the previous step and passed to the next; empty if there is none
    of_one_kind = [
        argument for argument in known.values() or current if len(argument.get("dataset_type", ())) == 1
    ]
    kinds = {argument["name"]: argument["dataset_type"][0] for argument in of_one_kind}
    takes = "" if where == ["first"] else kinds.get("input", kind)
    gives = "" if where == ["last"] else kinds.get("output", kind)
    return {**head, **texts, "takes": takes, "gives": gives, "arguments": [*hidden, *arguments]}


def step_arguments(head: Entry, usage: Entry, known: dict[str, Entry]) -> list[Entry]:
    """The visible arguments of a step, in the order of the algorithm's arguments; others come last.

    So positional arguments keep their order.
    """
    visible = usage_arguments(usage)
    how = written(help_of(head["name"], head["pipelines"][0]))
    if not visible:  # a sub-step of a group
        return [in_step(known[name], known[name], how[name]) for name in known if name in how]
    order = [*(name for name in known if name in visible), *(name for name in visible if name not in known)]
    facts = {
        name: {**without_assumed(argument), "place": place} for name, (place, argument) in visible.items()
    }
    return [in_step(facts[name], known.get(name, {}), how.get(name)) for name in order]


def in_step(facts: Entry, leaf: Entry, how: Entry | None) -> Entry:
    """The entry of an argument in a step.

    A few arguments are spelled differently in a step than in its algorithm. If no help text shows the spelling (`how`
    is None), that of the algorithm is used.
    """
    if how is None:
        return {**facts, **{key: leaf[key] for key in HOW if key in leaf}}
    names = {"aliases": sorted({*leaf.get("aliases", ()), *how.get("aliases", ())})}
    bare = {key: value for key, value in facts.items() if key not in HOW}
    return {**bare, **how, **shown(names), **{key: leaf[key] for key in ("hidden_choices",) if key in leaf}}


def places(name: str, home: str) -> list[str]:
    """The permitted positions of a step, from GDAL's error messages about invalid pipelines."""
    dataset, step_name = ENDLESS[home]
    first = objection(home, ["write", "/x", "!", "write", "/x"])
    last = run_gdal(*home.split(" "), "read", dataset, "!", step_name).stderr
    middle = objection(home, ["read", "/x", "!", name, "!", "write", "/x"])
    if "First step should be" not in first or "Last step should be" not in last:
        raise RuntimeError(
            f"gdal {home} does not say which steps may stand first and last: {first!r} {last!r}"
        )
    may = (f"'{name}'" in first, "step can be" not in middle, f"'{name}'" in last)
    return [place for place, yes in zip(PLACES, may, strict=True) if yes]


def objection(home: str, words: list[str]) -> str:
    try:
        instance(home).ParseCommandLineArguments(words)
    except RuntimeError as error:
        return str(error)
    return ""


def written(help_text: str) -> dict[str, Entry]:
    """The spelling of each argument in a help text, without the options that all commands share."""
    options: dict[str, Entry] = {}
    section = ""
    for line in help_text.splitlines():
        if title := SECTION.fullmatch(line):
            section = title[1]
        elif (option := OPTION.match(line)) and section != COMMON:
            *others, name = option[1].split(", ")
            entry = {
                "short_name": "".join(spelling[1:] for spelling in others if not spelling.startswith("--")),
                "aliases": sorted(spelling[2:] for spelling in others if spelling.startswith("--")),
                "positional": section == POSITIONAL,
            }
            options[name[2:]] = shown(entry)
    return options


def driver(gdal_driver: Any) -> Entry:
    metadata = gdal_driver.GetMetadata()
    entry = {
        "name": gdal_driver.ShortName,
        "long_name": shortened(gdal_driver.LongName),
        "extensions": metadata.get("DMD_EXTENSIONS", metadata.get("DMD_EXTENSION", "")).lower().split(),
        "capabilities": [name for name, key in CAPABILITIES.items() if metadata.get(key) == "YES"],
        "prefix": metadata.get("DMD_CONNECTION_PREFIX", ""),
    }
    for scope, key in OPTION_LISTS.items():
        entry[scope] = option_list(gdal_driver.GetMetadataItem(key))
    return {key: value for key, value in entry.items() if value}


def option_list(text: str | None) -> list[dict[str, Any]]:
    nodes = ET.fromstring(text) if text else ()  # noqa: S314
    return [option(node) for node in nodes if node.tag == "Option"]


def option(node: Any) -> Entry:
    attributes = dict(node.attrib)
    attributes["description"] = shortened(attributes.get("description", ""))
    values = [value for value in node if value.tag == "Value"]
    attributes["choices"] = [(value.text or "").strip() for value in values]
    attributes["choice_aliases"] = sorted(
        {value.attrib[key] for value in values for key in ("alias", "aliasOf") if key in value.attrib}
    )
    return {key: value for key, value in attributes.items() if value not in ("", [])}


def shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= DESCRIPTION_LETTERS else line[: DESCRIPTION_LETTERS - 1].rstrip() + "…"


if __name__ == "__main__":
    main()
