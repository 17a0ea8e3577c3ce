#!/bin/sh
# Makes .venv with exactly the locked dependencies and this project, editable. Does nothing when that is so already.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh

lock=requirements/dev.txt

# A virtual environment holds absolute paths, so a moved clone needs another.
locked() {
    sha256sum <"$lock"
    pwd
}

declared() {
    sha256sum <pyproject.toml
}

# Does .venv still stand for what the function $1 says?
is_stamped() {
    [ -f ".venv/.$1" ] && [ "$(cat ".venv/.$1")" = "$("$1")" ]
}

works() {
    .venv/bin/python -c '' 2>/dev/null
}

find_python() {
    for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            say "$candidate"
            return 0
        fi
    done
    return 1
}

require_venv_module() {
    "$1" -c 'import ensurepip, venv' 2>/dev/null && return 0
    package="$(basename "$1")-venv" # Debian splits it off
    may_install || fail "$1 cannot make virtual environments" "$(install_command "$package")"
    apt_install "$package"
}

# What pip says is shown when it fails: its warnings are about this machine's settings for pip.
install() {
    log=.venv/pip.log
    .venv/bin/python -m pip install --no-input --disable-pip-version-check "$@" >"$log" 2>&1 && return 0
    tail -n 30 "$log" >&2
    fail "pip could not install what this project needs" "The end of what it said is above, all of it in $log"
}

make_environment() {
    python=$(find_python) ||
        fail "Python 3.11 or newer is needed" "Install it, or name one: make setup PYTHON=/path/to/python3"
    require_venv_module "$python"
    step "making .venv with $("$python" --version) and the locked dependencies; this takes about a minute"
    rm -rf .venv
    "$python" -m venv .venv
    # the lock is complete, so nothing is to be resolved; what is used compiles itself
    install --no-deps --no-compile --require-hashes --requirement "$lock"
    locked >.venv/.locked
}

# Two at once, in two terminals say, would remove each other's; the lock ends with this script. macOS has no flock.
exec 9<"scripts/venv.sh"
! command -v flock >/dev/null || flock 9
if ! is_stamped locked || ! works; then
    make_environment
fi
if ! is_stamped declared; then
    install --no-deps --no-build-isolation --editable .
    declared >.venv/.declared
fi
