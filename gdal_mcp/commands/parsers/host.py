"""The commands about what a server runs on, as parts of the program."""

import argparse
from pathlib import Path
from typing import Any

from gdal_mcp.commands.exits import Exit, guarded
from gdal_mcp.commands.options import add_command, add_group, settings_of


def add_host(commands: Any) -> None:
    doctor = add_command(
        commands,
        "doctor",
        _doctor,
        "check engine, image, isolation and workspaces, with the fix for each failure",
    )
    doctor.add_argument("--escape", action="store_true", help="try to get out of a container")
    doctor.add_argument("--json", action="store_true", help="as JSON")

    add_command(commands, "setup", _setup, "bring the GDAL image onto this host")

    catalogue = add_group(commands, "catalogue", "build or show what is known of a GDAL")
    build = add_command(catalogue, "build", _build, "ask the image what its GDAL can be told")
    build.add_argument(
        "--output", type=Path, metavar="FILE", help="write it there, and not into the state folder"
    )
    add_command(catalogue, "show", _show, "show what a server with these settings goes by")

    sbom = add_command(
        commands, "sbom", _sbom, "list what is installed and what is in the image, as CycloneDX JSON"
    )
    sbom.add_argument("--no-image", action="store_true", help="only what is installed here; asks no engine")


def _doctor(given: argparse.Namespace) -> Exit:
    from gdal_mcp.commands import doctor, escape

    show = escape.show if given.escape else doctor.show
    settings = settings_of(given)
    return guarded(lambda: show(settings, as_json=given.json))


def _setup(given: argparse.Namespace) -> Exit:
    from gdal_mcp.commands import catalogue

    settings = settings_of(given)
    return guarded(lambda: catalogue.setup(settings))


def _build(given: argparse.Namespace) -> Exit:
    from gdal_mcp.commands import catalogue

    settings = settings_of(given)
    return guarded(lambda: catalogue.build(settings, given.output))


def _show(given: argparse.Namespace) -> Exit:
    from gdal_mcp.commands import catalogue

    settings = settings_of(given)
    return guarded(lambda: catalogue.show(settings))


def _sbom(given: argparse.Namespace) -> Exit:
    from gdal_mcp.commands import sbom

    settings = settings_of(given)
    return guarded(lambda: sbom.show(settings, with_image=not given.no_image))
