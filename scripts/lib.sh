# shellcheck shell=sh
# What the set-up scripts share. Sourced, never run.

say() {
    printf '%s\n' "$*"
}

# One line of progress, with the minutes and seconds since `make` began.
step() {
    now=$(date +%s)
    passed=$((now - ${SETUP_STARTED:-$now}))
    printf '[%d:%02d] %s\n' $((passed / 60)) $((passed % 60)) "$*"
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

# Installs Debian packages. Package lists are fetched only when the ones here do not serve; what apt says is shown when it fails.
apt_install() {
    step "installing $*"
    _apt_try "$@" >/dev/null 2>&1 && return 0
    apt-get -qq update </dev/null >/dev/null 2>&1 || say "the package lists could not all be refreshed; going on with what is here"
    if ! heard=$(_apt_try "$@" 2>&1); then
        printf '%s\n' "$heard" >&2
        fail "apt-get could not install: $*" "$(install_command "$@")"
    fi
}

_apt_try() {
    # a lock held by another apt is waited for; a question would wait for ever
    DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0 \
        install --yes --no-install-recommends "$@" </dev/null
}
