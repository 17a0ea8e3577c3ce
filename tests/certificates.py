"""Certificates of servers that the tests start."""

import datetime as dt
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def self_signed(folder: Path, *hosts: str) -> tuple[Path, Path]:
    """The files of a self-signed certificate: the certificate, and the certificate with its key.

    `hosts` are the names or addresses in the certificate, which is its own authority.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "gdal-mcp test")])
    now, day = dt.datetime.now(dt.UTC), dt.timedelta(days=1)
    hosts_named = [
        x509.IPAddress(ipaddress.ip_address(host)) if host[0].isdigit() else x509.DNSName(host)
        for host in hosts
    ]
    signed = (
        x509.CertificateBuilder(
            name, name, key.public_key(), x509.random_serial_number(), now - day, now + day
        )
        .add_extension(x509.SubjectAlternativeName(hosts_named), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    certificate, both = folder / "ca.pem", folder / "both.pem"
    certificate.write_bytes(signed.public_bytes(pem))
    both.write_bytes(private + signed.public_bytes(pem))
    return certificate, both


def of_plain_authority(folder: Path, host: str) -> tuple[Path, Path]:
    """The files of an authority without key identifiers, and of a certificate that it signed, with the key.

    Older clusters have such an authority.
    """
    now, day = dt.datetime.now(dt.UTC), dt.timedelta(days=1)
    names = [
        x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        for name in ("gdal-mcp authority", host)
    ]
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in names]
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host))])
    extensions = [x509.BasicConstraints(ca=True, path_length=None), address]
    pem, certificates = serialization.Encoding.PEM, []
    for name, key, extension in zip(names, keys, extensions, strict=True):
        builder = x509.CertificateBuilder(
            names[0], name, key.public_key(), x509.random_serial_number(), now - day, now + day
        )
        critical = isinstance(extension, x509.BasicConstraints)
        certificates.append(
            builder.add_extension(extension, critical=critical).sign(keys[0], hashes.SHA256())
        )
    private = keys[1].private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    authority, both = folder / "authority.pem", folder / "signed.pem"
    authority.write_bytes(certificates[0].public_bytes(pem))
    both.write_bytes(private + certificates[1].public_bytes(pem))
    return authority, both
