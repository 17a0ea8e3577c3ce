"""A separate rootless Docker: dockerd in a user namespace of an ordinary user, as `dockerd-rootless.sh` starts it."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.engines.kit import not_tried
from tests.private_engine import engine_answers
from tests.waiting import until

NEEDED = ("dockerd", "rootlesskit", "newuidmap")
_ANSWER_SECONDS = 90.0
# the kernel gives a user additional ids only from /etc/subuid and /etc/subgid, so files of the tests are mounted over them, for this process only
_BECOME = """\
mount --bind "$1/ids" /etc/subuid && mount --bind "$1/ids" /etc/subgid
exec setpriv --reuid="$2" --regid="$2" --clear-groups env -i HOME="$1/home" XDG_RUNTIME_DIR="$1/run" PATH="$PATH" \\
    rootlesskit --state-dir="$1/kit" --net=host --copy-up=/etc --copy-up=/run --propagation=rslave sh -c '
        rm -f /run/docker /run/containerd /run/xtables.lock
        exec dockerd --rootless --host="unix://$0/docker.sock" --data-root="$0/data" --exec-root="$0/run/exec" \\
            --pidfile="$0/docker.pid" --bridge=none --iptables=false --ip6tables=false' "$1"
"""


class RootlessDocker:
    """A rootless Docker of an ordinary user that answers at `address`."""

    def __init__(self, folder: Path, user: int) -> None:
        self.folder, self.user = folder, user
        self.address = f"unix://{folder / 'docker.sock'}"
        self.log = folder / "log"

    def answers(self) -> bool:
        return engine_answers(self.address)


@contextlib.contextmanager
def rootless_docker(user: int) -> Iterator[RootlessDocker]:
    """A started rootless Docker, stopped and removed at the end.

    Its folder belongs to the user and has a short name, because the length of a socket's path is limited.
    """
    if os.geteuid() != 0:
        not_tried("rootless Docker", "only root can start one of another user")
    missing = [name for name in NEEDED if shutil.which(name) is None]
    assert not missing, f"{', '.join(missing)} is not here. `make engines` installs it where it may."
    folder = Path(tempfile.mkdtemp(prefix="gme-rl-"))
    for subfolder in ("", "home", "run", "data"):
        (folder / subfolder).mkdir(mode=0o755, exist_ok=True)
        os.chown(folder / subfolder, user, user)
    folder.chmod(0o755)
    (folder / "ids").write_text(f"{pwd.getpwuid(user).pw_name}:300000:65536\n")
    engine = RootlessDocker(folder, user)
    words = ("unshare", "--mount", "sh", "-c", _BECOME, "sh", str(folder), str(user))
    with engine.log.open("wb") as log:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder)
    try:
        until(lambda: engine.answers() or process.poll() is not None, _ANSWER_SECONDS)
        assert process.poll() is None, engine.log.read_text()[-2000:]
        yield engine
    finally:
        process.send_signal(signal.SIGTERM)  # rootlesskit forwards it to dockerd
        process.wait(_ANSWER_SECONDS)
        shutil.rmtree(folder, ignore_errors=True)
