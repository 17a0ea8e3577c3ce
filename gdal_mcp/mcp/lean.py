"""Imports the MCP SDK in about half its time, by leaving for later what no first answer needs.

* A model or adapter of Pydantic is built when it is first used, not when it is defined. A session uses few of 500.
* `mcp` and `mcp.server` are there without having run: their own code imports the client and the high-level server.
  It runs as soon as anything asks for a name that is not there yet.
* uvicorn is not found. The SDK's HTTP transport looks for it and does without.

All of it ends with the block. What the block imported stays as it is, complete to whoever uses it.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any, Final

import pydantic

_SHELLS: Final = ("mcp", "mcp.server")  # a package before what is in it
_DISPENSABLE: Final = ("uvicorn",)
_DEFERRED: Final = pydantic.ConfigDict(defer_build=True)

_filling = threading.RLock()


@contextmanager
def lean_imports() -> Iterator[None]:
    """What is imported of the SDK in the block is imported leanly. For the start of a process, when it has one thread."""
    with ExitStack() as stack:
        for measure in (_late_models, _late_adapters, _shells, _without_dispensable):
            stack.enter_context(measure())
        yield


@contextmanager
def _late_models() -> Iterator[None]:
    """A class takes the configuration of its bases when it is made, and so keeps this one."""
    rebuild = pydantic.BaseModel.model_rebuild

    def unhurried(cls: type[pydantic.BaseModel], /, **given: Any) -> bool | None:
        """A model that is used is rebuilt with arguments; without any, a module only asks for it to be done early."""
        return rebuild.__func__(cls, **given) if given else None  # type: ignore[attr-defined]

    config = pydantic.ConfigDict(**{**pydantic.BaseModel.model_config, **_DEFERRED})
    with (
        _replaced(pydantic.BaseModel, "model_config", config),
        _replaced(pydantic.BaseModel, "model_rebuild", classmethod(unhurried)),
    ):
        yield


@contextmanager
def _late_adapters() -> Iterator[None]:
    """An adapter has no base to take it from. One whose type is a text could not be built late; the SDK has none."""
    begin: Callable[..., None] = pydantic.TypeAdapter.__init__

    def unhurried(self: Any, one: Any, *, config: Any = None, **given: Any) -> None:
        try:
            begin(self, one, config=config or _DEFERRED, **given)
        except pydantic.PydanticUserError:  # a type with a configuration of its own, which holds
            begin(self, one, config=config, **given)

    with _replaced(pydantic.TypeAdapter, "__init__", unhurried):
        yield


@contextmanager
def _replaced(owner: type, name: str, value: object) -> Iterator[None]:
    before = vars(owner)[name]
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


class _Shell(ModuleType):
    """A package that has not run: its modules can be imported, and it runs when a name is missing."""

    _begun = False

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__all__":  # the import system's own questions
            raise AttributeError(name)
        with _filling:  # other threads wait for the whole of it
            if not self._begun:
                self._begun = True
                assert self.__spec__ is not None
                assert self.__spec__.loader is not None
                self.__spec__.loader.exec_module(self)
                self.__class__ = ModuleType  # type: ignore[assignment]
        return ModuleType.__getattribute__(self, name)


@contextmanager
def _shells() -> Iterator[None]:
    """They outlive the block: what is imported later finds them, and fills them if it must."""
    for name in _SHELLS:
        if name not in sys.modules and (spec := find_spec(name)) is not None:
            shell = module_from_spec(spec)
            shell.__class__ = _Shell
            sys.modules[name] = shell
            package, _, own = name.rpartition(".")
            if package:
                setattr(sys.modules[package], own, shell)
    yield


@contextmanager
def _without_dispensable() -> Iterator[None]:
    """None in the place of a module is how the import system is told that there is no such module."""
    hidden = [name for name in _DISPENSABLE if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]
