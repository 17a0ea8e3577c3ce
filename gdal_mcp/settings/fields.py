"""Every setting of one server, with its type, default and bounds; read from everywhere they may be, and as documentation shows them."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from platformdirs import user_state_path
from pydantic import Field, PrivateAttr, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from gdal_mcp.settings.file import PREFIX, SettingsError, nearest, no_setting, read_toml, trusted_toml
from gdal_mcp.settings.pathmap import PathMap
from gdal_mcp.settings.remote import REMOTE_KEYS, Remote, RemoteSettings
from gdal_mcp.settings.removed import is_removed, notices
from gdal_mcp.settings.state import StateFolder
from gdal_mcp.settings.types import (
    DAY,
    LEAST_MEMORY,
    Lacks,
    Names,
    Place,
    Places,
    Size,
    Ways,
    as_typed,
    parse_size,
)
from gdal_mcp.settings.web import WebSettings
from sandbox.engine import ClusterOptions
from sandbox.pool.sizing import Sizes
from sandbox.template import Limits
from sandbox.workspace import MAX_NAME, RESERVED

_LIMITS = Limits()


class Settings(WebSettings):
    """Every setting of one server. Made by `load_settings`, which explains what is wrong."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", env_prefix=PREFIX, env_ignore_empty=True)

    config: Place | None = Field(None, description="TOML file with these settings.")
    workspaces: Places = Field((), description="Folders a call may read and, through approval, write to.")
    workspaces_ro: Places = Field((), description="Folders a call may only read.")
    image: str | None = Field(
        None, description="GDAL image: `full` or `small`, the official ones, or a reference or id."
    )
    engine: str | None = Field(
        None,
        description="Container engine: unix:///run/docker.sock, oci (no daemon), k8s:// (a cluster); found when not set.",
    )
    mount_scope: Literal["workspaces", "inputs"] = Field(
        "workspaces",
        description="What a call's container sees, read-only: its workspaces, or only what the call names, which is slower.",
    )
    path_map: Names = Field(
        (),
        description="Pairs INSIDE:HOST for a server in a container: its folders as it and as the engine's host sees them; for a "
        "cluster INSIDE:CLAIM/FOLDER.",
    )
    run_as: Literal["self", "owner"] = Field(
        "self",
        description="Whose rights a server that is started as root has: its own, or those of its workspace's owner, as in our image.",
    )
    runtime: str = Field(
        "",
        pattern=r"^[A-Za-z0-9._-]*$",
        description="OCI runtime of the containers; runsc is gVisor, empty the engine's own.",
    )
    nodes_without: Lacks = Field(
        (),
        description="What the nodes of a cluster may lack: landlock, pids-limit. Calls are weaker for it; doctor names where.",
    )
    cluster_ca: Literal["strict", "lenient"] = Field(
        "strict",
        description="How a cluster's certificate authority is checked. lenient accepts one without key identifiers, as kubectl "
        "does; all else is still verified.",
    )
    pull_secrets: Names = Field(
        (),
        description="Names of Secrets in the namespace of calls, with which the nodes of a cluster fetch the image.",
    )
    approval: Literal["writes", "always", "never"] = Field(
        "writes", description="Which calls need a person's approval."
    )
    approval_ways: Ways = Field(
        ("elicitation", "console", "terminal"),
        description="Whose answer counts as a person's: the client's (elicitation), the console's, the terminal's.",
    )
    approval_seconds: float = Field(300.0, gt=0, le=DAY, description="How long a question can be answered.")
    approval_valid: float = Field(
        3600.0,
        gt=0,
        le=DAY,
        description="How long an approval can be used, from the decision on: by the same call sent again, or after an upload.",
    )
    approval_wait: float = Field(
        20.0,
        ge=0,
        le=DAY,
        description="Seconds that a call waits for a yes from elsewhere when its client cannot ask; it may be sent again later.",
    )
    policy: Place | None = Field(
        None, description="TOML file of rules: who may do what, and which calls a person must approve."
    )
    console: Literal["auto", "on", "off"] = Field(
        "auto", description="The web page for people: from the start, once a question needs it, or never."
    )
    console_port: int = Field(
        0, ge=0, le=65_535, description="Port of that page on loopback beside stdio; 0 is any free one."
    )
    state_dir: Place = Field(
        default_factory=lambda: user_state_path("gdal-mcp", appauthor=False),
        description="Folder of the audit log and the registry; never inside a workspace.",
        json_schema_extra={"shown": "~/.local/state/gdal-mcp"},
    )
    outputs_folder: str = Field(
        "outputs",
        description="Folder in the first writable workspace for outputs whose place a call does not name.",
    )
    memory: Size = Field(_LIMITS.memory_bytes, ge=LEAST_MEMORY, description="Memory of one call.")
    cpus: float = Field(
        default_factory=lambda: float(min(2, os.cpu_count() or 1)),
        gt=0,
        le=1024,
        description="Processors of one call; parts are allowed.",
        json_schema_extra={"shown": "2, or 1 on a host with one"},
    )
    pids: int = Field(_LIMITS.pids, ge=8, le=4096, description="Processes and threads of one call.")
    timeout_seconds: float = Field(
        _LIMITS.wall_seconds, gt=0, le=DAY, description="How long one call may run."
    )
    staging_size: Size = Field(
        _LIMITS.staging_bytes, ge=1 << 20, description="All outputs of one call together."
    )
    staging_files: int = Field(
        _LIMITS.staging_files, ge=1, description="Number of files one call may output."
    )
    file_size: Size = Field(_LIMITS.file_bytes, ge=1 << 20, description="One output file.")
    stdout_size: Size = Field(
        _LIMITS.stdout_bytes, ge=64 << 10, description="What one call may send back, in all."
    )
    open_files: int = Field(_LIMITS.open_files, ge=64, description="Files one call may have open.")
    scratch_size: Size = Field(
        _LIMITS.scratch_bytes,
        ge=1 << 20,
        description="Temporary files of one call, in memory; GDAL's own for an output lie beside it.",
    )
    memory_share: float = Field(
        0.75,
        gt=0,
        le=1,
        description="Share of the machine's memory that all containers together may be promised, waiting ones as well.",
    )
    concurrent: int = Field(
        0, ge=0, le=4096, description="Calls at once; 0 is two for each processor, if memory suffices."
    )
    queue_length: int = Field(128, ge=0, le=10_000, description="Calls that may wait for a place, in all.")
    queue_seconds: float = Field(60.0, ge=0, le=DAY, description="How long a call waits for a place.")
    pool_min: int = Field(
        1, ge=0, le=64, description="Started containers of each kind that wait for a call, at least."
    )
    pool_max: int = Field(
        6,
        ge=0,
        le=256,
        description="Started containers that wait for a call, at most; with 0 each call starts its own.",
    )
    pool_seconds: float = Field(
        600.0, ge=5, le=DAY, description="How long a started container waits before another takes its place."
    )
    task_after: float = Field(
        3.0,
        ge=0,
        le=DAY,
        description="Seconds after which a call goes on as a task, for clients that know tasks.",
    )
    task_seconds: float = Field(3600.0, ge=60, le=DAY, description="How long the result of a task is kept.")
    undo_calls: int = Field(50, ge=0, description="How many calls can be undone; 0 keeps nothing.")
    undo_size: Size = Field(
        10 << 30, ge=0, description="What is kept for undo, in all, on the workspace's disk."
    )
    keep_days: float = Field(
        0.0,
        ge=0,
        le=36_500,
        description="How many days the registry keeps the record of a call none of whose outputs is listed any more; 0 keeps all.",
    )
    audit_size: Size = Field(
        0,
        ge=0,
        description="Size at which the audit log goes on in a new file, the old one kept beside it; 0 never.",
    )
    toolsets: Names = Field(
        ("core",),
        description="Which tools are listed: core, classic, all, or groups of algorithms such as raster or vector.",
    )
    toolboxes: Names = Field(
        ("gdal",),
        description="Libraries with an image of their own: gdal; python, which runs code that a model writes; augment, for training data.",
    )
    classifiers: Place | None = Field(
        None,
        description="Folder of a workspace with mobilenet.onnx or cnn_explainer.onnx, for the check of augment_image; classes in a .txt beside it.",
    )
    tools: Names = Field((), description="Single tools that are listed too, such as raster_hillshade.")
    exclude_tools: Names = Field(
        (), description="Tools and algorithms that do not exist for clients, whatever else is said."
    )
    read_only: bool = Field(
        default=False, description="Nothing writes: no tool that could is listed or answers."
    )
    allow_sql: bool = Field(
        default=True,
        description="Whether arguments may hold SQL, one SELECT at a time; `--no-sql` turns it off.",
    )
    remote: Remote = Field(
        default_factory=lambda: RemoteSettings.model_validate({}),
        description="Hosts and buckets that the server reads for calls, whose containers have no network; in the file a table.",
        json_schema_extra={"shown": ""},
    )
    lockdown: bool = Field(
        default=False,
        description="Whether results leave out all text from files and from GDAL, and pictures.",
    )
    result_size: Size = Field(
        48 << 10,
        ge=4 << 10,
        le=4 << 20,
        description="Longest result as JSON; the whole of a longer one is a resource.",
    )
    digest_size: Size = Field(
        1 << 30, ge=0, description="Input bytes of one call that are digested for its provenance."
    )
    preview: bool = Field(
        default=True, description="Whether results with something to see come with a small picture."
    )
    preview_pixels: int = Field(512, ge=32, le=2048, description="Longer side of that picture.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "warning", description="Least severe message that is logged."
    )
    read_chunk: Size = Field(
        256 << 10,
        ge=4 << 10,
        le=16 << 20,
        description="Most that one read of a resource returns, before encoding.",
    )

    @field_validator("path_map")
    @classmethod
    def _pairs(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
        PathMap.parse(texts)
        return texts

    @field_validator("outputs_folder")
    @classmethod
    def _one_name(cls, name: str) -> str:
        usable = "/" not in name and name.isprintable() and len(name.encode()) <= MAX_NAME
        if not usable or name in ("", ".", "..", RESERVED):
            raise ValueError(f"it is the name of one folder, without a slash, and not {RESERVED}")
        return name

    @model_validator(mode="after")
    def _of_clusters(self) -> "Settings":
        """A node follows the links of what it mounts alone, and makes as root what is not there: only whole workspaces are safe."""
        if self.on_cluster and self.mount_scope == "inputs":
            raise ValueError(
                "mount_scope = inputs is not safe on a cluster: its nodes follow links within a volume, and make a folder of "
                "root's in place of a file that is gone. Leave it out, so that calls see whole workspaces"
            )
        if self.nodes_without and not self.on_cluster:
            raise ValueError("nodes_without is about the nodes of a cluster, and the engine is none")
        if not self.on_cluster and (self.pull_secrets or self.cluster_ca != "strict"):
            raise ValueError("pull_secrets and cluster_ca are about a cluster, and the engine is none")
        return self

    @model_validator(mode="after")
    def _keep_apart(self) -> "Settings":
        """What the server trusts must not lie where calls read and write."""
        for folder in (*self.workspaces, *self.workspaces_ro):
            root = folder.resolve()
            if self.state_dir.resolve().is_relative_to(root) or root.is_relative_to(self.state_dir.resolve()):
                raise ValueError(
                    f"the state folder {self.state_dir} and the workspace {folder} overlap; move one"
                )
            for file in (self.config, self.policy):
                if file and file.resolve().is_relative_to(root):
                    raise ValueError(f"the file {file} lies in the workspace {folder}; move it out")
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        del dotenv_settings, file_secret_settings
        named = init_settings().get("config") or env_settings().get("config")
        values = read_toml(as_typed(named), cls.model_fields) if named else {}
        return init_settings, env_settings, InitSettingsSource(settings_cls, values)

    _notices: tuple[str, ...] = PrivateAttr(())

    @property
    def notices(self) -> tuple[str, ...]:
        """One sentence for each setting that was written and has been removed."""
        return self._notices

    @property
    def on_cluster(self) -> bool:
        """Whether each call is a Pod."""
        return (self.engine or "").startswith("k8s://")

    def cluster_options(self) -> ClusterOptions:
        return ClusterOptions(self.cluster_ca == "lenient", self.pull_secrets)

    @property
    def state(self) -> StateFolder:
        """What lies where in the state folder."""
        return StateFolder(self.state_dir)

    def limits(self) -> Limits:
        """The bounds of one call."""
        return Limits(
            memory_bytes=self.memory,
            cpus=self.cpus,
            pids=self.pids,
            wall_seconds=self.timeout_seconds,
            staging_bytes=self.staging_size,
            staging_files=self.staging_files,
            file_bytes=self.file_size,
            stdout_bytes=self.stdout_size,
            open_files=self.open_files,
            scratch_bytes=self.scratch_size,
        )

    def sizes(self) -> Sizes:
        """How many started containers wait for calls: none where each call needs mounts of its own."""
        most = self.pool_max if self.mount_scope == "workspaces" else 0
        return Sizes(self.pool_min, most, self.pool_seconds)

    def require_workspaces(self) -> None:
        """Raises SettingsError when no workspace is set."""
        if not self.workspaces and not self.workspaces_ro:
            raise SettingsError(
                "No workspace is set, so no call could read or write anything. Name a folder with "
                f"--workspace DIR, {PREFIX}WORKSPACES, or `workspaces` in the settings file."
            )


def load_settings(removed_options: Sequence[str] = (), /, **explicit: Any) -> Settings:
    """The settings, with explicit values above all others; None means not given.

    `removed_options` are options that the command line has and that do nothing any more. Raises SettingsError with every problem found.
    """
    given = {name: value for name, value in explicit.items() if value is not None}
    known = {name: value for name, value in given.items() if name in Settings.model_fields}
    problems = [no_setting(name, Settings.model_fields) for name in given if name not in known]
    for variable in os.environ:
        prefix, name = variable[: len(PREFIX)].upper(), variable[len(PREFIX) :].lower()
        if prefix == PREFIX and name not in Settings.model_fields and not is_removed(name):
            problems.append(no_setting(variable, Settings.model_fields, variable=True))
    try:
        settings = Settings(**known)
    except ValidationError as error:
        rows = error.errors(include_url=False, include_context=False)
        file = known.get("config") or os.environ.get(f"{PREFIX}CONFIG")
        raise SettingsError(*problems, *(_sentence(row, known, file) for row in rows)) from error
    except SettingsError as error:
        raise SettingsError(*problems, *error.problems) from error
    if problems:
        raise SettingsError(*problems)
    keys = trusted_toml(settings.config, "Settings")[1] if settings.config else {}
    settings._notices = tuple(notices(removed_options, os.environ, keys, PREFIX))  # noqa: SLF001 - of its own module
    return settings


def _sentence(row: Mapping[str, Any], explicit: Mapping[str, Any], file: object) -> str:
    """What is wrong with one setting, by the name under which it was given: an option, a variable, or a key of the file."""
    problem = row["msg"].removeprefix("Value error, ")
    if not row["loc"]:
        return f"{problem[:1].upper()}{problem[1:]}."
    name = str(row["loc"][0])
    source = _source(name, explicit, file)
    if len(row["loc"]) > 1 and name == "remote":  # the value may be a secret that was written out
        key = ".".join(map(str, row["loc"]))
        if row["type"] == "extra_forbidden":
            problem = f"there is no such key; the nearest is {nearest(str(row['loc'][-1]), REMOTE_KEYS)}"
        return f"{source.removesuffix(name)}{key}: {problem[:1].lower()}{problem[1:]}."
    return f"{source} cannot be {repr(row['input'])[:80]}: {problem[:1].lower()}{problem[1:]}."


def _source(name: str, explicit: Mapping[str, Any], file: object) -> str:
    """The setting as it was written: an option or argument, a variable, or a key of the settings file."""
    variable = PREFIX + name.upper()
    if name in explicit or not (os.environ.get(variable) or file):
        return name
    return variable if os.environ.get(variable) else f"Settings file {Path(str(file)).absolute()}: {name}"


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting as documentation shows it."""

    name: str
    type: str
    default: str
    env: str
    description: str


def describe() -> tuple[SettingRow, ...]:
    """Every setting, those of HTTP last, the same on every host: the documentation's table is made from it."""
    fields = sorted(Settings.model_fields.items(), key=lambda row: row[0] in WebSettings.model_fields)
    return tuple(
        SettingRow(name, _type_text(one), _default_text(one), PREFIX + name.upper(), one.description or "")
        for name, one in fields
    )


def _type_text(field: FieldInfo) -> str:
    if any(getattr(mark, "func", None) is parse_size for mark in field.metadata):
        return "size"
    annotation = field.annotation
    if get_origin(annotation) is Literal:
        return " or ".join(get_args(annotation))
    if get_origin(annotation) is tuple:
        return "folders" if get_args(annotation)[0] == Place else "names"
    plain: Any = next((one for one in get_args(annotation) if one is not NoneType), annotation)
    plain = get_args(plain)[0] if get_args(plain) else plain  # of an Annotated
    return {bool: "true or false", float: "number", int: "whole number", Path: "path"}.get(plain, "text")


def _default_text(field: FieldInfo) -> str:
    if isinstance(field.json_schema_extra, dict):
        return str(field.json_schema_extra["shown"])
    value = field.default
    if _type_text(field) == "size":
        power = next(power for power in (4, 3, 2, 1, 0) if value % 1024**power == 0)
        return f"{value // 1024**power}{('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(value)
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
