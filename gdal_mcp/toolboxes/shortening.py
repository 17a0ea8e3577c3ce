"""Formats results as JSON, and shortens them by items of a list and characters of a text. Pure."""

import json
from itertools import islice
from typing import Any, Final

# items of a list or object, characters of a text; each step about halves the result
STEPS: Final = ((4000, 20_000), (2000, 10_000), (1000, 5000), (500, 2000), (250, 1000), (120, 500), (60, 400),
                 (30, 300), (15, 200), (8, 150), (4, 100), (2, 80), (1, 60), (0, 40))  # fmt: skip


def json_text(value: Any) -> str:
    """The JSON text of a result: compact, and not escaped to ASCII."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def truncate(value: Any, step: tuple[int, int]) -> Any:
    """Cuts each list and object to the step's number of items, and each text to its number of characters.

    A mark is left where something was cut.
    """
    items, characters = step
    if isinstance(value, str):
        short = value[:characters]
        return value if short == value else f"{short} [truncated: {characters} of {len(value)} characters]"
    if isinstance(value, list):
        rows = [truncate(item, step) for item in value[:items]]
        return rows if len(value) <= items else [*rows, truncation(items, len(value))]
    if isinstance(value, dict):
        some = {key: truncate(item, step) for key, item in islice(value.items(), items)}
        return some if len(value) <= items else {**some, **truncation(items, len(value))}
    return value


def truncation(shown: int, of: int) -> dict[str, Any]:
    return {"truncated": {"kept": shown, "of": of}}
