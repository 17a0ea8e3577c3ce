"""The seam for what judges drafts before they run, and says what is odd about them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from gdal_mcp.plan import Draft
from sandbox.template import Limits
from sandbox.workspace import WorkspacePath


class Finding(Protocol):
    """Something odd about a call, which does not keep it from running."""

    def as_dict(self) -> dict[str, Any]:
        """With a code, a message and a suggestion."""


class Report(Protocol):
    """What can be told of a draft before it runs."""

    @property
    def figures(self) -> Mapping[str, int | None] | None:
        """Expected output bytes and files, memory in bytes, seconds; None where nothing can be said."""

    @property
    def findings(self) -> Sequence[Finding]:
        """What is odd about the draft."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """What the call's result says besides."""

    @property
    def untrusted(self) -> Mapping[str, Any]:
        """Texts that go with the facts."""


@dataclass(frozen=True, slots=True)
class NoReport:
    figures: Mapping[str, int | None] | None = None
    findings: tuple[Finding, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    untrusted: Mapping[str, Any] = field(default_factory=dict)


class Preflight(Protocol):
    """Judges drafts by what containers said of their inputs, here not at all. For several threads."""

    def within(self, _limits: Limits, /) -> "Preflight":
        """The same knowledge under other limits."""
        return self

    def check(self, _draft: Draft, /) -> Report:
        """By what is known already. Raises ToolError for a call that is certain to break a limit."""
        return NoReport()

    def check_described(self, _draft: Draft, _value: Mapping[str, Any], /) -> Report:
        """As `check`, by what the worker said of the inputs before it began to work."""
        return NoReport()

    def description(self, _draft: Draft, /) -> Draft | None:
        """A call that describes the inputs that are not known yet; None where there is none."""
        return None

    def describing(self, _drafts: Sequence[Draft], _inputs: Iterable[WorkspacePath], /) -> Draft | None:
        """As `description`, in one call for several drafts that work on these inputs or on what is made of them."""
        return None

    def described(self, _places: Sequence[WorkspacePath], _rows: object, /) -> None:
        """Keeps what such a call said of those files, which may be anything."""
        return

    def learn(self, _located: WorkspacePath, _facts: Mapping[str, Any], /) -> None:
        """Keeps what a container said of a file that it wrote."""
        return

    def size_of(self, _located: WorkspacePath, /) -> int:
        """Bytes of remote data; 0 where no container has said so."""
        return 0

    def kind_of(self, _located: WorkspacePath, /) -> str:
        """What a file is, such as `GTiff, 1024 x 768, 3 bands`; "" where no container has said so."""
        return ""

    def predicted(self, _draft: Draft, /) -> Any:
        """What the first output of a call would be, for `assume`; None where that is not known."""
        return None

    def assume(self, _located: WorkspacePath, _facts: Any, /) -> None:
        """Takes predicted facts for those of a file that does not exist yet, and for which an empty one stands."""
        return

    def unknown(self, draft: Draft, /) -> tuple[WorkspacePath, ...]:
        """The inputs that no container has described."""
        return draft.inputs

    def becomes(self, _draft: Draft, /) -> str:
        """The same of what a call would make; "" where that is not known before it runs."""
        return ""


class NoPreflight(Preflight):
    """Of a toolbox that judges nothing before it runs."""
