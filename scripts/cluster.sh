#!/usr/bin/env bash
# A Kubernetes of one node, for the tests, out of Debian's packages: its source package has the control plane, which Debian does
# not build. Ten minutes the first time, half a minute after that. Nothing is installed but what the build needs; no service starts.
#
#   cluster.sh up            makes it; tells where its kubeconfig is
#   cluster.sh load IMAGE    gives the node an image of Docker's; tells by which name@digest Pods have it
#   cluster.sh down          ends it, and removes all but what was built
#   cluster.sh run COMMAND   runs a command beside one that it ends again, or beside the one that is there already: made by up, or
#                            that of KUBECONFIG; beside none where this is not root's Debian
set -Eeuo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

cache=${CLUSTER_CACHE:-/var/cache/gdal-mcp-cluster} # packages and what was built of them, a gigabyte
state=/var/lib/gdal-mcp-cluster run=/run/gdal-mcp-cluster
root=$cache/root bin=$cache/bin log=$run/log pki=$run/pki
# the address of the API as Pods are told it: it listens there itself, as nothing here forwards the addresses of services
api=10.214.0.1 services=10.214.0.0/24 pods=10.213.0.0/24 bridge=gdal-mcp0 node=node-1
etcd=https://127.0.0.1:16444 socket=$run/containerd.sock
parts="kube-apiserver kube-controller-manager kube-scheduler kubelet"
packages="etcd-server containerd runc containernetworking-plugins kubernetes-client golang-1.19-go golang-1.19-src"
pause=docker.io/library/pause:1 # the image of the process that holds a Pod's namespaces
PATH=$bin:$root/usr/bin:$root/usr/sbin:$PATH
export KUBECONFIG=${KUBECONFIG:-$run/kubeconfig}

trap 'fail "the step in line $LINENO of $0 failed" "Read what ran wrote: $log"' ERR

images() { ctr --address "$socket" --namespace k8s.io images "$@"; }

await() { # SECONDS COMMAND: until it succeeds
    local end=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $end ] || return 1
        sleep 0.2
    done
}

# --- what is built once ---

# With lists of its own, as those of the machine may lack source packages.
private_apt() {
    apt-get -qq -o Dir::Etc::sourcelist="$cache/sources.list" -o Dir::Etc::sourceparts=/dev/null \
        -o Dir::State::lists="$cache/lists" -o Acquire::Languages=none -o APT::Sandbox::User=root "$@"
}

fetch() {
    mkdir -p "$cache/lists/partial" "$cache/deb" "$root"
    apt-get indextargets --format '$(SITE) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' | grep debian | sort -u |
        while read -r site release component; do
            printf '%s %s %s %s\n' deb "$site" "$release" "$component" deb-src "$site" "$release" "$component"
        done >"$cache/sources.list"
    private_apt update
    # shellcheck disable=SC2086
    (cd "$cache/deb" && private_apt download $packages && private_apt source --download-only kubernetes)
    for one in "$cache"/deb/*.deb; do dpkg-deb -x "$one" "$root"; done
    rm -rf "$cache/src"
    mkdir -p "$cache/src/src/k8s.io"
    # --no-check: apt has compared it with the signed list already
    dpkg-source --no-check -x "$cache"/deb/kubernetes_*.dsc "$cache/src/src/k8s.io/kubernetes" >/dev/null
}

go_in_source() { # the package carries its dependencies below vendor/, not as modules
    cd "$cache/src/src/k8s.io/kubernetes"
    GOROOT=$root/usr/lib/go-1.19 GOPATH=$cache/src GOCACHE=$cache/go GO111MODULE=off GOFLAGS='' CGO_ENABLED=0 \
        PATH=$root/usr/lib/go-1.19/bin:$PATH nice "$@"
}

# The one generated file that the source package leaves out, and the API server does not compile without.
describe_api() (
    go_in_source go build -o "$bin/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
    cd "$cache/src/src/k8s.io/kubernetes"
    kinds=$(grep -rl --include='*.go' -e '+k8s:openapi-gen=' staging/src/k8s.io pkg vendor/k8s.io/kube-openapi |
        grep -v code-generator/ | xargs -n1 dirname | sort -u |
        sed -e 's#^staging/src/##' -e 's#^pkg/#k8s.io/kubernetes/pkg/#' -e 's#^vendor/##' |
        grep -vE 'sample-|apiextensions-apiserver/examples|/testdata|kubernetes/pkg/generated|code-gen' | paste -sd,)
    for one in apis/meta/v1 runtime version api/resource util/intstr; do kinds+=,k8s.io/apimachinery/pkg/$one; done
    go_in_source "$bin/openapi-gen" -i "$kinds" -p k8s.io/kubernetes/pkg/generated/openapi -O zz_generated.openapi \
        -h hack/boilerplate/boilerplate.generatego.txt -r "$cache/violations" --output-base "$cache/src/src"
)

compile() (
    version=v1.20.2 # what Debian 12 calls 1.20.5+really1.20.2; a kubelet without one is not taken in
    flags='-s -w'
    for one in component-base client-go/pkg; do
        one="-X k8s.io/kubernetes/vendor/k8s.io/$one/version"
        flags+=" $one.gitVersion=$version $one.gitMajor=1 $one.gitMinor=20"
    done
    go_in_source go build -ldflags "$flags" -o "$bin/$1.new" "k8s.io/kubernetes/cmd/$1"
    mv "$bin/$1.new" "$bin/$1" # so that a build that was cut short is not taken for one
)

compile_pause() (
    mkdir -p "$cache/src/src/pause"
    cat >"$cache/src/src/pause/main.go" <<'END'
package main

import ("os"; "os/signal"; "syscall")

func main() {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGINT, syscall.SIGTERM)
	<-end
}
END
    go_in_source go build -ldflags '-s -w' -o "$cache/src/pause" pause
    cd "$cache/src"
    tar -cf layer.tar pause
    printf '{"architecture":"%s","os":"linux","config":{"Entrypoint":["/pause"]},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
        "$(dpkg --print-architecture)" "$(sha256sum layer.tar | cut -d' ' -f1)" >config.json
    printf '[{"Config":"config.json","RepoTags":["%s"],"Layers":["layer.tar"]}]' "$pause" >manifest.json
    tar -cf "$cache/pause.tar" manifest.json config.json layer.tar
)

build() {
    for program in dpkg-source:dpkg-dev openssl:openssl ip:iproute2; do
        command -v "${program%:*}" >/dev/null || apt_install "${program#*:}"
    done
    [ ! -e "$cache/built.done" ] || return 0
    say "building Kubernetes out of Debian's source package, which takes about ten minutes"
    mkdir -p "$bin"
    fetch
    describe_api
    for one in $parts; do compile "$one"; done
    compile_pause
    touch "$cache/built.done"
    rm -rf "$cache"/{src,go,deb,lists}
}

# --- what runs ---

certificate() { # NAME SUBJECT [ALTERNATIVE NAMES]
    openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "$2" -keyout "$pki/$1.key" -out "$pki/$1.csr" 2>/dev/null
    openssl x509 -req -in "$pki/$1.csr" -CA "$pki/ca.crt" -CAkey "$pki/ca.key" -CAcreateserial -days 30 -out "$pki/$1.crt" -extfile \
        <(printf 'keyUsage=digitalSignature\nextendedKeyUsage=serverAuth,clientAuth\n%s' "${3:+subjectAltName=$3}") 2>/dev/null
}

make_keys() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=gdal-mcp-tests \
        -keyout "$pki/ca.key" -out "$pki/ca.crt" 2>/dev/null
    openssl genrsa -out "$pki/accounts.key" 2048 2>/dev/null
    certificate server /CN=kube-apiserver "IP:$api,IP:127.0.0.1"
    certificate node "/CN=$node" "IP:$address"
    certificate admin /O=system:masters/CN=admin
    cat >"$run/kubeconfig" <<END
{apiVersion: v1, kind: Config, current-context: tests, contexts: [{name: tests, context: {cluster: tests, user: admin}}],
 clusters: [{name: tests, cluster: {server: "https://$api", certificate-authority: $pki/ca.crt}}],
 users: [{name: admin, user: {client-certificate: $pki/admin.crt, client-key: $pki/admin.key}}]}
END
}

# NAME COMMAND: in the background, as the leader of a session, by whose number and start it is known again
start() {
    local name=$1
    shift
    setsid "$@" >"$log/$name" 2>&1 </dev/null &
    echo "$! $(began $!)" >"$run/$name.pid"
}

began() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }

runs() {
    [ -e "$run/$1.pid" ] || return 1
    read -r pid when <"$run/$1.pid"
    [ "$(began "$pid")" = "$when" ]
}

stop() {
    if runs "$1"; then
        kill "$pid"
        await 10 stopped "$1" || kill -9 "$pid"
    fi
}

stopped() { ! runs "$1"; }

start_etcd() {
    start etcd etcd --data-dir "$run/etcd" --listen-client-urls $etcd --advertise-client-urls $etcd --listen-peer-urls http://127.0.0.1:16445 \
        --client-cert-auth --trusted-ca-file "$pki/ca.crt" --cert-file "$pki/server.crt" --key-file "$pki/server.key" --log-level warn
    await 60 bash -c ': </dev/tcp/127.0.0.1/16444'
}

start_control_plane() {
    start kube-apiserver kube-apiserver --secure-port 443 --bind-address $api --advertise-address $api --endpoint-reconciler-type none \
        --tls-cert-file "$pki/server.crt" --tls-private-key-file "$pki/server.key" --client-ca-file "$pki/ca.crt" --anonymous-auth=false \
        --authorization-mode RBAC --allow-privileged=false --etcd-servers $etcd --etcd-cafile "$pki/ca.crt" --etcd-certfile "$pki/admin.crt" \
        --etcd-keyfile "$pki/admin.key" --service-account-issuer https://kubernetes.default.svc --service-cluster-ip-range $services \
        --service-account-key-file "$pki/accounts.key" --service-account-signing-key-file "$pki/accounts.key" \
        --kubelet-certificate-authority "$pki/ca.crt" --kubelet-client-certificate "$pki/admin.crt" --kubelet-client-key "$pki/admin.key" \
        --kubelet-preferred-address-types InternalIP
    await 120 kubectl get --raw /readyz
    # a node that is silent counts as lost after 20 s, not 40
    start kube-controller-manager kube-controller-manager --kubeconfig "$KUBECONFIG" --use-service-account-credentials --leader-elect=false \
        --service-account-private-key-file "$pki/accounts.key" --root-ca-file "$pki/ca.crt" --bind-address 127.0.0.1 --port 0 \
        --node-monitor-period 2s --node-monitor-grace-period 20s --kube-api-qps 100 --kube-api-burst 200
    start kube-scheduler kube-scheduler --kubeconfig "$KUBECONFIG" --bind-address 127.0.0.1 --port 0 --leader-elect=false
}

start_containerd() {
    # root of some virtual machines may not protect a process from a want of memory; runc fails there if it is asked to
    (echo -998 >/proc/self/oom_score_adj) 2>/dev/null && restricted=false || restricted=true
    mkdir -p "$run/cni"
    cat >"$run/cni/10-bridge.conflist" <<END
{"cniVersion": "0.4.0", "name": "tests", "plugins": [{"type": "bridge", "bridge": "$bridge", "isGateway": true, "ipMasq": false,
 "ipam": {"type": "host-local", "dataDir": "$run/ipam", "ranges": [[{"subnet": "$pods"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
END
    cat >"$run/containerd.toml" <<END
version = 2
root = "$state/containerd"
state = "$run/containerd"
[grpc]
  address = "$socket"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "$pause"
  restrict_oom_score_adj = $restricted
  cni = { bin_dir = "$root/usr/lib/cni", conf_dir = "$run/cni" }
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    options = { BinaryName = "$root/usr/sbin/runc" }
END
    start containerd containerd --config "$run/containerd.toml"
    await 60 images list
    images import "$cache/pause.tar" >/dev/null
}

start_kubelet() {
    # places that a kubelet of this age does not let be chosen
    for one in /var/log/pods /var/log/containers /var/lib/kubelet; do
        [ -e $one ] || echo $one >>"$run/made"
    done
    # SizeMemoryBackedVolumes, kubeAPIQPS: as in every version since 1.27. makeIPTablesUtilChains: the machine's rules are not ours
    cat >"$run/kubelet.yaml" <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $address
readOnlyPort: 0
healthzPort: 0
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $pki/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: $pki/node.crt
tlsPrivateKeyFile: $pki/node.key
cgroupDriver: cgroupfs
enforceNodeAllocatable: []
failSwapOn: false
makeIPTablesUtilChains: false
featureGates: {SizeMemoryBackedVolumes: true}
nodeStatusUpdateFrequency: 2s
podPidsLimit: 128
maxPods: 64
kubeAPIQPS: 50
kubeAPIBurst: 100
eventRecordQPS: 50
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 50Mi, nodefs.available: 1%, imagefs.available: 1%}
END
    start kubelet kubelet --config "$run/kubelet.yaml" --kubeconfig "$KUBECONFIG" --root-dir "$state/kubelet" --container-runtime remote \
        --container-runtime-endpoint "unix://$socket" --hostname-override $node --node-ip "$address" --cert-dir "$run/kubelet"
    await 120 ready
}

ready() { kubectl wait --for condition=Ready node/$node --timeout 1s && kubectl get serviceaccount default; }

up() {
    [ "$(id -u)" = 0 ] || fail "a cluster is made by root alone"
    [ ! -e $run ] || fail "a cluster runs already, or was left" "Run: $0 down"
    mkdir -m 700 $state $run # the keys are for root alone
    mkdir $log $pki
    build
    address=$(ip -4 -o address show scope global | awk 'NR == 1 { sub("/.*", "", $4); print $4 }')
    [ -n "$address" ] || fail "this machine has no address but its loopback's"
    KUBECONFIG=$run/kubeconfig
    ip address replace $api/32 dev lo
    make_keys
    start_etcd
    start_control_plane
    start_containerd
    start_kubelet
    say "KUBECONFIG=$KUBECONFIG"
}

load() {
    # both read to the end: a list that is cut short counts as failed
    images list -q | grep -x "$(docker image inspect --format '{{.Id}}' "$1")" >/dev/null || docker save "$1" | images import - >/dev/null
    found=$(images list | awk -v one="$1" '$1 == one || $1 == "docker.io/library/" one { found = $1 " " $3 } END { print found }')
    named="localhost/${1%%:*}@${found#* }"
    images tag --force "${found% *}" "$named" >/dev/null
    say "$named"
}

# Below the API, so that it works whatever is broken above.
down() {
    for one in kubelet kube-scheduler kube-controller-manager kube-apiserver etcd; do stop $one; done
    tasks="ctr --address $socket --namespace k8s.io tasks"
    for one in $($tasks ls -q 2>/dev/null); do $tasks rm --force "$one" >/dev/null 2>&1 || true; done
    stop containerd
    for one in /proc/[0-9]*; do # a shim outlives its containerd; ours are told by the socket that they were given
        { tr '\0' ' ' <"$one/cmdline"; } 2>/dev/null | grep -q -- "containerd-shim.* -address $socket " && kill -9 "${one#/proc/}"
    done || true
    awk '{ print $2 }' /proc/self/mounts | grep -E "^($state|$run)/" | sort -r | xargs -r -n1 umount -l || true
    ip link delete $bridge 2>/dev/null || true
    ip address delete $api/32 dev lo 2>/dev/null || true
    find /sys/fs/cgroup -depth -type d -path '*/kubepods*' -exec rmdir {} + 2>/dev/null || true
    [ ! -e $run/made ] || xargs -r rm -rf --one-file-system <$run/made
    rm -rf --one-file-system $state $run
}

run_beside() {
    if [ "$KUBECONFIG" != $run/kubeconfig ] || runs kube-apiserver; then
        exec "$@"
    fi
    unset KUBECONFIG
    if [ "$(id -u)" != 0 ] || ! grep -q '^VERSION_CODENAME=bookworm' /etc/os-release; then
        say "no cluster is made here: that takes root, and the packages of Debian 12"
        exec "$@"
    fi
    scripts/cluster.sh up
    trap "scripts/cluster.sh down" EXIT
    trap - ERR
    KUBECONFIG=$run/kubeconfig "$@"
}

case ${1:-} in
    up | down) "$1" ;;
    load) load "$2" ;;
    run) shift && run_beside "$@" ;;
    *) fail "what to do is not said" "$0 up, load IMAGE, down, or run COMMAND" ;;
esac
