"""Runs inside a GDAL container and prints, as one JSON document, what that GDAL can be told.

Standard library and osgeo only; reads nothing but its arguments, writes nothing but stdout.
Arguments: the algorithms to describe, as a JSON list such as `["raster convert", "info"]`.
"""

import json
import sys
import xml.etree.ElementTree as ET
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

# GDAL answers to more names than it lists; the bindings can only be asked name by name.
HIDDEN_ALIASES = (
    "a_srs", "b", "crs", "dst-crs", "dst-nodata", "dstalpha", "dstnodata", "extent", "layer", "nln", "nlt",
    "ot", "output-type", "s_srs", "skip", "skipfailures", "src-crs", "src-nodata", "srcnodata", "t_srs", "tap",
    "te", "te_srs", "tr", "ts", "where",
)  # fmt: skip
HIDDEN_CHOICES = ("near",)

# What `--json-usage` says of nearly every argument; left out of the data, assumed by its reader.
ASSUMED = {
    "required": False,
    "repeated_arg_allowed": True,
    "min_count": 0,
    "max_count": 2147483647,
    "available_in_pipeline_step": False,
}


def main() -> None:
    gdal.UseExceptions()
    document = {
        "gdal": gdal.VersionInfo("RELEASE_NAME"),
        "skipped": sorted(filter(None, (gdal.GetConfigOption("GDAL_SKIP") or "").split(","))),
        "algorithms": [algorithm(path) for path in json.loads(sys.argv[1])],
        "drivers": [driver(gdal.GetDriver(number)) for number in range(gdal.GetDriverCount())],
        "warp": option_list(gdal.WarpGetOptionList()),
        "transform": option_list(gdal.GetTranformerOptionList()),
    }
    sys.stdout.write(json.dumps(document, ensure_ascii=False))


def algorithm(path: str) -> dict[str, Any]:
    first, *rest = path.split(" ")
    found = gdal.GetGlobalAlgorithmRegistry().InstantiateAlg(first)
    for name in rest:
        found = found.InstantiateSubAlgorithm(name)
    usage = json.loads(found.GetUsageAsJSON())
    said = {
        argument["name"]: (place, argument)
        for place in ("input", "output", "input_output")
        for argument in usage.get(f"{place}_arguments", [])
    }
    names = found.GetArgNames()
    handles = {name: found.GetArg(name) for name in names}
    hidden = hidden_aliases(found, names)
    return {
        "path": path,
        "description": usage["description"],
        "url": usage.get("url", ""),
        "arguments": [described(handles[name], *said.get(name, ("", {})), hidden) for name in names],
    }


def described(handle: Any, place: str, usage: dict[str, Any], hidden: dict[str, list[str]]) -> dict[str, Any]:
    name = handle.GetName()
    kept = {key: value for key, value in usage.items() if key not in ASSUMED or value != ASSUMED[key]}
    added = {
        "place": place,
        "short_name": handle.GetShortName(),
        "aliases": sorted({*(handle.GetAliases() or ()), *hidden.get(name, ())}),
        "positional": handle.IsPositional(),
        "hidden": not usage,  # accepted on a command line, though no description of the command shows it
        "hidden_choices": hidden_choices(handle),
    }
    shown = {key: value for key, value in added.items() if not is_blank(value)}
    return {"name": name, "type": gdal_type(handle), **kept, **shown}


def is_blank(value: Any) -> bool:
    return value is False or value in ("", [])


def gdal_type(handle: Any) -> str:
    kinds = ("boolean", "string", "integer", "real", "dataset")
    lists = ("string_list", "integer_list", "real_list", "dataset_list")
    return (*kinds, *lists)[handle.GetType()]


def hidden_aliases(found: Any, names: list[str]) -> dict[str, list[str]]:
    shown = set(names)
    aliases: dict[str, list[str]] = {}
    for candidate in HIDDEN_ALIASES:
        handle = None if candidate in shown else quietly(found.GetArg, candidate)
        if handle is not None:
            aliases.setdefault(handle.GetName(), []).append(candidate)
    return aliases


def hidden_choices(handle: Any) -> list[str]:
    if not handle.GetChoices() or handle.GetType() != gdal.GAAT_STRING:
        return []
    return [choice for choice in HIDDEN_CHOICES if quietly(handle.SetAsString, choice)]


def quietly(call: Any, text: str) -> Any:
    try:
        return call(text)
    except RuntimeError:
        return None


def driver(found: Any) -> dict[str, Any]:
    metadata = found.GetMetadata()
    entry = {
        "name": found.ShortName,
        "long_name": shortened(found.LongName),
        "extensions": metadata.get("DMD_EXTENSIONS", metadata.get("DMD_EXTENSION", "")).lower().split(),
        "capabilities": [name for name, key in CAPABILITIES.items() if metadata.get(key) == "YES"],
        "prefix": metadata.get("DMD_CONNECTION_PREFIX", ""),
    }
    for scope, key in OPTION_LISTS.items():
        entry[scope] = option_list(found.GetMetadataItem(key))
    return {key: value for key, value in entry.items() if value}


def option_list(text: str | None) -> list[dict[str, Any]]:
    if not text:
        return []
    return [option(node) for node in ET.fromstring(text) if node.tag == "Option"]  # noqa: S314


def option(node: Any) -> dict[str, Any]:
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
