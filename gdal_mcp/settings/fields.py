"""Every setting of a server with its type, default and bounds, and the sources that it is read from."""

import os
from pathlib import Path
from typing import Annotated, Literal

from platformdirs import user_state_path
from pydantic import Field, field_validator, model_validator
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from gdal_mcp.settings.file import (
    PREFIX,
    SettingsError,
    lookups,
    read_toml,
)
from gdal_mcp.settings.pathmap import PathMap
from gdal_mcp.settings.remote import Remote, RemoteSettings
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
    size,
)
from gdal_mcp.settings.web import WebSettings
from sandbox.engine import ClusterOptions
from sandbox.path_text import MAX_NAME
from sandbox.pool.sizing import Sizes
from sandbox.template import Limits
from sandbox.workspace import RESERVED

_LIMITS = Limits()


class Settings(WebSettings):
    """Every setting of one server. Use `load_settings`, which explains errors."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", env_prefix=PREFIX, env_ignore_empty=True)

    config: Place | None = Field(None, description="TOML file with settings.")
    workspaces: Places = Field((), description="Folders that calls may read and, with approval, write to.")
    workspaces_ro: Places = Field((), description="Folders that calls may only read.")
    image: str | None = Field(
        None, description="GDAL image: `full` or `small` (official images), a reference, or an id."
    )
    engine: str | None = Field(
        None,
        description="Container engine: unix:///run/docker.sock, oci (no daemon), k8s:// (a cluster). Found automatically if not set.",
    )
    mount_scope: Literal["workspaces", "inputs"] = Field(
        "workspaces",
        description="What a call's container sees, read-only: all workspaces, or only the files that the call names, which is slower.",
    )
    path_map: Names = Field(
        (),
        description="For a server in a container: pairs INSIDE:HOST of a folder's path in the container and on the engine's host; on a "
        "cluster INSIDE:CLAIM/FOLDER.",
    )
    run_as: Literal["self", "owner"] = Field(
        "self",
        description="User of a server that is started as root: itself, or the owner of its workspace, as in our image.",
    )
    runtime: str = Field(
        "",
        pattern=r"^[A-Za-z0-9._-]*$",
        description="OCI runtime of the containers, such as runsc (gVisor). Empty: the engine's default.",
    )
    nodes_without: Lacks = Field(
        (),
        description="What the nodes of a cluster may lack: landlock, pids-limit. Calls are less isolated without; doctor names the nodes.",
    )
    cluster_ca: Literal["strict", "lenient"] = Field(
        "strict",
        description="How a cluster's certificate authority is checked. lenient accepts one without key identifiers, as kubectl "
        "does; everything else is still verified.",
    )
    pull_secrets: Names = Field(
        (),
        description="Names of Secrets in the namespace of calls, with which the nodes of a cluster pull the image.",
    )
    approval: Literal["writes", "always", "never"] = Field(
        "writes", description="Which calls need a person's approval."
    )
    approval_ways: Ways = Field(
        ("elicitation", "console", "terminal"),
        description="Where approval can be given: in the client (elicitation), in the console, in the terminal.",
    )
    approval_seconds: float = Field(
        300.0, gt=0, le=DAY, description="Seconds for which a question can be answered."
    )
    approval_valid: float = Field(
        3600.0,
        gt=0,
        le=DAY,
        description="Seconds for which an approval can be used by the same call sent again, or after an upload.",
    )
    # some clients drop a request after five seconds, and the call is planned first
    approval_wait: float = Field(
        2.0,
        ge=0,
        le=DAY,
        description="Seconds that a call waits for approval in the console or terminal if its client cannot ask. It can be sent again later.",
    )
    policy: Place | None = Field(
        None, description="TOML file with rules: who may do what, and which calls need approval."
    )
    console: Literal["auto", "on", "off"] = Field(
        "auto",
        description="When the console, a web page, is started: on = at once, auto = when a question needs it, off = never.",
    )
    console_port: int = Field(
        0, ge=0, le=65_535, description="Port of the console on loopback, with stdio. 0 is any free port."
    )
    state_dir: Place = Field(
        default_factory=lambda: user_state_path("gdal-mcp", appauthor=False),
        description="Folder of the audit log and the registry. It cannot be in a workspace.",
        json_schema_extra={"shown": "~/.local/state/gdal-mcp"},
    )
    outputs_folder: str = Field(
        "outputs",
        description="Folder in the first writable workspace for outputs without a path.",
    )
    memory: Annotated[int, size(LEAST_MEMORY)] = Field(
        _LIMITS.memory_bytes, description="Memory of one call."
    )
    cpus: float = Field(
        default_factory=lambda: float(min(2, os.cpu_count() or 1)),
        gt=0,
        le=1024,
        description="Processors of one call; fractions are allowed.",
        json_schema_extra={"shown": "2, or 1 on a host with one"},
    )
    pids: int = Field(_LIMITS.pids, ge=8, le=4096, description="Processes and threads of one call.")
    timeout_seconds: float = Field(
        _LIMITS.wall_seconds, gt=0, le=DAY, description="Seconds that one call may run."
    )
    staging_size: Annotated[int, size(1 << 20)] = Field(
        _LIMITS.staging_bytes, description="Size of all outputs of one call together."
    )
    staging_files: int = Field(
        _LIMITS.staging_files, ge=1, description="Number of files that one call may write."
    )
    file_size: Annotated[int, size(1 << 20)] = Field(
        _LIMITS.file_bytes, description="Size of one output file."
    )
    stdout_size: Annotated[int, size(64 << 10)] = Field(
        _LIMITS.stdout_bytes, description="Size of everything that one call may print."
    )
    open_files: int = Field(
        _LIMITS.open_files, ge=64, description="Number of files that one call may have open."
    )
    scratch_size: Annotated[int, size(1 << 20)] = Field(
        _LIMITS.scratch_bytes,
        description="Size of one call's temporary files, in memory. Those of GDAL and SQLite for an output are next to it, within staging_size.",
    )
    memory_share: float = Field(
        0.75,
        gt=0,
        le=1,
        description="Share of the machine's memory for all containers together, including waiting ones.",
    )
    concurrent: int = Field(
        0, ge=0, le=4096, description="Calls at the same time. 0: two per processor, if memory allows."
    )
    queue_length: int = Field(128, ge=0, le=10_000, description="Number of calls that may wait in the queue.")
    queue_seconds: float = Field(60.0, ge=0, le=DAY, description="Seconds that a call waits in the queue.")
    pool_min: int = Field(
        1, ge=0, le=64, description="Least number of started containers of each kind that wait for a call."
    )
    pool_max: int = Field(
        6,
        ge=0,
        le=256,
        description="Greatest number of started containers that wait for a call. 0: each call starts its own.",
    )
    pool_seconds: float = Field(
        600.0, ge=5, le=DAY, description="Seconds that a started container waits before it is replaced."
    )
    task_after: float = Field(
        3.0,
        ge=0,
        le=DAY,
        description="Seconds after which a call continues as a task, in clients that support tasks.",
    )
    task_seconds: float = Field(
        3600.0, ge=60, le=DAY, description="Seconds that the result of a task is kept."
    )
    undo_calls: int = Field(50, ge=0, description="Number of calls that can be undone. 0 keeps nothing.")
    undo_size: Size = Field(
        10 << 30, description="Size of everything kept for undo, on the workspace's disk."
    )
    keep_days: float = Field(
        0.0,
        ge=0,
        le=36_500,
        description="Days that the registry keeps the record of a call without listed outputs. 0 keeps all records.",
    )
    audit_size: Size = Field(
        0,
        description="Size at which the audit log continues in a new file; the old one is kept next to it. 0: never.",
    )
    toolsets: Names = Field(
        ("core",),
        description="Which tools are listed: core, classic, all, or groups of algorithms such as raster or vector.",
    )
    toolboxes: Names = Field(
        ("gdal",),
        description="Toolboxes, each with its own image: gdal; python, which runs code that a model writes; augment, for training data.",
    )
    classifiers: Place | None = Field(
        None,
        description="Folder in a workspace with mobilenet.onnx or cnn_explainer.onnx, for the check of augment_image; classes in a .txt of the same name.",
    )
    tools: Names = Field((), description="Single tools to list as well, such as raster_hillshade.")
    exclude_tools: Names = Field(
        (), description="Tools and algorithms to remove, whatever other settings say."
    )
    read_only: bool = Field(default=False, description="Whether tools that can write are removed.")
    allow_sql: bool = Field(
        default=True,
        description="Whether arguments may contain SQL, one SELECT at a time. `--no-sql` turns it off.",
    )
    remote: Remote = Field(
        default_factory=lambda: RemoteSettings.model_validate({}),
        description="Hosts and buckets that the server may read for calls, whose containers have no network. A table in the settings file.",
        json_schema_extra={"shown": ""},
    )
    lockdown: bool = Field(
        default=False,
        description="Whether results omit pictures and all text from files and from GDAL.",
    )
    result_size: Annotated[int, size(4 << 10, 4 << 20)] = Field(
        48 << 10,
        description="Greatest size of a result as JSON. A longer one is available in full as a resource.",
    )
    digest_size: Size = Field(
        1 << 30, description="Input bytes of one call that are digested for its provenance."
    )
    preview: bool = Field(
        default=True, description="Whether results come with a small picture where there is something to see."
    )
    preview_pixels: int = Field(512, ge=32, le=2048, description="Longer side of the picture in pixels.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "warning", description="Least severe messages to log."
    )
    read_chunk: Annotated[int, size(4 << 10, 16 << 20)] = Field(
        256 << 10,
        description="Bytes that one read of a resource returns at most, before encoding.",
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
            raise ValueError(f"it must be the name of one folder, without a slash, and not {RESERVED}")
        return name

    @model_validator(mode="after")
    def _of_clusters(self) -> "Settings":
        """Raises ValueError for settings that a cluster does not support, or that only a cluster supports.

        On a cluster only whole workspaces are safe: a node follows links in a volume, and creates a missing file as a
        folder of root.
        """
        if self.on_cluster and self.mount_scope == "inputs":
            raise ValueError(
                "mount_scope = inputs is not safe on a cluster: its nodes follow links in a volume, and create a folder of root "
                "in place of a missing file. Remove the setting, so that calls see whole workspaces"
            )
        if self.nodes_without and not self.on_cluster:
            raise ValueError("nodes_without needs a cluster as the engine, such as engine = k8s://")
        if not self.on_cluster and (self.pull_secrets or self.cluster_ca != "strict"):
            raise ValueError(
                "pull_secrets and cluster_ca need a cluster as the engine, such as engine = k8s://"
            )
        return self

    @model_validator(mode="after")
    def _check_folders(self) -> "Settings":
        """Raises ValueError if the state folder overlaps a workspace, or if a trusted file or a link on the way to it
        is in one.
        """
        trusted = {file: tuple(lookups(file)) for file in self._trusted_files() if file}
        state = tuple(lookups(self.state_dir))
        for folder in (*self.workspaces, *self.workspaces_ro):
            root = folder.resolve()
            if any(place.is_relative_to(root) for place in state) or root.is_relative_to(state[-1]):
                raise ValueError(
                    f"the state folder {self.state_dir} and the workspace {folder} overlap. Name another workspace, such as a "
                    "folder in it, or set --state-dir to a folder outside it"
                )
            for file, places in trusted.items():
                if any(place.is_relative_to(root) for place in places):
                    raise ValueError(
                        f"the file {file}, or a link on the way to it, is in the workspace {folder}; move it out"
                    )
        return self

    def _trusted_files(self) -> tuple[Path | None, ...]:
        keys = (source.service_account for source in self.remote.source)
        return (self.config, self.policy, self.tls_cert, self.tls_key, self.remote.ca, *keys)

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

    @property
    def on_cluster(self) -> bool:
        """True if each call is a Pod."""
        return (self.engine or "").startswith("k8s://")

    def cluster_options(self) -> ClusterOptions:
        return ClusterOptions(self.cluster_ca == "lenient", self.pull_secrets)

    @property
    def state(self) -> StateFolder:
        """The paths in the state folder."""
        return StateFolder(self.state_dir)

    def limits(self) -> Limits:
        """The limits of one call."""
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
        """The number of started containers that wait for calls: none if each call needs its own mounts."""
        most = self.pool_max if self.mount_scope == "workspaces" else 0
        return Sizes(self.pool_min, most, self.pool_seconds)

    def require_workspaces(self) -> None:
        """Raises SettingsError if no workspace is set."""
        if not self.workspaces and not self.workspaces_ro:
            raise SettingsError(
                "No workspace is set, so no call could read or write anything. Name a folder with "
                f"--workspace DIR, {PREFIX}WORKSPACES, or `workspaces` in the settings file."
            )
