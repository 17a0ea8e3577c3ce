"""The arguments of the tools of the toolbox `augment`. Pure."""

from typing import Annotated, Any, Literal

from pydantic import Field

from gdal_mcp.toolboxes.base import Arguments

_Path = Annotated[str, Field(min_length=1, max_length=4096)]
_Seed = Annotated[int, Field(ge=0, lt=1 << 32, description="The same seed draws the same")]


class Options(Arguments):
    enable_vision_verification: bool = True
    enable_classification_check: bool = True
    vision_model: Literal["claude", "gpt4v", "kiro"] = "claude"
    classifier_model: Literal["mobilenet", "cnn_explainer"] = "mobilenet"
    output_format: Literal["PNG", "JPEG", "WEBP"] = "PNG"
    quality: int = Field(default=95, ge=1, le=100)


class AugmentImageArguments(Arguments):
    image: str
    prompt: str
    options: Options = Options()
    auth_context: dict[str, Any] | None = None  # ignored: it is only the caller's own statement


class ListTransformsArguments(Arguments):
    category: Literal["blur", "brightness", "contrast", "geometric", "noise", "all"] = "all"
    include_examples: bool = True


class ValidatePromptArguments(Arguments):
    prompt: str
    strict_mode: bool = False


class AugmentDatasetArguments(Arguments):
    input: _Path = Field(description="Raster of any number of bands")
    prompt: str = Field(description="What to do, as for augment_image")
    output: _Path = Field(description="Folder to write, with result.tif and what belongs to it")
    seed: _Seed = 0
    mask: _Path | None = Field(None, description="Raster of classes with the same pixels, moved with it")
    labels: _Path | None = Field(None, description="GeoPackage or GeoJSON, moved with it")
    overwrite: bool = False


class MakeChipsArguments(Arguments):
    input: _Path = Field(description="Raster, read window by window")
    output: _Path = Field(description="Folder to write")
    size: int = Field(256, ge=16, le=4096, description="Pixels of a chip's side")
    overlap: int = Field(0, ge=0, description="Pixels that neighbours share")
    labels: _Path | None = Field(None, description="GeoPackage or GeoJSON, cut and moved with each chip")
    mask: _Path | None = Field(None, description="Raster of classes on the same grid, cut and moved too")
    prompt: str | None = Field(None, description="What to do to each chip, as for augment_image")
    copies: int = Field(
        1, ge=1, le=100, description="Of each chip with a prompt, each with new random values"
    )
    seed: _Seed = 0
    split: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,40}$")], Annotated[float, Field(gt=0)]] = (
        Field({"train": 0.8, "val": 0.1, "test": 0.1}, description="Shares, by place", min_length=1)
    )
    block: int = Field(4, ge=1, le=1000, description="Chips on a side of a block that is split as one")
    format: Literal["GTiff", "PNG"] = "GTiff"
    only: list[Annotated[str, Field(max_length=80)]] = Field(
        [], description="Names of chips to make again, as a manifest has them; all when empty"
    )
    overwrite: bool = False
