"""The address of a cluster's API and this server's credentials, from its Pod's service account or a kubeconfig."""

import base64
import os
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Final, Self

from sandbox.engine import ClusterOptions
from sandbox.errors import EngineUnavailable

SCHEME: Final = "k8s://"
NAMESPACE: Final = "gdal-calls"  # default namespace for the Pods of calls; never the server's own
_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True)
class Cluster:
    """One API server. `token` is called before each request, because a Pod's token is replaced every hour."""

    server: str  # https://host:port, without a trailing slash
    namespace: str
    tls: ssl.SSLContext
    token: Callable[[], str] = lambda: ""
    pull_secrets: tuple[str, ...] = ()

    @classmethod
    def from_address(cls, address: str, options: ClusterOptions = ClusterOptions()) -> Self:  # noqa: B008 - a frozen value
        """The cluster at an address `k8s://[CONTEXT][/NAMESPACE]`. Raises EngineUnavailable.

        Without a context, it is the cluster of the Pod that this server runs in, or else the current context of the
        kubeconfig.
        """
        context, _, namespace = address.removeprefix(SCHEME).partition("/")
        if not context and (_ACCOUNT / "token").exists():
            host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
            return cls(
                f"https://{f'[{host}]' if ':' in host else host}:{port}",
                namespace or NAMESPACE,
                _tls_context((_ACCOUNT / "ca.crt").read_text(encoding="utf-8"), options),
                lambda: (_ACCOUNT / "token").read_text(encoding="ascii").strip(),
                options.pull_secrets,
            )
        path = Path(os.environ.get("KUBECONFIG") or Path.home() / ".kube/config")
        try:
            return cls.from_kubeconfig(path, context, namespace, options)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise EngineUnavailable(
                f"{path} does not say how to reach the cluster: {type(error).__name__}: {error}. Correct it, or name "
                "another with KUBECONFIG."
            ) from error

    @classmethod
    def from_kubeconfig(
        cls,
        path: Path,
        context: str = "",
        namespace: str = "",
        options: ClusterOptions = ClusterOptions(),  # noqa: B008 - a frozen value
    ) -> Self:
        """The cluster of a context in a kubeconfig file.

        Raises OSError, ValueError, KeyError or TypeError if the file is missing or invalid.
        """
        import yaml  # noqa: PLC0415 - a server in the cluster has no such file

        loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
        chosen = _entry(loaded, "context", context or loaded["current-context"])
        cluster, user = _entry(loaded, "cluster", chosen["cluster"]), _entry(loaded, "user", chosen["user"])
        server = str(cluster["server"]).rstrip("/")
        if not server.startswith("https://") or cluster.get("insecure-skip-tls-verify"):
            raise ValueError("the API is not reached by verified TLS")
        if unknown := {"exec", "auth-provider", "username"} & set(user):
            raise ValueError(
                f"{', '.join(unknown)} is not supported; use a token of a service account, or a certificate"
            )
        folder = path.parent
        authority = _read_material(cluster, "certificate-authority", folder)
        tls = _tls_context(authority.decode() if authority else None, options)
        certificate, key = (
            _read_material(user, name, folder) for name in ("client-certificate", "client-key")
        )
        if certificate:
            # OpenSSL only reads certificates from a file; other users cannot read this one
            with NamedTemporaryFile() as file:
                file.write(certificate + b"\n" + key)
                file.flush()
                tls.load_cert_chain(file.name)
        space = namespace or chosen.get("namespace") or NAMESPACE
        return cls(server, space, tls, _token_of(user, folder), options.pull_secrets)


def _tls_context(authority: str | None, options: ClusterOptions) -> ssl.SSLContext:
    """A TLS context that trusts these certificates, or the system's if there are none."""
    context = ssl.create_default_context(cadata=authority)
    if options.lenient_ca:
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _entry(loaded: Mapping[str, Any], kind: str, name: str) -> Mapping[str, Any]:
    entries: dict[str, Mapping[str, Any]] = {entry["name"]: entry[kind] for entry in loaded[f"{kind}s"]}
    return entries[name]


def _read_material(entry: Mapping[str, Any], name: str, folder: Path) -> bytes:
    """A certificate or key of a kubeconfig entry; empty if the entry has none.

    The entry contains it as base64 or names a file.
    """
    if text := entry.get(f"{name}-data"):
        return base64.b64decode(text)
    return (folder / entry[name]).read_bytes() if entry.get(name) else b""


def _token_of(user: Mapping[str, Any], folder: Path) -> Callable[[], str]:
    if "tokenFile" in user:
        place = folder / user["tokenFile"]
        return lambda: place.read_text(encoding="ascii").strip()
    token = str(user.get("token") or "")
    return lambda: token
