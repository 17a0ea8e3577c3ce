"""The protocol over HTTP with real clients, containers and tokens."""

import pytest

from tests.mcp.talk import ERAS
from tests.web.hosted import Hosted

pytestmark = pytest.mark.engine


@pytest.mark.parametrize("era", ERAS)
def test_a_call_runs_in_a_container_as_the_principal_of_its_token(http_server: Hosted, ann: str, era: str):
    with http_server.talking(ann, era) as talk:
        result = talk.done("info", path="dem.tif")
    call = result["receipt"]["call_id"]
    mine = [event for event in http_server.place.audited if event.get("call") == call]
    assert mine
    assert {event["subject"]["principal"] for event in mine} == {"token:ann"}
