# shellcheck shell=sh
# What the set-up scripts share. Sourced, never run.

say() {
    printf '%s\n' "$*"
}

# Says what happened and what to do next, then ends.
fail() {
    printf 'setup: %s\n' "$@" >&2
    exit 1
}

# Can packages be installed here without asking anyone?
may_install() {
    [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1
}

# What a person would type for the same packages.
install_command() {
    if command -v apt-get >/dev/null 2>&1; then
        say "Run: sudo apt-get update && sudo apt-get install --yes --no-install-recommends $*"
    else
        say "Install what your system calls these Debian packages: $*"
    fi
}

# Installs Debian packages. Package lists are fetched only when the ones here do not serve.
apt_install() {
    say "installing $*"
    _apt_try "$@" >/dev/null 2>&1 && return 0
    apt-get -qq update </dev/null || say "the package lists could not all be refreshed; going on with what is here"
    _apt_try "$@" || fail "apt-get could not install: $*" "$(install_command "$@")"
}

_apt_try() {
    # a lock held by another apt is waited for; a question would wait for ever
    DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0 \
        install --yes --no-install-recommends "$@" </dev/null
}
