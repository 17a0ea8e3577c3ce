"""The panel of a result as a page: it is self-contained, and its policy allows only its own parts.

Its behaviour in a browser is in tests/e2e/console.
"""

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest

from gdal_mcp.server.mcp import panel


class Page(HTMLParser):
    """Elements with their attributes, and the texts of scripts and styles."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        if self.elements and self.elements[-1][0] in ("script", "style") and data.strip():
            self.texts.append(data)


@pytest.fixture(scope="module")
def page() -> Page:
    [content] = panel.content().contents
    return Page(content.text)


@pytest.mark.claim("console.panel-reaches-nothing")
def test_panel_policy_allows_only_its_parts_by_digest(page: Page):
    [policy] = [attributes["content"] for _, attributes in page.elements if "http-equiv" in attributes]
    rules = {name: words for name, *words in (rule.split() for rule in policy.split(";"))}
    digests = {
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'": text
        for text in page.texts
    }
    assert set(rules.pop("script-src")) | set(rules.pop("style-src")) < set(
        digests
    )  # all except the land, which is data
    assert rules.pop("img-src") == ["data:"]
    assert rules.pop("trusted-types") == ["default"]
    assert rules.pop("require-trusted-types-for") == ["'script'"]
    assert set(map(tuple, rules.values())) == {("'none'",)}
    assert "default-src" in rules
    kinds = [tag for tag, _ in page.elements]
    assert kinds.index("meta") < kinds.index("script")
    assert not [
        attributes
        for _, attributes in page.elements
        if {"src", "href", "srcset", "action", "onload"} & attributes.keys()
    ]


def test_console_modules_are_complete_and_import_nothing(page: Page):
    own = page.texts[-1]
    assert not re.search(r"^\s*(import|export) ", own, re.MULTILINE)
    assert {"makeMap", "el", "fill"} <= set(re.findall(r"function (\w+)", own))
    declared = re.findall(r"^(?:async )?(?:function|const|let) (\w+)", own, re.MULTILINE)
    assert len(declared) == len(set(declared)), "two modules have one name, which is an error in one script"
    assert "innerHTML" not in own
