"""The certificates and kubeconfigs of a cluster, all signed by one authority of its own."""

from __future__ import annotations

import base64
import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from devcluster.places import Record

USERS = {
    "admin": ("kubernetes-admin", "system:masters"),
    "controller-manager": ("system:kube-controller-manager", None),
    "scheduler": ("system:kube-scheduler", None),
    "proxy": ("system:kube-proxy", None),
    "dns": ("devcluster:dns", None),
    "storage": ("devcluster:storage", None),
    "metrics": ("devcluster:metrics", None),
}


def make(record: Record) -> None:
    """Write what is not there yet; what is there stays, so that a restarted cluster keeps its identity."""
    folder = record.folder / "pki"
    if (folder / "complete").exists():
        return
    folder.mkdir(exist_ok=True, mode=0o700)
    plan = record.addresses
    authority = _Authority(folder)
    names = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost"]
    authority.issue("apiserver", "kube-apiserver", names=[*names, plan.api, plan.first_service, "127.0.0.1"])
    authority.issue("kubelet-client", "kube-apiserver-kubelet-client", "system:masters")
    authority.issue("front-proxy", "front-proxy")
    authority.issue("metrics-server", "metrics-server", names=["metrics-server.kube-system.svc", plan.api])
    for user, (name, organization) in USERS.items():
        authority.issue(user, name, organization)
    for number in record.node_numbers:
        node = f"node{number}"
        authority.issue(node, f"system:node:{node}", "system:nodes", [node, plan.node(number)])
    for user in [*USERS, *(f"node{number}" for number in record.node_numbers)]:
        _write_kubeconfig(folder, user, record.name, f"https://{plan.api}:6443")
    _write_service_account_keys(folder)
    (folder / "complete").touch()


class _Authority:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("devcluster", None)
        certificate = self._sign(self._name, self._key, is_authority=True, names=[])
        _write(folder / "ca.crt", certificate.public_bytes(Encoding.PEM))
        _write(folder / "ca.key", _pem(self._key))

    def issue(self, file: str, name: str, organization: str | None = None, names: Sequence[str] = ()) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(_name(name, organization), key, is_authority=False, names=names)
        _write(self._folder / f"{file}.crt", certificate.public_bytes(Encoding.PEM))
        _write(self._folder / f"{file}.key", _pem(key))

    def _sign(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, is_authority: bool, names: Sequence[str]
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder(subject_name=subject, issuer_name=self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + datetime.timedelta(days=365))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        )
        if not is_authority:
            usages = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
            builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        if names:
            alternatives = x509.SubjectAlternativeName([_alternative(name) for name in names])
            builder = builder.add_extension(alternatives, critical=False)
        return builder.sign(self._key, hashes.SHA256())


def _alternative(name: str) -> x509.GeneralName:
    if name[0].isdigit():
        return x509.IPAddress(ipaddress.ip_address(name))
    return x509.DNSName(name)


def _name(name: str, organization: str | None) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
    if organization:
        parts.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(parts)


def _pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _write(file: Path, content: bytes) -> None:
    file.touch(mode=0o600)
    file.write_bytes(content)


def _write_service_account_keys(folder: Path) -> None:
    key = rsa.generate_private_key(65537, 2048)
    _write(folder / "service-account.key", _pem(key))
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    _write(folder / "service-account.pub", public)


def _write_kubeconfig(folder: Path, user: str, cluster: str, server: str) -> None:
    def inline(file: str) -> str:
        return base64.b64encode((folder / file).read_bytes()).decode()

    context = f"devcluster-{cluster}"
    text = f"""\
apiVersion: v1
kind: Config
current-context: {context}
clusters:
- name: {context}
  cluster:
    server: {server}
    certificate-authority-data: {inline("ca.crt")}
users:
- name: {user}
  user:
    client-certificate-data: {inline(f"{user}.crt")}
    client-key-data: {inline(f"{user}.key")}
contexts:
- name: {context}
  context: {{cluster: {context}, user: {user}}}
"""
    _write(folder / f"{user}.kubeconfig", text.encode())
