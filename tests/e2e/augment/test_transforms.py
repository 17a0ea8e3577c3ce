"""The catalogue of transforms against the library's own signatures, as recorded (scripts/augment_signatures.py)."""

import json
from pathlib import Path

from jsonschema import Draft202012Validator

from gdal_mcp.toolboxes.augment.transforms import LIBRARY, TRANSFORMS

RECORDED = json.loads(Path(__file__).with_name("signatures.json").read_text(encoding="utf-8"))
# arrays and functions, which JSON cannot express
LEFT_OUT = {("Equalize", "mask"), ("Equalize", "mask_params")}


def test_every_argument_matches_the_library_with_its_default():
    assert RECORDED["source"].startswith(LIBRARY)
    assert RECORDED["signatures"].keys() == TRANSFORMS.keys()
    for name, arguments in RECORDED["signatures"].items():
        ours = TRANSFORMS[name]
        theirs = {
            argument: default for argument, default in arguments.items() if (name, argument) not in LEFT_OUT
        }
        required = {argument for argument, value in theirs.items() if value == "required"}
        assert ours.arguments.keys() == theirs.keys(), name
        assert set(ours.parameters["required"]) == required, name
        for argument in theirs.keys() - required:
            assert ours.arguments[argument].get("default") == theirs[argument], (name, argument)


def test_every_schema_is_one_and_takes_the_defaults():
    for transform in TRANSFORMS.values():
        Draft202012Validator.check_schema(transform.parameters)
        for argument, schema in transform.arguments.items():
            if "default" in schema:
                assert Draft202012Validator(schema).is_valid(schema["default"]), (transform.name, argument)


def test_what_the_constructor_would_refuse_is_a_fault():
    for name, parameters in (
        ("GaussianBlur", {"blur_limit": [4, 4]}),
        ("GaussianBlur", {"sigma_limit": [0, 0]}),
        ("MotionBlur", {"blur_limit": [9, 5]}),
        ("Rotate", {"angle": 15}),
        ("Resize", {"height": 10}),
        ("CropAndPad", {"px": 3, "percent": 0.1}),
        ("PadIfNeeded", {"pad_height_divisor": 32}),
        ("GaussNoise", {"std_range": [0.1, 1.5]}),
    ):
        assert TRANSFORMS[name].faults(parameters), name
    assert not TRANSFORMS["Affine"].faults({"translate_px": {"x": [20, 20]}})


def test_the_categories_of_the_specification_are_filled():
    assert {"blur", "brightness", "contrast", "geometric", "noise"} <= {
        transform.category for transform in TRANSFORMS.values()
    }
    aliases = [alias for transform in TRANSFORMS.values() for alias in transform.aliases]
    assert len(aliases) == len(set(aliases))
    assert all(transform.examples and transform.description for transform in TRANSFORMS.values())
