"""Runs a plan: staging, the container, publication. Blocking; called in a thread."""

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.hosting import Host, Hosting
from gdal_mcp.plan import Output, Plan
from gdal_mcp.settings import Settings
from gdal_mcp.translation import explain, judge, reported, stderr_of
from gdal_mcp.untrusted import clean_text, clean_value
from sandbox.cancel import Cancellation
from sandbox.errors import EngineUnavailable, ImageMissing, SandboxError, StagingFailed
from sandbox.outcome import SandboxResult, Usage
from sandbox.publication import Publication, Published
from sandbox.runner import Job
from sandbox.staging import Staging, StagingArea
from sandbox.template import STAGING_TARGET
from sandbox.workspace import Located, open_folder

MAX_PREVIEW = 4 << 20  # bytes; a photograph of 1024 x 1024 pixels stays below that as PNG
_PNG = b"\x89PNG\r\n\x1a\n"
_MAX_WARNINGS = 20


@dataclass(frozen=True, slots=True)
class Done:
    """A call that succeeded. Everything textual in it is cleaned."""

    usage: Usage
    printed: str
    parsed: Any
    stderr: str
    description: Mapping[str, Any]
    warnings: tuple[str, ...]
    gdal_version: str
    published: Published | None = None
    preview: bytes | None = None


@dataclass(frozen=True, slots=True)
class Execution:
    """Runs plans on the host that the hosting found."""

    settings: Settings
    hosting: Hosting
    areas: Mapping[Path, StagingArea] = field(default_factory=dict)  # by workspace root

    def run(
        self,
        plan: Plan,
        host: Host,
        on_progress: Callable[[float, str], None],
        lap: Callable[[str, float], None],
        cancel: Cancellation,
    ) -> Done | ToolError:
        """What became of the plan. Never raises for what a job, the engine or a file did."""
        stage = Stage.RUN
        try:
            with self._staging(plan) as staging:
                result = self._launch(plan, host, staging, on_progress, cancel)
                lap("run", time.monotonic() - result.usage.run_seconds)
                if failure := judge(result, writes=staging is not None):
                    return self._with_places(failure, plan)
                done = self._done(plan, result)
                if staging is None:
                    return done
                stage = Stage.PUBLISH
                begun = time.monotonic()
                done = replace(done, published=self._publish(plan, staging))
                lap("publish", begun)
                return done
        except SandboxError as error:
            if isinstance(error, EngineUnavailable | ImageMissing):
                self.hosting.lost()
            return explain(error, stage)
        except ToolError as error:
            return error

    def _staging(self, plan: Plan) -> AbstractContextManager[Staging | None]:
        output = plan.draft.output
        if output is None:
            return nullcontext()
        if output.server_named:
            _make_outputs_folder(output.target)
        return self.areas[output.target.workspace.root].open(plan.call_id, self.hosting.user())

    def _launch(
        self,
        plan: Plan,
        host: Host,
        staging: Staging | None,
        on_progress: Callable[[float, str], None],
        cancel: Cancellation,
    ) -> SandboxResult:
        output = plan.draft.output
        if staging is not None and output is not None and output.update:
            for located in (*output.replaces, *output.shared):
                staging.copy_in(located, located.name, plan.limits)
        template = self.hosting.template(host.image, staging.mount_source if staging else None)
        job = Job(plan.call_id, template, self._request(plan), staging, on_progress)
        return host.runner.run(job, cancel)

    def _request(self, plan: Plan) -> Mapping[str, Any]:
        command, output = plan.draft.command, plan.draft.output
        return {
            "program": command.program,
            "argv": command.argv,
            "options": command.options,
            "inputs": command.inputs,
            "output": command.output,
            "as_array": command.as_array,
            "outputs": [{"path": output.inside, "kind": output.kind}] if output else [],
            "preview_pixels": self.settings.preview_pixels if self.settings.preview else 0,
        }

    def _publish(self, plan: Plan, staging: Staging) -> Published:
        """Everything the command left in staging that belongs to the output; anything else is a refusal."""
        output = plan.draft.output
        assert output is not None
        staged = staging.collect(plan.limits)
        known = {located.name: located for located in (*output.replaces, *output.shared)}
        folder = output.target.relative.parent
        for entry in staged:
            if not _belongs(entry.name, output):
                raise _rejected(entry.name, "the command wrote a file that does not belong to the output")
            if entry.name not in known and os.path.lexists(output.target.path.parent / entry.name):
                raise _rejected(
                    entry.name, "a file of the output would replace one that is no part of the old output"
                )
        publications = tuple(
            Publication(one.name, known.get(one.name) or Located(output.target.workspace, folder / one.name))
            for one in staged
        )
        return staging.publish(plan.call_id, publications, removes=output.replaces)

    def _done(self, plan: Plan, result: SandboxResult) -> Done:
        """What the container said, which may be anything, as what a caller is told."""
        final = result.final or {}
        printed = result.stdout.decode("utf-8", "replace")
        return Done(
            usage=result.usage,
            printed=clean_text(printed, len(printed)),
            parsed=_parse(printed) if plan.draft.wants_json else None,
            stderr=self._placed(str(stderr_of(result).get("stderr", "")), plan),
            description=_described(final),
            warnings=tuple(self._placed(text, plan) for _, text in reported(final)[:_MAX_WARNINGS]),
            gdal_version=clean_text(str(final.get("gdal_version", "")), 40),
            preview=_picture(result.attachments.get("preview.png", b"")),
        )

    @staticmethod
    def _placed(text: str, plan: Plan) -> str:
        """GDAL names the output by its place in the container; the caller knows it by its own."""
        output = plan.draft.output
        if output is None:
            return text
        return text.replace(str(STAGING_TARGET) + "/", str(output.target.path.parent) + os.sep)

    def _with_places(self, failure: ToolError, plan: Plan) -> ToolError:
        def placed(value: Any) -> Any:
            return (
                [placed(item) for item in value]
                if isinstance(value, list)
                else self._placed(str(value), plan)
            )

        untrusted = {key: placed(value) for key, value in failure.untrusted.items()}
        return ToolError(failure.code, failure.stage, failure.message, failure.suggestion, untrusted)


def _make_outputs_folder(target: Located) -> None:
    """The folder for outputs that nobody named, owned as the workspace is."""
    with open_folder(target.workspace, PurePosixPath()) as root:
        name = str(target.relative.parent)
        try:
            os.mkdir(name, 0o755, dir_fd=root)
        except FileExistsError:
            return
        except OSError as error:
            raise StagingFailed(
                f"the folder {name} could not be made in {target.workspace.root}: {error.strerror}."
            ) from error
        if os.geteuid() == 0:
            owner = os.fstat(root)
            os.chown(name, owner.st_uid, owner.st_gid, dir_fd=root, follow_symlinks=False)


def _belongs(name: str, output: Output) -> bool:
    """The output itself or a companion of the same stem, such as `dem.hdr` or `dem.tif.aux.xml`."""
    target = output.target.name
    stem = target.rsplit(".", 1)[0]
    return name == target or name.startswith((f"{target}.", f"{stem}."))


def _rejected(name: str, why: str) -> ToolError:
    return ToolError(
        Code.OUTPUT_REJECTED,
        Stage.PUBLISH,
        f"{why}, so nothing was published.",
        "Choose another name for the output; that of the file is under `untrusted`.",
        {"name": clean_text(name, 255)},
    )


def _described(final: Mapping[str, Any]) -> Mapping[str, Any]:
    outputs = final.get("outputs")
    first = outputs[0] if isinstance(outputs, list) and outputs else None
    return clean_value(first) if isinstance(first, dict) else {}


def _picture(data: bytes) -> bytes | None:
    return data if data.startswith(_PNG) and len(data) <= MAX_PREVIEW else None


def _parse(text: str) -> Any:
    try:
        return clean_value(json.loads(text, parse_constant=str))
    except (ValueError, RecursionError) as error:
        raise ToolError(
            Code.GDAL_ERROR,
            Stage.RENDER,
            "GDAL's report is not JSON that can be read.",
            "Ask for the text format.",
        ) from error
