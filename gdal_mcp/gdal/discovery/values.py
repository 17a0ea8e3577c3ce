"""The kinds of values that prompts ask for and GDAL knows: how one is checked, and which there are. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from gdal_mcp.gdal.catalogue.crs import check_crs
from gdal_mcp.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.gdal.catalogue.formats import output_format
from gdal_mcp.gdal.catalogue.load import packaged
from gdal_mcp.gdal.discovery import read

_UTM_ZONES: Final = range(1, 61)


@dataclass(frozen=True, slots=True)
class ValueKind:
    """`check` returns a value as it is passed on, or raises ArgumentRefused; `propose` has values for what is typed so far."""

    check: Callable[[str], str]
    propose: Callable[[str], Iterable[str]]


def crs_codes(typed: str) -> Iterator[str]:
    """Codes that begin as typed, with or without the authority; then those whose names hold every typed word."""
    plain = typed.strip().lower()
    table = _crs_table()
    first = [
        code for code in table if code.lower().startswith(plain) or code.partition(":")[2].startswith(plain)
    ]
    yield from first
    if plain:
        words = plain.split()
        named = (code for code, name in table.items() if all(word in name for word in words))
        yield from (code for code in named if code not in first)


@lru_cache(maxsize=1)
def _crs_table() -> Mapping[str, str]:
    """Codes with their names in lower case, the most common first."""
    table = {code: name.lower() for code, name in read("crs.toml")["codes"].items()}
    north = {f"EPSG:{32600 + zone}": f"wgs 84 utm zone {zone}n {zone} north" for zone in _UTM_ZONES}
    south = {f"EPSG:{32700 + zone}": f"wgs 84 utm zone {zone}s {zone} south" for zone in _UTM_ZONES}
    return MappingProxyType({**table, **north, **south})


def _drivers(typed: str) -> Iterator[str]:
    """Formats that can be written."""
    writable = (one.name for one in packaged().drivers if one.writes(None))
    return beginning((name for name in writable if name.lower() not in packaged().unwritten), typed)


def _resampling(text: str) -> str:
    known = ("auto", *_choices("resampling"))
    if text.lower() not in known:
        raise ArgumentRefused(f"it is one of {', '.join(known)}")
    return text.lower()


@lru_cache(maxsize=8)
def _choices(name: str) -> tuple[str, ...]:
    """All choices of the arguments of one name, in the order of the first that lists them."""
    found = (
        choice
        for algorithm in packaged().algorithms.values()
        for argument in algorithm.arguments
        if argument.name == name
        for choice in argument.choices
    )
    return tuple(dict.fromkeys(found))


def statistics() -> tuple[str, ...]:
    """What zonal statistics can compute."""
    return _choices("stat")


def beginning(values: Iterable[str], typed: str) -> Iterator[str]:
    plain = typed.lower()
    return (value for value in values if value.lower().startswith(plain))


KINDS: Final[Mapping[str, ValueKind]] = MappingProxyType(
    {
        "crs": ValueKind(check_crs, crs_codes),
        "driver": ValueKind(lambda text: output_format(packaged(), text, None), _drivers),
        "resampling": ValueKind(
            _resampling, lambda typed: beginning(("auto", *_choices("resampling")), typed)
        ),
    }
)
