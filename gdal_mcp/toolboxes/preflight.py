"""The interface for judging drafts before they run."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from gdal_mcp.plan import Draft
from sandbox.template import Limits
from sandbox.workspace import WorkspacePath


class CallWarning(Protocol):
    """A warning about a call, which does not stop it."""

    def as_dict(self) -> dict[str, Any]:
        """The code, the message and the suggestion."""


@dataclass(frozen=True, slots=True)
class Report:
    """The results of judging a draft before it runs. The defaults are those without checks."""

    # expected bytes and number of files of the output; None if unknown
    figures: Mapping[str, int | None] | None = None
    findings: Sequence[CallWarning] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)  # for the call's result
    untrusted: Mapping[str, Any] = field(default_factory=dict)  # texts that belong to the facts


class Preflight(Protocol):
    """Judges drafts by the facts that containers reported about their inputs.

    The default methods are for a toolbox without such facts. Safe to use from several threads.
    """

    def within(self, _limits: Limits, /) -> "Preflight":
        """A Preflight with the same facts and other limits."""
        return self

    def check(self, _draft: Draft, /, *, described: bool = False) -> Report:  # noqa: ARG002
        """Checks a draft by facts that are already known. Raises ToolError for a call that is certain to break a
        limit.

        With `described`, a container has been asked for the facts, so facts that are missing are reported as unknown.
        """
        return Report()

    def check_described(self, _draft: Draft, _value: Mapping[str, Any], /) -> Report:
        """Checks a draft by the facts that the worker reported about the inputs before it began to work."""
        return Report()

    def description(self, _draft: Draft, /) -> Draft | None:
        """A call that describes the draft's inputs that are not known yet; None if there are none."""
        return None

    def describing(self, _drafts: Sequence[Draft], _inputs: Iterable[WorkspacePath], /) -> Draft | None:
        """One call like that of `description`, for several drafts that use these inputs or files made from them."""
        return None

    def described(self, _places: Sequence[WorkspacePath], _rows: object, /) -> None:
        """Stores the descriptions that such a call returned, which are untrusted."""
        return

    def learn(self, _located: WorkspacePath, _facts: Mapping[str, Any], _predicted: Any = None, /) -> None:
        """Stores what a container reported about a file that it wrote. `predicted` fills in what the report lacks."""
        return

    def size_of(self, _located: WorkspacePath, /) -> int:
        """Bytes of remote data; 0 if no container has reported them."""
        return 0

    def kind_of(self, _located: WorkspacePath, /) -> str:
        """A description of a file, such as `GTiff, 1024 x 768, 3 bands`; "" if no container has reported it."""
        return ""

    def predicted(self, _draft: Draft, /) -> Any:
        """The predicted facts of a call's first output, for `assume`; None if unknown."""
        return None

    def assume(self, _located: WorkspacePath, _facts: Any, /) -> None:
        """Sets the predicted facts of a file that does not exist yet and that an empty file represents."""
        return

    def contradictions(self, _predicted: Any, _facts: Mapping[str, Any], /) -> Mapping[str, tuple[str, str]]:
        """The predicted facts that a container's report on the file contradicts, by name.

        Each value is the predicted and the actual fact.
        """
        return {}

    def gaps(self, _draft: Draft, _located: WorkspacePath, /) -> tuple[str, ...]:
        """The facts about an input that the checks need and its prediction lacks, as nouns."""
        return ()

    def unknown(self, draft: Draft, /) -> tuple[WorkspacePath, ...]:
        """The inputs that no container has described."""
        return draft.inputs

    def names_others(self, _located: WorkspacePath, /) -> bool:
        """True if a file may name files elsewhere that calls on it read too, so that its content does not decide their results."""
        return False

    def becomes(self, _draft: Draft, /) -> str:
        """The description of what a call would write; "" if it is not known before the call runs."""
        return ""


class NoPreflight(Preflight):
    """The Preflight of a toolbox without checks before a call."""
