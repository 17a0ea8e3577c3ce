"""Parts of an address that are never shown are still covered by the approval."""

from dataclasses import replace
from pathlib import Path

import pytest

from gdal_mcp.approvals.question import parts, question_text
from gdal_mcp.errors import ToolError
from gdal_mcp.plan import Plan
from gdal_mcp.remote.address import parse
from gdal_mcp.remote.places import AddressTable
from gdal_mcp.remote.seal import Seal
from tests.unit.values import draft, located, output, plan

HOST = "https://data.test/x.tif"


def planned(seal: Seal, *texts: str) -> Plan:
    """A call that reads these addresses."""
    numbered = AddressTable(parse)
    places = tuple(numbered.place(text) for text in texts)
    remote_draft = replace(draft(output()), inputs=places, addresses=numbered.addresses)
    return plan(remote_draft, hidden=seal(numbered.addresses))


@pytest.fixture
def seal(tmp_path: Path) -> Seal:
    return Seal(tmp_path / "seal.key")


@pytest.mark.claim("approval.covers-hidden", "approval.bound-to-plan")
@pytest.mark.parametrize("name", ["key", "token", "sig", "st", "X-Amz-Signature", "access_token"])
def test_plan_digest_depends_on_the_secret(seal: Seal, name: str):
    first, same, other = (planned(seal, f"{HOST}?{name}={value}").digest for value in ("a", "a", "OTHER"))
    assert first == same
    assert len({first, other, planned(seal, HOST).digest}) == 3


@pytest.mark.claim("approval.covers-hidden")
def test_files_beside_an_address_are_covered_and_shown(seal: Seal):
    plain, extended = planned(seal, HOST), planned(seal, f"{HOST}#with=aux.xml,ovr,msk")
    assert plain.digest != extended.digest
    question = question_text(parts(extended, "it writes", {"tier": "runc"}))
    assert all(name in question for name in ("aux.xml", "ovr", "msk"))


@pytest.mark.claim("approval.covers-hidden")
def test_which_address_has_which_secret_is_covered(seal: Seal):
    first, second = f"{HOST}?key=a", "https://data.test/y.tif?key=b"
    swapped = f"{HOST}?key=b", "https://data.test/y.tif?key=a"
    assert planned(seal, first, second).digest != planned(seal, *swapped).digest


def test_each_state_folder_has_a_lasting_private_key(tmp_path: Path):
    addresses = (parse(f"{HOST}?key=a"),)
    (tmp_path / "other").mkdir()
    first, again, other = (Seal(tmp_path / name)(addresses) for name in ("k", "k", "other/k"))
    assert first == again != other
    assert (tmp_path / "k").stat().st_mode & 0o777 == 0o600
    assert {path.name for path in tmp_path.iterdir()} == {"k", "other"}


def test_truncated_key_is_an_error_and_not_replaced(seal: Seal):
    addresses = (parse(f"{HOST}?key=a"),)
    seal(addresses)
    seal.path.write_bytes(b"")
    with pytest.raises(ToolError):
        seal(addresses)


@pytest.mark.claim("approval.question-true")
def test_question_shows_hidden_content_and_whether_approved_before(seal: Seal):
    def question_of(text: str, before: dict[str, object] | None = None) -> str:
        return question_text(parts(planned(seal, text), "it writes", {"tier": "runc"}, before=before))

    last = parts(planned(seal, f"{HOST}?key=a"), "it writes", {"tier": "runc"})
    texts = [
        question_of(HOST),
        question_of(f"{HOST}?key=a"),
        question_of(f"{HOST}?key=a", last),
        question_of(f"{HOST}?key=b", last),
    ]
    assert len(set(texts)) == 4
    assert not any("key=a" in text or "key=b" in text for text in texts)


@pytest.mark.claim("approval.covers-hidden", "approval.changes-void-it")
def test_companion_file_of_input_is_covered():
    shape, dbf = located("in.shp"), located("in.dbf")
    changed = replace(dbf, identity=replace(dbf.identity, mtime_ns=2_000)) if dbf.identity else dbf
    digests = {plan(companions=beside).digest for beside in ((), ((shape, dbf),), ((shape, changed),))}
    assert len(digests) == 3
