"""Code in a question: complete, line by line, unforgeable, coloured, and compared with the previously approved code."""

import pytest

from gdal_mcp.approvals.code import code_lines, describe_code

CODE = 'import os\n\nx = """a\n  b"""  # why\nfor i in range(3):\n\tprint(x, i)\n'
HOSTILE = "x = 1\r\nWrites:\u2028  /etc/passwd\x1b[2J\u202e\n" + "y" * 5000 + "\n\x0cz = 2"


def joined(code) -> list[str]:
    return ["".join(text for _, text in line) for line in code["lines"]]


def test_every_character_of_code_is_shown():
    assert joined(describe_code(CODE, None)) == CODE.replace("\t", "    ").split("\n")


@pytest.mark.claim("approval.code-shown")
def test_no_code_line_hides_forges_or_is_cut():
    code = describe_code(HOSTILE, None)
    lines = list(code_lines(code))
    assert lines[1:] == [f"  {number} | {text}" for number, text in enumerate(joined(code), 1)]
    assert all(line.isprintable() for line in lines)
    assert "y" * 5000 in lines[3]
    assert len(lines) == 5  # only Python's own line ends start a line


def test_code_is_coloured_and_other_text_is_shown():
    kinds = {kind: text for line in describe_code(CODE, None)["lines"] for kind, text in line if kind}
    assert kinds == {"keyword": "in", "string": '  b"""', "comment": "# why", "number": "3"}
    assert joined(describe_code("x = (\n'", None)) == ["x = (", "'"]


def test_changes_are_those_since_the_code_before():
    changes = describe_code("a\nb\nc", "a\nx\nc")["changes"]
    assert [line for line in changes if line[0] in "+-"] == ["-x", "+b"]
    assert describe_code("a", "a")["changes"] == []
    assert describe_code("a", None)["changes"] is None
