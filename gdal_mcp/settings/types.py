"""Types of settings, and how they are parsed from text."""

import os
import re
from functools import partial
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_settings import NoDecode

DAY: Final = 86_400.0  # seconds
_UNITS = {"b": 1, **{f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", 1)}}
_UNITS |= {f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)}
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?) ?([a-z]*)", re.ASCII | re.IGNORECASE)


def parse_size(value: object, least: int = 0, most: int | None = None) -> int:
    """Bytes from a whole number or a text such as `512MiB`, `2GB` or `1.5 GiB`. Raises ValueError, also outside the bounds."""
    number = value if isinstance(value, int) and not isinstance(value, bool) else _bytes(value)
    if number < least:
        raise ValueError(f"it must be at least {size_text(least)}; a number without a unit is in bytes")
    if most is not None and number > most:
        raise ValueError(f"it must be at most {size_text(most)}")
    return number


def _bytes(value: object) -> int:
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    factor = _UNITS.get(match[2].lower() or "b") if match else None
    if match is None or factor is None or (factor == 1 and "." in match[1]):
        # "2G" is refused: half of the tools in use read it as 2 GB and half as 2 GiB.
        raise ValueError("a size is a number of bytes or looks like 512MiB, 2GiB or 2GB")
    return int(float(match[1]) * factor) if "." in match[1] else int(match[1]) * factor


def as_typed(value: object) -> Path:
    """An absolute path; symlinks are kept. Raises ValueError."""
    if not isinstance(value, str | Path) or not str(value) or "\0" in str(value):
        raise ValueError("a path must be text that is not empty")
    if re.match(r"[A-Za-z]:[\\/]", str(value)):
        raise ValueError(
            "it is a Windows path, and this program does not run on Windows. In WSL, C:\\maps is /mnt/c/maps. In a container, use the path "
            "in the container: /maps for docker run -v C:\\maps:/maps"
        )
    return Path(os.path.abspath(os.path.expanduser(value)))  # noqa: PTH100, PTH111 - keep symlinks as typed


def split_names(value: object) -> object:
    """Names from a list, or from one text with commas."""
    return (
        tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value
    )


def size_text(number: int) -> str:
    """A size in the largest unit that shows it exactly, as `parse_size` reads it."""
    power = next(power for power in (4, 3, 2, 1, 0) if number % 1024**power == 0) if number else 0
    return f"{number // 1024**power}{('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"


def size(least: int = 0, most: int | None = None) -> BeforeValidator:
    """The mark of a setting that is a size in bytes with these bounds. Not `Field(ge=...)`, whose errors have no units."""
    return BeforeValidator(partial(parse_size, least=least, most=most))


Size = Annotated[int, size()]
# bytes of one call: what runc needs to start a container (`sandbox/engines/oci/runtime.py`), and GDAL 3.13 with it
LEAST_MEMORY = 128 << 20
Place = Annotated[Path, BeforeValidator(as_typed)]
Resolved = Annotated[Place, AfterValidator(lambda place: place.resolve())]  # with its links resolved
Places = Annotated[
    tuple[Place, ...],
    NoDecode,
    # an empty entry would be the current folder, as in PATH; nobody means that
    BeforeValidator(
        lambda value: list(filter(None, value.split(os.pathsep))) if isinstance(value, str) else value
    ),
]
Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(split_names)]
Lacks = Annotated[tuple[Literal["landlock", "pids-limit"], ...], NoDecode, BeforeValidator(split_names)]
Ways = Annotated[
    tuple[Literal["elicitation", "console", "terminal"], ...],
    Field(min_length=1),
    NoDecode,
    BeforeValidator(split_names),
]
