"""What a check found."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found: a code that stays the same between versions, what is wrong and why, what to do instead."""

    code: str
    message: str
    suggestion: str
    refuses: bool = False  # the result would be wrong, so the call is not made
    change: Mapping[str, tuple[str, ...]] | None = None  # arguments with which the same call would be right
    instead: str = ""  # the algorithm that takes these, if not that of the call
    steps: Sequence[Mapping[str, Any]] = ()  # of a pipeline from its input to its output that would be
    mend: Mapping[str, Any] | None = None  # that call, as `{"tool": ..., "arguments": ...}`
    numbers: Mapping[str, float | None] = field(default_factory=dict)  # beside the text, for programs

    def as_dict(self) -> dict[str, Any]:
        """Without what does not apply."""
        said = {key: value for key, value in asdict(self).items() if value not in (None, False, "")}
        for own in ("change", "instead", "steps"):
            said.pop(own, None)
        numbers: dict[str, Any] = said.pop("numbers")
        return {**said, **numbers}

    def brief(self) -> dict[str, Any]:
        """Without the texts, for an error that has them itself."""
        return {key: one for key, one in self.as_dict().items() if key not in ("message", "suggestion")}
