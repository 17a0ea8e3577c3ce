"""A hundred questions, each answered by everybody at once through the pages of two servers: each is decided once."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gdal_mcp.app import local_user
from gdal_mcp.ledger.audit import verify
from tests.console.conftest import sampled
from tests.console.kit import Person, links
from tests.console.rows import approvals, asked
from tests.mcp.talk import talking
from tests.waiting import until

pytestmark = pytest.mark.engine

QUESTIONS = 100


@pytest.mark.nightly
@pytest.mark.claim("approval.first-decides")
def test_each_of_a_hundred_questions_is_decided_once_by_two_servers_at_once(tmp_path: Path):
    tmp_path.chmod(0o755)
    place = sampled(tmp_path)
    command = place.command("--console", "on")
    with talking(command, tmp_path / "one.log"), talking(command, tmp_path / "two.log"):
        until(lambda: len(links(place.state)) == 2)
        rows = [asked(place, local_user().id) for _ in range(QUESTIONS)]
        people = [Person.by(base, {"ticket": ticket}) for base, _, ticket in map(_parted, links(place.state))]
        wanted = [(one, row.id) for row in rows for one in people]

        def decide(asks: tuple[Person, str]) -> dict[str, object]:
            person, approval = asks
            return {"id": approval, **person.post(f"api/decide/{approval}", {"approved": True}).json()}

        with ThreadPoolExecutor(8) as together:
            answers = list(together.map(decide, wanted))
        with approvals(place) as store:
            after = {row.id: store.look(row.id) for row in rows}
            assert {row.state for row in after.values()} == {"approved"}
            used = [store.consume(row.plan_digest, row.principal) for row in (*rows, *rows[:5])]
    mine = [answer for answer in answers if answer["yours"]]
    assert sorted(str(one["id"]) for one in mine) == sorted(after)
    assert all(
        after[str(one["id"])].decided_how == one["how"] for one in answers
    )  # everybody is told the same
    assert sum(one is not None for one in used) == QUESTIONS
    log = place.state / "audit.jsonl"
    assert verify(log).ok
    recorded = {json.loads(line)["event"].get("approval") for line in log.read_text().splitlines()}
    assert set(after) <= recorded


def _parted(link: str) -> tuple[str, str, str]:
    return link.partition("#ticket=")
