"""The report about a workspace that the container's user cannot reach names the user and the closed folder."""

from dataclasses import replace

from sandbox.isolation.probe_rules import FILES
from sandbox.isolation.rows import Evidence, ProbedFolder, judged
from tests.unit.sandbox.hardening_kit import TEMPLATE

BOOT = "9f1c"


def rows(path: str, *options: str):
    probed = {path: ProbedFolder(1, 2, "ab")}
    look = {"files": {"boot": BOOT, "nonces": {}, "folders": {path: (0, 0, "EACCES")}}}
    template = replace(TEMPLATE, user=(65534, 65534))
    return judged(FILES, Evidence(template, look=look, folders=probed, boot=BOOT, security_options=options))


def test_closed_image_folder_above_workspace_names_the_user():
    [row] = [row for row in rows("/root/maps") if "/root/maps" in row.name]
    assert not row.ok
    assert "65534:65534" in row.found
    assert "/root," in row.found
    assert "/root" not in next(row for row in rows("/data/maps") if "/data/maps" in row.name).found


def test_selinux_advice_names_the_container_label():
    [row] = [row for row in rows("/data/my maps", "name=selinux") if "/data/my maps" in row.name]
    assert not row.ok
    assert "container_file_t '/data/my maps'" in row.found
    assert "container_file_t" not in str(rows("/data/my maps"))
