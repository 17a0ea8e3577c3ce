"""The workflows of a workspace as prompts: one for each file in its folder `workflows`.

Invariants:
* no free text of a file is in a prompt: only identifiers that the format allows, the types of parameters, and the
  path of the file;
* only workflows that the caller may run, in the caller's workspaces, become prompts; a file that is not a workflow is
  left out;
* the number of files that are read, and their sizes, are bounded.
"""

import json
import os
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Final

from gdal_mcp.calls.entitlements import Entitlements
from gdal_mcp.calls.workflows.document import MAX_BYTES, WorkflowDocument, WorkflowInvalid, load
from gdal_mcp.plan import Command, Draft, Work
from gdal_mcp.policy.policy import Deny, Policy, case, decide
from gdal_mcp.toolboxes.base import Prompt, PromptValue
from gdal_mcp.tools.workflow import WORKFLOW_RUN
from sandbox.errors import PathRefused, SandboxError
from sandbox.workspace import Workspace, WorkspacePath, open_file, open_folder

FOLDER: Final = PurePosixPath("workflows")
MOST: Final = 50  # files of one workspace
MOST_BYTES: Final = (
    256 << 10
)  # bytes of the files of one workspace together; about 50 kB of YAML are read in a second
_FILE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,80}\.(?:ya?ml|json)", re.ASCII)


def workflow_prompts(entitlements: Entitlements | None, principal: str, policy: Policy) -> dict[str, Prompt]:
    """The prompts by name. Of several workflows with the same name, only the first becomes a prompt. Blocking."""
    if entitlements is None or WORKFLOW_RUN.name not in entitlements.surface.callable:
        return {}
    runs = Draft(Command(WORKFLOW_RUN.name, ()), (), work=Work("workflow run"))
    if isinstance(decide(case(runs, WORKFLOW_RUN.name, principal), policy), Deny):
        return {}
    prompts: dict[str, Prompt] = {}
    for workspace in entitlements.workspaces.items:
        left = MOST_BYTES
        for name in _names(workspace):
            located = WorkspacePath(workspace, FOLDER / name)
            data = _read(located)
            left -= len(data)
            if left >= 0 and (document := _document(data)) is not None:
                prompt = _prompt(document, str(located))
                prompts.setdefault(prompt.name, prompt)
    return prompts


def _names(workspace: Workspace) -> list[str]:
    try:
        with open_folder(workspace, FOLDER) as folder, os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if _FILE.fullmatch(entry.name))[:MOST]
    except (OSError, SandboxError):
        return []


def _read(located: WorkspacePath) -> bytes:
    """The bytes of a file; empty if it cannot be read."""
    try:
        with open_file(located) as file:
            return os.pread(file, MAX_BYTES + 1, 0)
    except (OSError, PathRefused):
        return b""


@lru_cache(maxsize=4 * MOST)  # prompts are listed often, and workflow files rarely change
def _document(data: bytes) -> WorkflowDocument | None:
    try:
        return load(data)
    except WorkflowInvalid:
        return None


def _prompt(document: WorkflowDocument, path: str) -> Prompt:
    values = tuple(
        PromptValue(
            name,
            f"{parameter.type}, required"
            if parameter.default is None
            else f"{parameter.type}; has a default",
            required=parameter.default is None,
            is_path=parameter.type == "path",
        )
        for name, parameter in document.parameters.items()
    )
    return Prompt(
        f"workflow_{document.name}",
        f"Run the workflow {document.name}",
        f"Checks and runs the {len(document.steps)} steps of a workflow file of the workspace.",
        "".join(_lines(path, values)),
        values,
    )


def _lines(path: str, values: tuple[PromptValue, ...]) -> Iterator[str]:
    named = json.dumps(path, ensure_ascii=False).replace("{", "{{").replace("}", "}}")
    yield f"Call workflow_check with workflow {named}"
    if values:
        parameters = ", ".join(f"{value.name} = {{{value.name}}}" for value in values)
        yield f" and these parameters, without those that are empty, each as its type: {parameters}"
    yield ". Tell me what is wrong or unknown in it. If nothing is wrong, call workflow_run with the same arguments."
