"""What an algorithm does to the workspace, from the roles of its arguments. Pure."""

from dataclasses import dataclass
from typing import Any, Final, Literal

from gdal_mcp.gdal.catalogue.model import Algorithm, Role
from gdal_mcp.gdal.discovery import read

_SYNC: Final = "vsi sync"  # moves nothing, but may replace a whole folder


@dataclass(frozen=True, slots=True)
class Effects:
    """The most that a call can do. `creates` is "optional" where the result can be returned instead of written."""

    creates: Literal["no", "optional", "always"]
    replaces: bool  # may take the place of an existing output, which is kept for undo
    updates: bool  # changes a dataset or a folder in place
    removes: bool
    always_asked: bool  # a person says yes to each call, whatever the server's setting
    sql: tuple[str, ...]  # arguments that hold a statement, which a server with --no-sql refuses

    @property
    def writes(self) -> bool:
        return self.creates != "no" or self.updates or self.removes

    def as_dict(self) -> dict[str, Any]:
        """As a client sees it. Everything reads."""
        approval = "always" if self.always_asked else "as the server is set" if self.writes else "no"
        return {
            "reads": True,
            "creates": self.creates,
            "replaces": self.replaces,
            "updates": self.updates,
            "removes": self.removes,
            "needs_approval": approval,
            "sql": list(self.sql),
        }


def effects(algorithm: Algorithm) -> Effects:
    """What the roles of its arguments say, and what only data/effects.toml knows."""
    usable = [one for one in algorithm.arguments if not one.hidden and one.role is not Role.FORBIDDEN]
    outputs = [one for one in usable if one.role is Role.OUTPUT]
    known = read("effects.toml")
    removes = algorithm.path in known["removes"]
    in_place = any(one.role is Role.UPDATE for one in usable) or algorithm.path in known["updates"]
    creates: Literal["no", "optional", "always"] = "optional" if outputs else "no"
    return Effects(
        creates="always" if any(one.required for one in outputs) else creates,
        replaces=bool(outputs) and any(one.rule.mode == "replace" for one in algorithm.arguments),
        updates=in_place and not removes,
        removes=removes,
        always_asked=removes or algorithm.path == _SYNC,
        # a condition such as `where` is no statement
        sql=tuple(one.name for one in usable if one.role is Role.EXPRESSION and one.rule.check == "sql"),
    )
