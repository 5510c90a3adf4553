"""Things that people ask for once or regularly: upgrades, backups, schedules, restores."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from valkey_operator.api.certificates import DeploymentReference
from valkey_operator.api.core import KeyReference, LocalReference
from valkey_operator.api.model import (
    Cron,
    Duration,
    Matches,
    Model,
    Name,
    Quantity,
    Rule,
    SubdomainName,
    list_map,
)
from valkey_operator.api.shared import Image
from valkey_operator.api.status import LongText, ShortText, Status, Time

Prefix = Annotated[str, Field(max_length=512)]
Bucket = Annotated[str, Field(min_length=1, max_length=255)]


Version = Annotated[
    str, Field(max_length=32), Matches(r"^[0-9]+\.[0-9]+(\.[0-9]+)?$", "a version such as 9.1 or 9.1.0")
]
Url = Annotated[
    str, Field(max_length=512), Matches(r"^https?://\S+$", "an address such as https://store.example:9000")
]


def _keeps_data(field: str) -> Rule:
    return Rule(
        f"!has(self.{field}.kind) || self.{field}.kind != 'Sentinel'",
        f"{field}.kind is Sentinel, which keeps no data; name a ValkeyCluster, Valkey or ValkeyPool",
        field_path=f".{field}.kind",
        holds=lambda spec: getattr(spec, field).kind != "Sentinel",
    )


class ValkeyUpgradeSpec(Model):
    """A supervised change of version, shard by shard, that can go back."""

    cluster_ref: DeploymentReference
    """The deployment to upgrade."""

    target_version: Version | None = None
    """The version to go to, such as 9.1.0; replaces the tag of the current image."""

    image: Image | None = None
    """The image to go to, where the tag is not enough."""

    rollback: bool | None = None
    """Go back to where it came from; default false."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.targetVersion) != has(self.image)",
            "say where to go with exactly one of targetVersion and image",
            holds=lambda spec: (spec.target_version is None) != (spec.image is None),
        ),
        Rule(
            "self.clusterRef == oldSelf.clusterRef",
            "clusterRef cannot be changed after creation; make another ValkeyUpgrade",
            field_path=".clusterRef",
        ),
    )


class UpgradeShardStatus(Model):
    """How far one shard is."""

    shard: int
    """Its number."""

    step: ShortText
    """What is being done."""

    started_at: Time | None = None
    """When it began."""

    ended_at: Time | None = None
    """When it was done."""


class ValkeyUpgradeStatus(Status):
    """How far the upgrade is."""

    phase: (
        Literal["Pending", "Running", "Paused", "RollingBack", "Completed", "RolledBack", "Failed"] | None
    ) = None
    """Pending, Running, Paused, RollingBack, Completed, RolledBack or Failed."""

    from_image: ShortText | None = None
    """Where it came from."""

    to_image: ShortText | None = None
    """Where it goes."""

    shards: Annotated[list[UpgradeShardStatus], list_map("shard"), Field(max_length=500)] | None = None
    """The shards."""


class S3Store(Model):
    """A bucket of Amazon S3 or anything that speaks its protocol."""

    bucket: Bucket
    """The bucket."""

    prefix: Prefix | None = None
    """Put before every object's name."""

    region: ShortText | None = None
    """The region."""

    endpoint: Url | None = None
    """The address, for stores other than Amazon's."""

    force_path_style: bool | None = None
    """Name the bucket in the path and not in the host; default true with `endpoint`."""


class GcsStore(Model):
    """A bucket of Google Cloud Storage."""

    bucket: Bucket
    """The bucket."""

    prefix: Prefix | None = None
    """Put before every object's name."""


class AzureStore(Model):
    """A container of Azure Blob Storage."""

    account: Bucket
    """The storage account."""

    container: Bucket
    """The container."""

    prefix: Prefix | None = None
    """Put before every blob's name."""


class PvcStore(Model):
    """A volume."""

    claim_name: SubdomainName
    """The claim, in the same namespace."""

    path: Prefix | None = None
    """The folder in it."""


class Store(Model):
    """Where backups are kept."""

    s3: S3Store | None = None
    """Amazon S3, or anything that speaks its protocol."""

    gcs: GcsStore | None = None
    """Google Cloud Storage."""

    azure: AzureStore | None = None
    """Azure Blob Storage."""

    pvc: PvcStore | None = None
    """A volume."""

    credentials_ref: LocalReference | None = None
    """A Secret with the credentials; default: the identity of the pod."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "[has(self.s3), has(self.gcs), has(self.azure), has(self.pvc)].filter(given, given).size() == 1",
            "give exactly one of s3, gcs, azure and pvc",
            holds=lambda store: len(store.model_fields_set & {"s3", "gcs", "azure", "pvc"}) == 1,
        ),
    )


class Encryption(Model):
    """How a backup is encrypted before it leaves the pod."""

    key_ref: KeyReference
    """The key of a Secret with 32 random bytes, in base64."""


class BackupTemplate(Model):
    """What is backed up, and where to."""

    source: DeploymentReference
    """The deployment."""

    store: Store
    """Where to."""

    encryption: Encryption | None = None
    """How it is encrypted; default: not at all."""

    verify: bool | None = None
    """Load the backup into a server of its own and count the keys; default true."""

    rules: ClassVar[tuple[Rule, ...]] = (_keeps_data("source"),)


class ValkeyBackupSpec(BackupTemplate):
    """One backup."""

    rules: ClassVar[tuple[Rule, ...]] = (
        *BackupTemplate.rules,
        Rule("self == oldSelf", "a backup cannot be changed after creation; make another ValkeyBackup"),
    )


class BackupShardStatus(Model):
    """How far one shard is."""

    shard: int
    """Its number."""

    size: Quantity | None = None
    """Bytes in the store."""

    keys: int | None = None
    """Keys in it."""

    checksum: ShortText | None = None
    """SHA-256 of what is in the store."""

    taken_at: Time | None = None
    """The moment that it holds."""

    node: ShortText | None = None
    """The ValkeyNode it was taken from."""


class ValkeyBackupStatus(Status):
    """How far the backup is."""

    phase: Literal["Pending", "Running", "Verifying", "Completed", "Failed", "Deleting"] | None = None
    """Pending, Running, Verifying, Completed, Failed or Deleting."""

    size: Quantity | None = None
    """Bytes in the store."""

    keys: int | None = None
    """Keys in it."""

    started_at: Time | None = None
    """When it began."""

    completed_at: Time | None = None
    """When it was done."""

    valkey_version: ShortText | None = None
    """The version that wrote it."""

    location: LongText | None = None
    """Where it is."""

    shards: Annotated[list[BackupShardStatus], list_map("shard"), Field(max_length=500)] | None = None
    """The shards."""


class Retention(Model):
    """Which backups are kept."""

    keep_last: Annotated[int, Field(ge=1, le=10000)] | None = None
    """The newest so many."""

    keep_days: Annotated[int, Field(ge=1, le=36500)] | None = None
    """Those not older than so many days. A backup that one of the two keeps is kept."""


class ValkeyBackupScheduleSpec(Model):
    """Backups at regular times."""

    schedule: Cron
    """When, as a cron time in UTC."""

    suspend: bool | None = None
    """Make none for now; default false."""

    starting_deadline: Duration | None = None
    """How late a missed backup may still begin; default 1h."""

    retention: Retention | None = None
    """Which backups are kept; default: all."""

    template: BackupTemplate
    """What is backed up, and where to."""


class ValkeyBackupScheduleStatus(Status):
    """How the schedule is."""

    last_backup: ShortText | None = None
    """The newest ValkeyBackup."""

    last_success_at: Time | None = None
    """When the last good one was done."""

    next_at: Time | None = None
    """When the next one begins."""

    kept: int | None = None
    """How many are kept."""


class BackupLocation(Model):
    """A backup that no ValkeyBackup in this cluster knows."""

    store: Store
    """Where it is kept."""

    path: Annotated[str, Field(min_length=1, max_length=1024)]
    """Its name in the store."""

    encryption: Encryption | None = None
    """How it was encrypted."""


class ValkeyRestoreSpec(Model):
    """A backup put into a new deployment."""

    backup_ref: LocalReference | None = None
    """A ValkeyBackup in the same namespace."""

    location: BackupLocation | None = None
    """A backup that is only in the store."""

    target: DeploymentReference
    """The deployment it is put into: a new one, empty. It may have another number of shards, or be of another kind."""

    rules: ClassVar[tuple[Rule, ...]] = (
        _keeps_data("target"),
        Rule(
            "has(self.backupRef) != has(self.location)",
            "name the backup with exactly one of backupRef and location",
            holds=lambda spec: (spec.backup_ref is None) != (spec.location is None),
        ),
        Rule("self == oldSelf", "a restore cannot be changed after creation; make another ValkeyRestore"),
    )


class ValkeyRestoreStatus(Status):
    """How far the restore is."""

    phase: Literal["Pending", "Running", "Verifying", "Completed", "Failed"] | None = None
    """Pending, Running, Verifying, Completed or Failed."""

    keys_restored: int | None = None
    """Keys put back so far."""

    keys_total: int | None = None
    """Keys in the backup."""

    started_at: Time | None = None
    """When it began."""

    completed_at: Time | None = None
    """When it was done."""

    deployment: Name | None = None
    """The deployment it went into."""
