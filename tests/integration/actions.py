"""Runs a job of a GitHub workflow locally: `run` steps as Actions runs them, `uses` steps by functions with the same
effect.

Follows the documentation of Actions: each `run` is a file for `bash -e` in the workspace or in `working-directory`;
`env` of the workflow, the job and the step; files behind GITHUB_ENV, GITHUB_PATH, GITHUB_OUTPUT and
GITHUB_STEP_SUMMARY; after a failure only steps with `always()`.
"""

import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ALWAYS = "${{ always() }}"


@dataclass
class Job:
    """One job on its own machine. `home` holds everything except the workspace."""

    workspace: Path
    home: Path
    env: dict[str, str]
    uses: Mapping[
        str, Callable[["Job", Mapping[str, Any]], None]
    ]  # by the name of the action without its version
    log: list[tuple[str, int, str]] = field(default_factory=list)  # name, exit code and output of each step
    artifacts: dict[str, Path] = field(default_factory=dict)

    def run(self, file: Path, name: str) -> bool:
        """True if each step succeeded."""
        document = yaml.safe_load(file.read_text())
        job = document["jobs"][name]
        self.env |= {
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_WORKSPACE": str(self.workspace),
            "RUNNER_TEMP": str(self.home),
            "HOME": str(self.home),
            **_texts(document.get("env")),
            **_texts(job.get("env")),
        }
        fine = True
        for step in job["steps"]:
            if fine or step.get("if") == ALWAYS:
                fine = self._step(step) and fine
        return fine

    def _step(self, step: Mapping[str, Any]) -> bool:
        assert set(step) <= {"name", "uses", "with", "run", "env", "if", "working-directory"}, step
        assert step.get("if") in (None, ALWAYS), step
        if "uses" in step:
            self.uses[step["uses"].partition("@")[0]](self, step.get("with", {}))
            return True
        files = {
            key: self.home / key
            for key in ("GITHUB_ENV", "GITHUB_PATH", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")
        }
        for path in files.values():
            path.write_text("")
        script = self.home / "script.sh"
        script.write_text(step["run"])
        ran = subprocess.run(
            ["bash", "-e", str(script)],
            cwd=self.workspace / step.get("working-directory", "."),
            env={**self.env, **_texts(step.get("env")), **{key: str(path) for key, path in files.items()}},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        self.log.append((step["run"], ran.returncode, ran.stdout))
        pairs = (line.partition("=") for line in files["GITHUB_ENV"].read_text().splitlines())
        self.env |= {key: value for key, _, value in pairs}
        paths = files["GITHUB_PATH"].read_text().split()
        self.env["PATH"] = os.pathsep.join([*reversed(paths), self.env["PATH"]])
        return ran.returncode == 0


def _texts(env: Mapping[str, Any] | None) -> dict[str, str]:
    return {key: str(value) for key, value in (env or {}).items()}
