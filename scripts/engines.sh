#!/bin/sh
# Installs what the tests of engines need, where it is missing and may be installed: Podman, gVisor, and rootlesskit for a rootless Docker.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh

# Podman, a low-level runtime for it, and what it needs as a user.
podman_packages="podman crun uidmap slirp4netns"

# Debian has gVisor among its packages, Ubuntu has not.
has_package() {
    [ -n "$(apt-cache show --no-all-versions "$1" 2>/dev/null)" ]
}

missing=""
command -v podman >/dev/null 2>&1 || missing=$podman_packages
command -v rootlesskit >/dev/null 2>&1 || missing="$missing rootlesskit uidmap"
# What both need as a user whose control groups systemd delegates.
command -v slirp4netns >/dev/null 2>&1 || missing="$missing slirp4netns"
[ -e /usr/lib/systemd/user/dbus.socket ] || missing="$missing dbus-user-session"
command -v curl >/dev/null 2>&1 || missing="$missing curl"
# A share as a desktop's machine has it, for the tests of the server's image.
command -v bindfs >/dev/null 2>&1 || missing="$missing bindfs"
if ! command -v runsc >/dev/null 2>&1; then
    if has_package runsc; then
        missing="$missing runsc"
    else
        say "gVisor is not among the packages of this system, so that its tests say that it was not tried here"
    fi
fi
if [ -z "$missing" ]; then
    say "further engines: $(podman --version)$(command -v runsc >/dev/null 2>&1 && printf ', gVisor')"
    exit 0
fi
if ! may_install; then
    # shellcheck disable=SC2086
    fail "the tests of engines need Podman and gVisor, and only root on Debian or Ubuntu can have them installed here" \
        "$(install_command $missing)"
fi
# shellcheck disable=SC2086
apt_install $missing
command -v podman >/dev/null 2>&1 || fail "Podman was installed but is not found" "Look where it is: dpkg -L podman"
