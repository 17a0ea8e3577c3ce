"""What an algorithm does to the workspace, from the roles of its arguments. Pure."""

from typing import Any, Final

from gdal_mcp.gdal.catalogue.model import Algorithm, Role
from gdal_mcp.gdal.discovery import read

_SYNC: Final = "vsi sync"  # moves nothing, but may replace a whole folder


def effects(algorithm: Algorithm) -> dict[str, Any]:
    """The most that a call can do, as a client sees it: what its roles say, and what only data/effects.toml knows.

    `creates` is "optional" where the result can be returned instead of written; `replaces` may take the place of an existing output,
    which is kept for undo; `updates` changes a dataset or a folder in place; `sql` has the arguments that hold a statement, which a
    server with --no-sql refuses. Everything reads.
    """
    usable = [one for one in algorithm.arguments if not one.hidden and one.role is not Role.FORBIDDEN]
    outputs = [one for one in usable if one.role is Role.OUTPUT]
    known = read("effects.toml")
    removes = algorithm.path in known["removes"]
    in_place = any(one.role is Role.UPDATE for one in usable) or algorithm.path in known["updates"]
    always_asked = removes or algorithm.path == _SYNC
    return {
        "reads": True,
        "creates": "always" if any(one.required for one in outputs) else "optional" if outputs else "no",
        "replaces": bool(outputs) and any(one.rule.mode == "replace" for one in algorithm.arguments),
        "updates": in_place and not removes,
        "removes": removes,
        "needs_approval": "always"
        if always_asked
        else "as the server is set"
        if outputs or in_place
        else "no",
        # a condition such as `where` is no statement
        "sql": [one.name for one in usable if one.role is Role.EXPRESSION and one.rule.check == "sql"],
    }
