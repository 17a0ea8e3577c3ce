"""`gdal-mcp catalogue` and `gdal-mcp setup`: get an image, and the catalogue of its GDAL."""

import json
from contextlib import closing
from pathlib import Path
from typing import Final

from gdal_mcp.cli.exits import Exit
from gdal_mcp.cli.report_files import require_replaceable, write_report
from gdal_mcp.cli.streams import out, say
from gdal_mcp.runtime import wheels
from gdal_mcp.runtime.image import Image, ensure, resolve
from gdal_mcp.settings import Settings
from gdal_mcp.toolboxes.gdal.catalogue import load, store
from gdal_mcp.toolboxes.gdal.catalogue.capture import capture_image
from gdal_mcp.toolboxes.gdal.catalogue.changes import CatalogueChanges
from gdal_mcp.toolboxes.gdal.catalogue.errors import CatalogueBroken
from gdal_mcp.toolboxes.gdal.catalogue.probing import probe
from gdal_mcp.toolboxes.gdal.catalogue.report import report
from gdal_mcp.toolboxes.gdal.faults import FaultState, faults, load_probed
from gdal_mcp.toolboxes.gdal.image import GDAL_IMAGE
from gdal_mcp.toolboxes.wheels import WheelImage
from sandbox.engine import Engine
from sandbox.engines.opening import open_engine, open_or_install

# how every captured catalogue begins
_START: Final = f'{{\n"generator":{json.dumps(load.GENERATOR)}'.encode()


def build(settings: Settings, output: Path | None) -> Exit:
    """Captures the catalogue of the image in use, into `output` or the state folder.

    If `output` is set, the file is written even if some arguments do not have a role yet: a person compares it with
    the last one to assign these roles. The state folder only takes catalogues that can be served. Raises
    SandboxError, and SettingsError if `output` is a file of another kind.
    """
    _require_catalogue(output)
    image, text = _image_and_capture(settings)
    try:
        if output is not None:
            write_report(output, text)
        catalogue = load.catalogue_of(text)
        place = output or store.save(settings.state_dir, settings.image, image.digest, text)
    except CatalogueBroken as error:
        say(str(error))
        return Exit.FAILED
    except OSError as error:
        say(f"{output} cannot be written: {error.strerror or error}. Name another file.")
        return Exit.FAILED
    out(f"{place}: {catalogue.summary}")
    return Exit.DONE


def setup(settings: Settings, toolbox: str = "gdal") -> Exit:
    """Gets a toolbox's image, and stores the catalogue of a GDAL image in the state folder. Raises SandboxError."""
    with closing(open_or_install(settings.engine, say)) as engine:
        if toolbox != "gdal":
            built = wheels.build(WheelImage(toolbox), engine, settings.image, say)
            out(f"{built.reference} {built.digest} Python {built.version}")
            return Exit.DONE
        image = ensure(engine.images, GDAL_IMAGE, settings.image, say)
        probe_faults(settings, engine, image)
    out(f"{image.reference} {image.digest} GDAL {image.version}")
    return after_setup(settings, image)


def probe_faults(settings: Settings, engine: Engine, image: Image) -> None:
    """Tests the image for known faults of GDAL, unless that was done before."""
    if load_probed(settings.state_dir, image.digest).digest:
        return
    say(f"testing {image.reference} for known faults of GDAL")
    probed = probe(engine, image.id, image.digest, settings.state_dir)
    present = [name for name in faults() if probed.state(name) is not FaultState.ABSENT]
    say(f"worked around: {', '.join(present)}")


def after_setup(settings: Settings, image: Image) -> Exit:
    """Captures the catalogue of the image and stores the part that can be served. The stand-in uses the packaged catalogue.

    Images of the same GDAL release can have different drivers. Raises SandboxError.
    """
    same = tuple(image.version.split(".")[:2]) == tuple(map(str, load.RELEASE))
    if same and image.standin:
        store.forget(settings.state_dir, settings.image)
        return Exit.DONE
    if store.holds(settings.state_dir, settings.image, image.digest):
        return Exit.DONE
    say(f"asking {image.reference} for its algorithms and formats")
    image, text = _image_and_capture(settings)
    return _store(settings, image, text)


def refresh(settings: Settings, output: Path | None) -> Exit:
    """Compares the image with the packaged catalogue, reports the differences, and stores a catalogue that can be served.

    If `output` is set, also writes the whole capture to that file, for a person who reviews a release. Raises
    SandboxError, and SettingsError if `output` is a file of another kind.
    """
    _require_catalogue(output)
    image, text = _image_and_capture(settings)
    out("\n".join(report(CatalogueChanges(json.loads(load.packaged_text()), json.loads(text)))))
    try:
        if output is not None:
            write_report(output, text)
        return _store(settings, image, text)
    except OSError as error:
        say(f"{output} cannot be written: {error.strerror or error}. Name another file.")
        return Exit.FAILED


def _store(settings: Settings, image: Image, text: str) -> Exit:
    """Stores the part of a captured catalogue that can be served."""
    if text == load.packaged_text():
        store.forget(settings.state_dir, settings.image)
        return Exit.DONE
    try:
        served = load.servable(text)
        place = store.save(settings.state_dir, settings.image, image.digest, served)
        say(f"{place}: {load.catalogue_of(served).summary}")
    except CatalogueBroken as error:
        say(f"GDAL {image.version} of {image.reference} cannot be served: {error}")
        return Exit.FAILED
    return Exit.DONE


def _require_catalogue(output: Path | None) -> None:
    if output is not None:
        require_replaceable(output, _START, "--output")


def _image_and_capture(settings: Settings) -> tuple[Image, str]:
    with closing(open_engine(settings.engine, options=settings.cluster_options())) as engine:
        image = resolve(engine.images, GDAL_IMAGE, settings.image)
        return image, capture_image(engine, image.id)
