"""The operator's own PKI as objects: the root CA, an intermediate per deployment and purpose, the leaves in use."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from valkey_operator.api.core import LocalReference
from valkey_operator.api.model import LIST_ATOMIC, Model, Name, list_map
from valkey_operator.api.status import ShortText, Status, Time

Purpose = Literal["mtls", "tls"]
Days = Annotated[int, Field(ge=1, le=36500)]


class ValkeyCASpec(Model):
    """The root CA of this operator."""

    description: Annotated[str, Field(max_length=1024)] | None = None
    """For people."""

    secret_type: Literal["Secret", "SecretsStore"] | None = None
    """Secret (default), or SecretsStore: then the reference is a SecretProviderClass."""

    ca_cert_secret_ref: LocalReference
    """The Secret with certificate and key. One that is there at installation is used as it is."""

    valid_for_days: Days | None = None
    """Life of the root, and upper bound of the intermediates; default 3650."""


class ValkeyCAStatus(Status):
    """How the root CA is."""

    thumbprint: ShortText | None = None
    """SHA-256 of the certificate in use."""

    previous: Annotated[list[ShortText], LIST_ATOMIC, Field(max_length=64)] | None = None
    """Those before it that somebody may still trust."""

    issued_at: Time | None = None
    """When it was issued."""

    expires_at: Time | None = None
    """When it expires."""


class RotationPolicy(Model):
    """When the intermediate is replaced."""

    auto_rotate: bool | None = None
    """Replace it by itself; default true."""

    renew_before_days: Days | None = None
    """How many days before it expires; default 30."""


class ValkeyCertificateBundleSpec(Model):
    """The intermediate CA of one deployment, for one purpose."""

    ca_ref: Name
    """The ValkeyCA in the operator's namespace that signs it."""

    purpose: Purpose
    """mtls between operator and sidecars, or tls for clients."""

    cert_secret_ref: LocalReference
    """The Secret with the certificate."""

    key_secret_ref: LocalReference
    """The Secret with the key."""

    rotation_policy: RotationPolicy | None = None
    """When it is replaced."""


class ValkeyCertificateBundleStatus(Status):
    """How the intermediate is."""

    thumbprint: ShortText | None = None
    """SHA-256 of the certificate in use."""

    issued_at: Time | None = None
    """When it was issued."""

    expires_at: Time | None = None
    """When it expires."""


class DeploymentReference(Model):
    """A deployment in the same namespace."""

    kind: Literal["ValkeyCluster", "Valkey", "ValkeyPool", "Sentinel"] | None = None
    """Its kind; default ValkeyCluster."""

    name: Name
    """Its name."""


class ValkeyCertificateBindingSpec(Model):
    """Which deployment the certificates in the status belong to."""

    cluster_ref: DeploymentReference
    """The deployment."""


class BoundCertificate(Model):
    """A leaf certificate."""

    purpose: Purpose
    """What it is for."""

    bundle_ref: ShortText
    """The ValkeyCertificateBundle that signed it."""

    secret_name: ShortText
    """The Secret that holds it."""

    thumbprint: ShortText
    """SHA-256 of it."""

    issued_at: Time
    """When it was issued."""

    expires_at: Time
    """When it expires."""


BoundCertificates = Annotated[list[BoundCertificate], list_map("thumbprint"), Field(max_length=2000)]


class ValkeyCertificateBindingStatus(Status):
    """Which leaf certificates are in use."""

    active: BoundCertificates | None = None
    """Those in use."""

    deprecated: BoundCertificates | None = None
    """Those replaced, and trusted until everything uses the new ones."""
