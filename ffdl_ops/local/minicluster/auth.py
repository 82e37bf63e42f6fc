"""The token, the certificate, and the kubeconfig that holds both.

The token never travels in clear: kubectl sends none over plain HTTP, so the kubeconfig says https, with a certificate of the
server's own authority. The same port answers plain HTTP too, for readiness checks and tests on loopback.
"""

from __future__ import annotations

import base64
import datetime
import hmac
import ipaddress
import os
import secrets
import ssl
from dataclasses import dataclass
from pathlib import Path

import yaml

__all__ = ["Credentials", "load_credentials", "write_kubeconfig"]

_DAYS = 3650


@dataclass(frozen=True, repr=False)
class Credentials:
    """Who may ask, and how the server proves itself.

    :param token: the bearer token; never printed.
    :param authority: the authority's certificate, PEM.
    :param certificate: the server's, PEM file with its key.
    """

    token: str
    authority: bytes
    certificate: Path

    def allow(self, header: str) -> bool:
        """Whether an ``Authorization`` header carries the token."""
        kind, _, value = header.partition(" ")
        return kind.lower() == "bearer" and hmac.compare_digest(value.strip().encode(), self.token.encode())

    def tls(self) -> ssl.SSLContext:
        """The server's side of TLS."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate)
        return context


def load_credentials(directory: Path) -> Credentials:
    """The credentials of a state directory, made when first asked for."""
    token, authority, certificate = (directory / name for name in ("token", "ca.crt", "server.pem"))
    if not token.exists():
        _write(token, secrets.token_urlsafe(32).encode())
    if not (authority.exists() and certificate.exists()):
        ca, server = _make_certificates()
        _write(certificate, server)
        _write(authority, ca)
    return Credentials(token.read_text().strip(), authority.read_bytes(), certificate)


def write_kubeconfig(path: Path, credentials: Credentials, port: int) -> None:
    """Write the kubeconfig, readable by its owner alone."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "minicluster",
        "clusters": [
            {
                "name": "minicluster",
                "cluster": {
                    "server": f"https://127.0.0.1:{port}",
                    "certificate-authority-data": base64.b64encode(credentials.authority).decode(),
                },
            }
        ],
        "users": [{"name": "admin", "user": {"token": credentials.token}}],
        "contexts": [
            {"name": "minicluster", "context": {"cluster": "minicluster", "user": "admin", "namespace": "default"}}
        ],
    }
    _write(path, yaml.safe_dump(config, sort_keys=False).encode())


def _write(path: Path, data: bytes) -> None:
    temporary = path.with_name(f"{path.name}.new")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    temporary.replace(path)


def _make_certificates() -> tuple[bytes, bytes]:
    """An authority's certificate, and a server's certificate and key signed by it."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    now = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=5)
    name = lambda text: x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])  # noqa: E731
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())

    def builder(subject: str, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(name(subject))
            .issuer_name(name("minicluster-ca"))
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now)
            .not_valid_after(now + datetime.timedelta(days=_DAYS))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), False)
        )

    usage = dict.fromkeys(
        (
            "content_commitment",
            "key_encipherment",
            "data_encipherment",
            "key_agreement",
            "encipher_only",
            "decipher_only",
        ),
        False,
    )
    ca = (
        builder("minicluster-ca", ca_key.public_key())
        .add_extension(x509.BasicConstraints(True, 0), True)
        .add_extension(x509.KeyUsage(digital_signature=True, key_cert_sign=True, crl_sign=True, **usage), True)
        .sign(ca_key, hashes.SHA256())
    )
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    server = (
        builder("minicluster", key.public_key())
        .add_extension(x509.BasicConstraints(False, None), True)
        .add_extension(x509.KeyUsage(digital_signature=True, key_cert_sign=False, crl_sign=False, **usage), True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)
        .add_extension(x509.SubjectAlternativeName(names), False)
        .sign(ca_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return ca.public_bytes(pem), server.public_bytes(pem) + private
