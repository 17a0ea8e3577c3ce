"""When a server over HTTP starts, and when it refuses to."""

import datetime as dt
import ipaddress
import ssl
from pathlib import Path

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.cli.conftest import DEAD, gdal_mcp
from tests.web.hosted import PORT, hosting, made_token

pytestmark = pytest.mark.engine


@pytest.mark.claim("http.no-open-door")
def test_a_server_that_strangers_could_listen_to_ends_with_a_word_and_listens_nowhere(
    make_place,
):
    place = make_place()
    made_token(place, "ann")
    ended = gdal_mcp(*place.command(*PORT, *DEAD, "--host", "0.0.0.0")[3:])
    assert (ended.code, ended.stdout) == (2, "")
    assert ended.stderr.startswith("gdal-mcp: ")


def test_with_a_certificate_it_speaks_tls_and_nothing_else(make_place, grounds, tmp_path):
    cert, key = certified(tmp_path)
    options = (*DEAD, "--tls-cert", str(cert), "--tls-key", str(key))
    with hosting(make_place(), grounds / "tls.log", *options) as hosted:
        assert hosted.url.startswith("https://")
        trust = ssl.create_default_context(cafile=str(cert))
        with httpx2.Client(verify=trust) as client:
            assert client.get(f"{hosted.base}/healthz").text == "ok\n"
            assert client.post(hosted.url).status_code == 401
        with pytest.raises(httpx2.HTTPError):
            httpx2.get(hosted.base.replace("https:", "http:") + "/healthz")


def certified(folder: Path) -> tuple[Path, Path]:
    """A certificate of 127.0.0.1 that it signed itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "gdal-mcp test")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    cert_path, key_path = folder / "cert.pem", folder / "key.pem"
    cert_path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return cert_path, key_path
