#!/bin/sh
# Sees to it that there is a Chromium for the tests of the console: uses the one there is, else installs it where it may.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh

# The names under which distributions have it; the tests look for the same.
find_browser() {
    command -v chromium || command -v chromium-browser || command -v google-chrome
}

if browser=$(find_browser); then
    say "browser: $browser"
    exit 0
fi
# a font, since a page without one measures as nothing on a phone
packages="chromium fonts-dejavu-core"
if ! may_install; then
    # shellcheck disable=SC2086
    fail "there is no Chromium, which the tests of the console drive, and only root on Debian or Ubuntu can have one installed here" \
        "$(install_command $packages)"
fi
# shellcheck disable=SC2086
apt_install $packages
browser=$(find_browser) || fail "Chromium was installed but is not found under any of its names" "Look where it is: dpkg -L chromium"
say "browser: $browser"
