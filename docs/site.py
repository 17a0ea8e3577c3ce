"""Hooks of mkdocs.yml, for pages at the repository's root and links that leave the documentation."""

import posixpath
import re
from typing import Any, Final

from mkdocs.structure.files import File, Files

ROOT_PAGES: Final = ("SECURITY.md", "CONTRIBUTING.md")
_LINK: Final = re.compile(r"(\]\(|^\[[^\]\n]+\]: )([^)\s#:]+)(?=[#)\s])", re.MULTILINE)


def on_files(files: Files, config: Any) -> Files:
    for name in ROOT_PAGES:
        files.append(File.generated(config, name, abs_src_path=posixpath.join(config.docs_dir, "..", name)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Converts links, which are relative to the file's place in the repository; links to other files become links to
    their source.
    """
    place = page.file.src_uri if page.file.src_uri in ROOT_PAGES else f"docs/{page.file.src_uri}"

    def elsewhere(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(place), match[2]))
        inside = target if target in ROOT_PAGES else target.removeprefix("docs/")
        if files.get_file_from_path(inside) is None:
            kind = "blob" if "." in posixpath.basename(target) else "tree"
            return f"{match[1]}{config.repo_url}/{kind}/main/{target}"
        return f"{match[1]}{posixpath.relpath(inside, posixpath.dirname(page.file.src_uri) or '.')}"

    return _LINK.sub(elsewhere, markdown)
