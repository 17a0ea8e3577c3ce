"""Reads the text of a path, which is a path or a `file:` URI, and refuses text that could mislead."""

import re
import unicodedata
from urllib.parse import unquote, urlsplit

from sandbox.errors import PathRefused

MAX_PATH = 4096  # PATH_MAX
MAX_NAME = 255  # NAME_MAX
# `C:\\maps\\a.tif`, `C:/maps/a.tif`, the path of `file:///C:/maps/a.tif`, and Windows's own path of a file in WSL
_WINDOWS = re.compile(r"/?([A-Za-z]):[\\/]|\\\\wsl(?:\$|\.localhost)\\[^\\]+")
# Unicode categories of characters that forge lines in logs and questions, or hide or reorder the letters of a name
_HIDING = frozenset({"Cc", "Cf", "Zl", "Zp"})
_JOINERS = "\u200c\u200d"  # also in "Cf", but Persian, Indic scripts and emoji need them


def path_of(text: str) -> str:
    """The path in a text: the text itself, or the path of a `file:` URI. Nothing is expanded or globbed. Raises PathRefused."""
    if not text:
        raise PathRefused("the path is empty.")
    if text.lower().startswith("file:"):
        _refuse_controls(text)  # urlsplit would drop some of them without an error
        try:
            uri = urlsplit(text)
        except ValueError as error:
            raise PathRefused("this file: URI cannot be read.") from error
        local = uri.netloc in ("", "localhost") and uri.path.startswith("/")
        if not local or "?" in text or "#" in text:
            raise PathRefused(
                "only file:///absolute/path names a local file; ? and # are written %3F and %23."
            )
        text = unquote(uri.path, errors="surrogateescape")
    refuse_unprintable(text)
    _refuse_windows(text)
    return text


def _refuse_windows(text: str) -> None:
    """Raises PathRefused for a Windows path, which Linux would take for the name of a file in the first workspace."""
    if (match := _WINDOWS.match(text)) is None:
        return
    start = f"/mnt/{match[1].lower()}/" if match[1] else ""
    in_wsl = start + text[match.end() :].replace("\\", "/")
    raise PathRefused(
        f"{text!r} is a Windows path, and the server runs on Linux. In WSL it is {in_wsl!r}; for a server in a container use "
        f"the path in the container. For a file that really has this name, write './{text}'."
    )


def refuse_unprintable(text: str) -> None:
    _refuse_controls(text)
    try:
        length = len(text.encode())
    except UnicodeEncodeError as error:
        raise PathRefused("the path is not valid Unicode.") from error
    if length >= MAX_PATH or any(len(part.encode()) > MAX_NAME for part in text.split("/")):
        raise PathRefused("the path, or a name in it, is longer than the file system allows.")


def _refuse_controls(text: str) -> None:
    if has_hidden_chars(text):
        raise PathRefused("the path holds a control or invisible character, or a line separator.")


def has_hidden_chars(text: str) -> bool:
    """True if the displayed name could differ from the name that is opened."""
    return any(unicodedata.category(letter) in _HIDING and letter not in _JOINERS for letter in text)
