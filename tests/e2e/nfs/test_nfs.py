"""Publication on a real NFS export, mounted by two clients that share no cache."""

from pathlib import Path

import pytest

from tests.e2e.nfs.kit import results


@pytest.mark.nightly
@pytest.mark.claim("outputs.nfs")
def test_publication_on_nfs_keeps_its_promises_or_refuses(tmp_path: Path, subtests: pytest.Subtests) -> None:
    found = results(tmp_path, ["nfsvers=4.2", "hard"])
    assert len(found) >= 8
    for name, wrong in found.items():
        with subtests.test(name):
            assert not wrong
