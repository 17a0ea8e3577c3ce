"""Mounts inside a workspace, from the kernel's own table."""

from pathlib import Path

import pytest

from sandbox.errors import IsolationRefused
from sandbox.mounted import submounts

MOUNTINFO = """\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:25 / /data rw,relatime shared:1 - ext4 /dev/vdb rw
31 30 0:26 / /data/ws rw,relatime shared:2 master:3 - nfs4 server:/x rw
32 31 0:27 / /data/ws/inner rw - tmpfs tmpfs rw
33 31 0:28 / /data/ws/my\\040maps\\134x rw - tmpfs tmpfs rw
34 30 0:29 / /data/ws-other rw - tmpfs tmpfs rw
35 32 0:30 / /data/ws/inner rw - tmpfs tmpfs rw
36 31 0:31 / /data/ws/odd\x0bname\x85 rw - tmpfs tmpfs rw
"""


def test_mounts_below_a_folder_are_all_found_once():
    below = ("/data/ws/inner", "/data/ws/my maps\\x", "/data/ws/odd\x0bname\x85")
    assert submounts(Path("/data/ws"), MOUNTINFO) == below
    assert set(submounts("/data", MOUNTINFO)) == {*below, "/data/ws", "/data/ws-other"}
    for place in ("/data/ws-other", "/data/w"):
        assert submounts(place, MOUNTINFO) == ()


def test_a_text_that_is_not_mountinfo_is_refused():
    for text in ["", "\n", "not mountinfo\n", "22 1 254:0 / / rw\n", MOUNTINFO + "40 22 0:1\n"]:
        with pytest.raises(IsolationRefused):
            submounts("/data/ws", text)


def test_this_machine_s_own_table_is_understood():
    assert "/proc" in submounts("/", Path("/proc/self/mountinfo").read_text(errors="surrogateescape"))
