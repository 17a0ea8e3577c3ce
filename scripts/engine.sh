#!/bin/sh
# Sees to it that there is a container engine: uses the first on which a container starts. Where none does, root on Debian and Ubuntu
# gets crun, then runc, and Docker only where neither starts a container; with `docker` as the argument, as the tests want it, Docker is
# started or installed where it may be.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh

wait_seconds=60 # a first start makes its storage and loads kernel modules; it takes a few
log=/var/log/dockerd-gdal-mcp.log

wanted=${1:-any}

find_engine() {
    if [ "$wanted" = docker ]; then
        .venv/bin/python -m scripts.find_engine --daemon
    else
        .venv/bin/python -m scripts.find_engine
    fi
}

answers() {
    find_engine >/dev/null 2>&1
}

has_systemd() {
    [ -d /run/systemd/system ]
}

# After a crash a pid file may name a process that is something else by now; dockerd would then refuse to start, or
# wait for a containerd that is none.
drop_stale_pid() {
    [ -f "$1" ] || return 0
    pid=$(cat "$1")
    [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$2" ] || rm -f "$1"
}

drop_stale_pids() {
    drop_stale_pid /var/run/docker.pid dockerd
    drop_stale_pid /var/run/docker-ssd.pid dockerd
    drop_stale_pid /var/run/docker/containerd/containerd.pid containerd
}

# Waits until the engine answers, showing that it does; gives up when `$1`, a test for the daemon's life, fails.
await() {
    waited=0
    printf 'waiting for the engine'
    while [ "$waited" -lt "$wait_seconds" ]; do
        sleep 1
        waited=$((waited + 1))
        printf '.'
        if answers; then
            printf ' it answers\n'
            return 0
        fi
        "$1" || break
    done
    printf ' it does not answer\n'
    return 1
}

always() {
    true
}

daemon_runs() {
    kill -0 "$daemon" 2>/dev/null
}

start_service() {
    if has_systemd; then
        systemctl start docker && await always
    elif [ -x /etc/init.d/docker ]; then
        service docker start >/dev/null 2>&1 && await service_runs
    else
        return 1
    fi
}

service_runs() {
    [ "$waited" -lt 3 ] || service docker status >/dev/null 2>&1
}

# Without an init system: our own process group, so that it outlives this terminal.
start_daemon() {
    step "starting dockerd; its log is $log"
    setsid nohup dockerd "$@" >"$log" 2>&1 </dev/null &
    daemon=$!
    await daemon_runs
}

start_engine() {
    drop_stale_pids
    step "starting Docker"
    start_service && return 0
    if has_systemd; then
        journalctl --no-pager --unit docker --lines 20 >&2 || true
        fail "Docker was started but does not answer" "See above, and: systemctl status docker"
    fi
    drop_stale_pids
    start_daemon && return 0
    # Kernels without netfilter cannot have Docker's bridge; no container of ours has a network, so none is needed.
    if grep -qiE 'iptables|nftables|network controller' "$log"; then
        step "this kernel does not let Docker make its network; starting it without"
        drop_stale_pids
        start_daemon --iptables=false --ip6tables=false --bridge=none && return 0
    fi
    tail -n 20 "$log" >&2
    fail "Docker was started but does not answer" "Its last words are above; all of them are in $log"
}

# Ends the script when there is an engine. Returns what discovery ended with otherwise, and leaves what it said in $engine.
use_engine() {
    engine=$(find_engine 2>&1) || return
    step "container engine: $engine"
    exit 0
}

# What the tests run containers with beside Docker; others than root cannot.
if [ "$wanted" = docker ] && may_install; then
    missing=""
    for program in crun runc skopeo umoci; do
        command -v "$program" >/dev/null 2>&1 || missing="$missing $program"
    done
    # shellcheck disable=SC2086
    [ -z "$missing" ] || apt_install $missing
fi
use_engine && code=0 || code=$?
if [ "$code" -ne 1 ]; then # one was named, or this user may not use the one there is, so installing another would not help
    printf '%s\n' "$engine" >&2
    exit 1
fi
if [ "$wanted" != docker ] && may_install; then
    # where AppArmor is on, the server loads a profile for its containers
    profiles=""
    [ "$(cat /sys/module/apparmor/parameters/enabled 2>/dev/null)" != Y ] || profiles=apparmor
    for program in crun runc; do
        command -v "$program" >/dev/null 2>&1 && continue
        # shellcheck disable=SC2086
        (apt_install "$program" $profiles) || continue
        use_engine || true
    done
    printf '%s\n' "$engine"
    step "neither crun nor runc starts a container here, for the reasons above; using Docker"
fi
if ! command -v dockerd >/dev/null 2>&1; then
    # apparmor and ca-certificates are only recommended by docker.io: the first confines containers, the second is
    # for the registry
    packages="docker.io apparmor ca-certificates"
    if ! may_install; then
        printf '%s\n' "$engine" >&2
        # shellcheck disable=SC2086
        fail "there is no container engine, and only root on Debian or Ubuntu can have one installed here" \
            "$(install_command $packages)"
    fi
    # shellcheck disable=SC2086
    apt_install $packages
fi
if ! answers; then
    if [ "$(id -u)" -ne 0 ]; then
        printf '%s\n' "$engine" >&2
        has_systemd && how="sudo systemctl start docker" || how="sudo service docker start"
        fail "Docker is installed but you cannot use it" "Run: $how"
    fi
    start_engine
fi
use_engine || fail "Docker answers, but no container of ours starts on it" "$engine"
