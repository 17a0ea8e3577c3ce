"""The answer in a repeated request is for its own question only."""

import json
from types import SimpleNamespace
from typing import Any, cast

import mcp_types as t
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from gdal_mcp.server.mcp.elicitation import KEY, Elicitation


def test_first_answer_does_not_answer_the_second_question():
    params = t.CallToolRequestParams(
        name="workflow_run",
        input_responses={KEY: t.ElicitResult(action="accept")},
        request_state=json.dumps({"approval": "0123", "page": False}),
    )
    context = SimpleNamespace(protocol_version=next(iter(MODERN_PROTOCOL_VERSIONS)))
    first = Elicitation(cast("Any", context), params, "ann")
    answer = first.answered()
    assert answer is not None
    assert (answer[0], answer[1] and answer[1].approved) == ("0123", True)
    assert first.again().answered() is None
