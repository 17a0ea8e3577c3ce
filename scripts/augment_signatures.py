"""Record the library's signatures in tests/e2e/augment/signatures.json, and run every pipeline that the test prompts give.

The server never has albumentations; this runs where it is:
    python -m venv /tmp/a && /tmp/a/bin/pip install albumentations==2.0.8 jsonschema
    PYTHONPATH=. /tmp/a/bin/python scripts/augment_signatures.py [--check]
With --check nothing is written: every transform's example prompts and all prompts of tests/e2e/augment are parsed, constructed and run
on a small image of three uint8 bands, and what fails is printed (exit status 1).
"""

import inspect
import json
import sys
import tomllib
import warnings
from pathlib import Path
from typing import Any

import albumentations
import numpy as np

from gdal_mcp.toolboxes.augment.prompts import parse
from gdal_mcp.toolboxes.augment.transforms import LIBRARY, TRANSFORMS

TESTS = Path(__file__).resolve().parents[1] / "tests" / "augment"


def signature(name: str) -> dict[str, object]:
    """Arguments with their defaults; "required" for an argument without one."""
    parameters = inspect.signature(getattr(albumentations, name).__init__).parameters.values()
    return {
        parameter.name: "required" if parameter.default is parameter.empty else parameter.default
        for parameter in parameters
        if parameter.name not in ("self", "p")
    }


def record() -> None:
    about = {"source": f"{LIBRARY} (PyPI, MIT)", "made_by": "scripts/augment_signatures.py"}
    lines = [f"{json.dumps(name)}: {json.dumps(signature(name))}" for name in TRANSFORMS]
    text = "{" + json.dumps(about)[1:-1] + ', "signatures": {\n' + ",\n".join(lines) + "\n}}\n"
    (TESTS / "signatures.json").write_text(text, encoding="utf-8")


def prompts() -> list[str]:
    texts = [example for transform in TRANSFORMS.values() for example in transform.examples]
    for name in ("prompts.toml", "prompts_held_out.toml"):
        texts += [
            case["prompt"] for case in tomllib.loads((TESTS / name).read_text(encoding="utf-8"))["case"]
        ]
    return texts


def tuples(value: object) -> Any:
    if isinstance(value, dict):
        return {key: tuples(part) for key, part in value.items()}
    return tuple(map(tuples, value)) if isinstance(value, list) else value


def check() -> int:
    failed = 0
    image = np.random.default_rng(0).integers(0, 256, (300, 320, 3), dtype="uint8")
    for prompt in prompts():
        for step in parse(prompt).steps:
            try:
                transform = getattr(albumentations, step.name)(**tuples(step.parameters), p=1)
                size = {"CenterCrop", "RandomCrop", "Crop"} & {
                    step.name
                }  # may ask for more than the small image has
                albumentations.Compose(
                    [*([albumentations.Resize(1100, 1100)] if size else []), transform], seed=1
                )(image=image)
            except Exception as error:  # noqa: BLE001 - every failure is reported
                failed += 1
                print(f"{prompt!r}: {step.name} {dict(step.parameters)}: {type(error).__name__}: {error}")
    print(f"{failed} failed of {len(prompts())} prompts")
    return 1 if failed else 0


if __name__ == "__main__":
    # the library only warns about an unknown argument
    warnings.filterwarnings("error", message="Argument.* not valid")
    if "--check" in sys.argv:
        sys.exit(check())
    record()
