"""TLS of clients, replication and the cluster bus: on the deployment itself, or as a policy it refers to."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from valkey_operator.api.core import KeyName, KeyReference, LocalReference
from valkey_operator.api.model import (
    LIST_SET,
    Cron,
    Duration,
    Matches,
    Model,
    Port,
    Rule,
    SubdomainName,
    Validity,
)

Protocol = Literal["TLSv1.2", "TLSv1.3"]
# Each cluster has one of these for its bus; see `render.bus`.
BUS_PORTS = range(17000, 26000)
RotateBeforePercent = Annotated[int, Field(ge=66, le=80)]


TlsProtocols = Annotated[
    str,
    Field(max_length=32),
    Matches(r"^TLSv1\.[23]( TLSv1\.[23])?$", "a list of TLS versions such as TLSv1.2 TLSv1.3"),
]


class IssuerReference(Model):
    """An issuer of cert-manager."""

    name: SubdomainName
    """The issuer's name."""

    kind: Annotated[str, Field(min_length=1, max_length=63)] | None = None
    """Issuer (default) or ClusterIssuer, or a kind of another issuer."""

    group: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """The API group of the issuer; default cert-manager.io."""


class Tls(Model):
    """Encryption of clients, replication and the cluster bus. Off unless `enabled` or `policyRef` is set."""

    enabled: bool | None = None
    """Turn TLS on; default false. Can be turned on and off on a running deployment."""

    policy_ref: LocalReference | None = None
    """A ValkeyClusterTls in the same namespace that says everything; then nothing else may be set here."""

    certificate_ref: LocalReference | None = None
    """A Secret with certificate, key and CA that somebody else keeps and rotates."""

    issuer_ref: IssuerReference | None = None
    """An issuer of cert-manager that makes the certificates. Without any of the three, the operator's own CA does."""

    cert_key: KeyName | None = None
    """The key of the certificate in the Secret; default tls.crt."""

    key_key: KeyName | None = None
    """The key of the private key in the Secret; default tls.key."""

    ca_key: KeyName | None = None
    """The key of the CA in the Secret; default ca.crt."""

    client_auth: Literal["none", "request", "require"] | None = None
    """Whether clients show a certificate: none, request (if they have one), or require (default)."""

    client_auth_user: Literal["off", "CN", "URI"] | None = None
    """Log clients in as the user that their certificate names; default off. Needs Valkey 9."""

    min_version: Literal["TLS12", "TLS13"] | None = None
    """The lowest version of TLS; default TLS12."""

    protocols: Annotated[list[Protocol], LIST_SET, Field(min_length=1, max_length=2)] | None = None
    """The versions of TLS that are offered; default: all from `minVersion` up."""

    ciphers: Annotated[str, Field(max_length=2048)] | None = None
    """Ciphers for TLS 1.2, as OpenSSL writes them; default: OpenSSL's."""

    dh_params_ref: KeyReference | None = None
    """A key of a ConfigMap with Diffie-Hellman parameters."""

    port: Port | None = None
    """The port of TLS; default 6379. With the plaintext port on it must be another one, such as 6380."""

    disable_plaintext_port: bool | None = None
    """Do not listen without TLS; default true."""

    replication: bool | None = None
    """Encrypt replication; default true."""

    cluster_bus: bool | None = None
    """Encrypt the cluster bus; default true."""

    validity: Validity | None = None
    """How long certificates of the operator's own CA are valid; default 90d."""

    rotate_before_percent: RotateBeforePercent | None = None
    """Certificates of the own CA are renewed after this part of their life, 66 (default) to 80 percent."""

    restart_window: Cron | None = None
    """When servers may be restarted for TLS changes that cannot be made live, as a cron time in UTC."""

    restart_window_duration: Duration | None = None
    """How long each window stays open; default 1h."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.policyRef) || "
            "[has(self.certificateRef), has(self.issuerRef), has(self.certKey), has(self.keyKey), has(self.caKey), "
            "has(self.clientAuth), has(self.clientAuthUser), has(self.minVersion), has(self.protocols), "
            "has(self.ciphers), has(self.dhParamsRef), has(self.port), has(self.disablePlaintextPort), "
            "has(self.replication), has(self.clusterBus), has(self.validity), has(self.rotateBeforePercent), "
            "has(self.restartWindow), has(self.restartWindowDuration)].all(given, !given)",
            "with policyRef the policy says everything: remove every other field of tls but enabled",
            holds=lambda tls: tls.policy_ref is None or not tls.model_fields_set - {"enabled", "policy_ref"},
        ),
        Rule(
            "!(has(self.certificateRef) && has(self.issuerRef))",
            "certificateRef and issuerRef exclude each other: somebody keeps the Secret, or cert-manager makes it",
            holds=lambda tls: tls.certificate_ref is None or tls.issuer_ref is None,
        ),
        Rule(
            "!has(self.validity) && !has(self.rotateBeforePercent) || "
            "!has(self.certificateRef) && !has(self.issuerRef)",
            "validity and rotateBeforePercent are for the operator's own CA; remove them, or the reference",
            holds=lambda tls: (
                (tls.validity is None and tls.rotate_before_percent is None)
                or (tls.certificate_ref is None and tls.issuer_ref is None)
            ),
        ),
        Rule(
            "!has(self.minVersion) || self.minVersion == 'TLS12' || !has(self.protocols) || "
            "!('TLSv1.2' in self.protocols)",
            "protocols offers TLSv1.2 below minVersion TLS13; remove it or lower minVersion",
            field_path=".protocols",
            holds=lambda tls: tls.min_version != "TLS13" or "TLSv1.2" not in (tls.protocols or []),
        ),
        Rule(
            "!has(self.disablePlaintextPort) || self.disablePlaintextPort || (has(self.port) && self.port != 6379)",
            "with disablePlaintextPort false, plaintext keeps port 6379: set port to another one, such as 6380",
            field_path=".port",
            holds=lambda tls: tls.disable_plaintext_port is not False or tls.port not in (None, 6379),
        ),
        Rule(
            f"!has(self.port) || self.port < {BUS_PORTS.start} || self.port >= {BUS_PORTS.stop}",
            f"ports {BUS_PORTS.start} to {BUS_PORTS.stop - 1} are for the cluster bus; take another one, such as 6380",
            field_path=".port",
            holds=lambda tls: tls.port not in BUS_PORTS,
        ),
    )


class InternalCertificates(Model):
    """Certificates from the operator's own CA."""

    client_cert_validity: Validity | None = None
    """How long they are valid; default 90d."""

    rotate_before_percent: RotateBeforePercent | None = None
    """They are renewed after this part of their life, 66 (default) to 80 percent."""


class ConfigMapSource(Model):
    """Where a value comes from."""

    config_map_key_ref: KeyReference
    """A key of a ConfigMap in the same namespace."""


class ValueSource(Model):
    """A value that is kept elsewhere."""

    value_from: ConfigMapSource
    """Where it is kept."""


class TlsPolicySpec(Model):
    """How deployments that refer to this policy encrypt."""

    external_certs: LocalReference | None = None
    """A Secret with tls.crt, tls.key and ca.crt that somebody else rotates; `internalCerts` is then ignored."""

    internal_certs: InternalCertificates | None = None
    """Certificates from the operator's own CA; the default."""

    tls_secret_name: SubdomainName | None = None
    """Where the operator writes the certificate; default <deployment>-tls. Set, it serves one deployment only."""

    disable_non_tls_port: bool | None = None
    """Do not listen without TLS; default true."""

    tls_port: Port | None = None
    """The port of TLS; default 6379."""

    tls_auth_clients: bool | None = None
    """Clients must show a certificate; default true."""

    tls_cluster: bool | None = None
    """Encrypt the cluster bus; default true."""

    tls_replication: bool | None = None
    """Encrypt replication; default true."""

    tls_ciphers: Annotated[str, Field(max_length=2048)] | None = None
    """Ciphers for TLS 1.2, as OpenSSL writes them."""

    tls_protocols: TlsProtocols | None = None
    """Versions of TLS, such as "TLSv1.2 TLSv1.3" (default)."""

    tls_dh_params_file: ValueSource | None = None
    """Diffie-Hellman parameters."""

    tls_refresh_restart_window: Cron | None = None
    """When servers may be restarted for changes that cannot be made live, as a cron time in UTC."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.disableNonTlsPort) || self.disableNonTlsPort || (has(self.tlsPort) && self.tlsPort != 6379)",
            "with disableNonTlsPort false, plaintext keeps port 6379: set tlsPort to another one, such as 6380",
            field_path=".tlsPort",
            holds=lambda policy: (
                policy.disable_non_tls_port is not False or policy.tls_port not in (None, 6379)
            ),
        ),
    )
