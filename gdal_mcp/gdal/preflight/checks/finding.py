"""What a check found."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found: a code that stays the same between versions, what is wrong and why, what to do instead."""

    code: str
    message: str
    suggestion: str
    mend: Mapping[str, Any] | None = None  # the call that corrects it, as `{"tool": ..., "arguments": ...}`

    def as_dict(self) -> dict[str, Any]:
        """Without a mend where there is none."""
        return {key: value for key, value in asdict(self).items() if value is not None}
