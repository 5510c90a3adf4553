"""Who may log in and do what: passwords and ACL users, always by Secret."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from valkey_operator.api.core import KeyReference, LocalReference
from valkey_operator.api.model import Duration, Matches, Model, Rule, SubdomainName, list_map
from valkey_operator.api.status import LongText, ShortText, Status

UserName = Annotated[
    str, Field(max_length=128), Matches(r"^[^\s#]+$", "the name of a user: leave out spaces and #")
]
SYSTEM_USERS = ("valkey-operator", "valkey-replication", "valkey-exporter", "valkey-sentinel")


class Password(Model):
    """The password of the user `default`, as in servers without ACL."""

    secret: KeyReference
    """The key of a Secret that holds it."""


class AclUser(Model):
    """A user."""

    name: UserName
    """The user's name."""

    password_secret: KeyReference | None = None
    """The key of a Secret with the password. A user without one can log in by certificate only."""

    permissions: Annotated[str, Field(min_length=1, max_length=4096)]
    """What the user may do, in Valkey's ACL words, such as `+@read ~app:*`."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!(self.name in ['valkey-operator', 'valkey-replication', 'valkey-exporter', 'valkey-sentinel'])",
            "the user %s is the operator's own; choose another name",
            ("self.name",),
            field_path=".name",
            holds=lambda user: user.name not in SYSTEM_USERS,
        ),
        Rule(
            "!self.permissions.matches('(^|\\\\s)[>#]')",
            "permissions must not hold a password (> or #); put it into a Secret and name it in passwordSecret",
            field_path=".permissions",
            holds=lambda user: not re.search(r"(^|\s)[>#]", user.permissions, re.ASCII),
        ),
    )


class Acl(Model):
    """Users and what they may do."""

    enabled: bool | None = None
    """Use these users; default true when users or a file are given."""

    users: Annotated[list[AclUser], list_map("name"), Field(max_length=256)] | None = None
    """The users."""

    config_secret_ref: KeyReference | None = None
    """The key of a Secret with a whole ACL file."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!(has(self.users) && has(self.configSecretRef))",
            "users and configSecretRef exclude each other: list the users, or give a whole file",
            holds=lambda acl: acl.users is None or acl.config_secret_ref is None,
        ),
    )


class Auth(Model):
    """Who may log in. None given: everybody, without a password."""

    acl_ref: LocalReference | None = None
    """A ValkeyClusterAcl in the same namespace that names all users."""

    password: Password | None = None
    """The password of the user `default`. May stand beside `acl` while clients move to users."""

    acl: Acl | None = None
    """Users and what they may do."""

    rotation_overlap: Duration | None = None
    """How long a replaced password stays valid after everything uses the new one; default 10m."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!(has(self.aclRef) && has(self.acl))",
            "aclRef and acl exclude each other: refer to a ValkeyClusterAcl, or list the users here",
            holds=lambda auth: auth.acl_ref is None or auth.acl is None,
        ),
    )


class AclPolicySpec(Model):
    """Where the users of the deployments that refer to this object are kept."""

    secret_name: SubdomainName
    """A Secret with the key acl-definitions.yaml, written by you and never by the operator. Cannot be changed."""

    secret_type: Literal["Secret", "SecretsStore"] | None = None
    """Secret (default), or SecretsStore: then `secretName` is a SecretProviderClass of the Secrets Store CSI driver."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.secretName == oldSelf.secretName",
            "secretName cannot be changed after creation; make a new ValkeyClusterAcl and refer to it",
            field_path=".secretName",
        ),
    )


class AclNodeStatus(Model):
    """Whether one server has the users."""

    name: ShortText
    """The ValkeyNode."""

    status: Literal["Ok", "Pending", "Error"]
    """Whether it has them."""

    message: LongText | None = None
    """What it said."""


class AclPolicyStatus(Status):
    """Whether the users are in force."""

    phase: Literal["MissingSecret", "IncompleteSecret", "Applying", "Applied", "Error"] | None = None
    """MissingSecret, IncompleteSecret, Applying, Applied or Error."""

    nodes: Annotated[list[AclNodeStatus], list_map("name"), Field(max_length=1000)] | None = None
    """The servers."""
