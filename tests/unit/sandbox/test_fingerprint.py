"""A change in the code of the sandbox causes a new attestation of the host."""

import shutil
from importlib import resources
from pathlib import Path

from sandbox.attestation import fingerprint

SANDBOX = Path(str(resources.files("sandbox")))


def test_every_file_of_the_sandbox_counts(tmp_path: Path):
    copy = Path(shutil.copytree(SANDBOX, tmp_path / "sandbox", ignore=shutil.ignore_patterns("__pycache__")))
    assert fingerprint(copy) == fingerprint()
    for path in [file for file in copy.rglob("*") if file.is_file()]:
        text = path.read_bytes()
        path.write_bytes(text + b"# stricter")
        assert fingerprint(copy) != fingerprint(), path
        path.write_bytes(text)
    (copy / "new.py").touch()
    assert fingerprint(copy) != fingerprint()
