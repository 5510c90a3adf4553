from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Role(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROLE_UNSPECIFIED: _ClassVar[Role]
    ROLE_PRIMARY: _ClassVar[Role]
    ROLE_REPLICA: _ClassVar[Role]
    ROLE_SENTINEL: _ClassVar[Role]

class Result(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RESULT_UNSPECIFIED: _ClassVar[Result]
    RESULT_DONE: _ClassVar[Result]
    RESULT_REFUSED: _ClassVar[Result]
    RESULT_FAILED: _ClassVar[Result]
ROLE_UNSPECIFIED: Role
ROLE_PRIMARY: Role
ROLE_REPLICA: Role
ROLE_SENTINEL: Role
RESULT_UNSPECIFIED: Result
RESULT_DONE: Result
RESULT_REFUSED: Result
RESULT_FAILED: Result

class ObserveRequest(_message.Message):
    __slots__ = ("pod_uid", "fresh", "slot_keys")
    POD_UID_FIELD_NUMBER: _ClassVar[int]
    FRESH_FIELD_NUMBER: _ClassVar[int]
    SLOT_KEYS_FIELD_NUMBER: _ClassVar[int]
    pod_uid: str
    fresh: bool
    slot_keys: bool
    def __init__(self, pod_uid: _Optional[str] = ..., fresh: _Optional[bool] = ..., slot_keys: _Optional[bool] = ...) -> None: ...

class Observation(_message.Message):
    __slots__ = ("node", "pod_uid", "sequence", "run", "sidecar_version", "server", "gate", "record", "disk", "fingerprints", "not_ready", "is_fenced", "configuration", "last_word", "taken_over")
    NODE_FIELD_NUMBER: _ClassVar[int]
    POD_UID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    SIDECAR_VERSION_FIELD_NUMBER: _ClassVar[int]
    SERVER_FIELD_NUMBER: _ClassVar[int]
    GATE_FIELD_NUMBER: _ClassVar[int]
    RECORD_FIELD_NUMBER: _ClassVar[int]
    DISK_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINTS_FIELD_NUMBER: _ClassVar[int]
    NOT_READY_FIELD_NUMBER: _ClassVar[int]
    IS_FENCED_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    LAST_WORD_FIELD_NUMBER: _ClassVar[int]
    TAKEN_OVER_FIELD_NUMBER: _ClassVar[int]
    node: str
    pod_uid: str
    sequence: int
    run: int
    sidecar_version: str
    server: Server
    gate: Gate
    record: Record
    disk: Disk
    fingerprints: Fingerprints
    not_ready: str
    is_fenced: bool
    configuration: Configuration
    last_word: LastWord
    taken_over: TakenOver
    def __init__(self, node: _Optional[str] = ..., pod_uid: _Optional[str] = ..., sequence: _Optional[int] = ..., run: _Optional[int] = ..., sidecar_version: _Optional[str] = ..., server: _Optional[_Union[Server, _Mapping]] = ..., gate: _Optional[_Union[Gate, _Mapping]] = ..., record: _Optional[_Union[Record, _Mapping]] = ..., disk: _Optional[_Union[Disk, _Mapping]] = ..., fingerprints: _Optional[_Union[Fingerprints, _Mapping]] = ..., not_ready: _Optional[str] = ..., is_fenced: _Optional[bool] = ..., configuration: _Optional[_Union[Configuration, _Mapping]] = ..., last_word: _Optional[_Union[LastWord, _Mapping]] = ..., taken_over: _Optional[_Union[TakenOver, _Mapping]] = ...) -> None: ...

class TakenOver(_message.Message):
    __slots__ = ("former", "epoch", "is_under_way")
    FORMER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    IS_UNDER_WAY_FIELD_NUMBER: _ClassVar[int]
    former: str
    epoch: int
    is_under_way: bool
    def __init__(self, former: _Optional[str] = ..., epoch: _Optional[int] = ..., is_under_way: _Optional[bool] = ...) -> None: ...

class LastWord(_message.Message):
    __slots__ = ("offset", "milliseconds_ago")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    MILLISECONDS_AGO_FIELD_NUMBER: _ClassVar[int]
    offset: int
    milliseconds_ago: int
    def __init__(self, offset: _Optional[int] = ..., milliseconds_ago: _Optional[int] = ...) -> None: ...

class Server(_message.Message):
    __slots__ = ("answers", "version", "role", "is_loading", "loaded_percent", "replication", "memory", "persistence", "cluster", "keys", "connected_clients", "uptime_seconds", "modules", "libraries", "is_starting")
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    IS_LOADING_FIELD_NUMBER: _ClassVar[int]
    LOADED_PERCENT_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    PERSISTENCE_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_CLIENTS_FIELD_NUMBER: _ClassVar[int]
    UPTIME_SECONDS_FIELD_NUMBER: _ClassVar[int]
    MODULES_FIELD_NUMBER: _ClassVar[int]
    LIBRARIES_FIELD_NUMBER: _ClassVar[int]
    IS_STARTING_FIELD_NUMBER: _ClassVar[int]
    answers: bool
    version: str
    role: Role
    is_loading: bool
    loaded_percent: float
    replication: Replication
    memory: Memory
    persistence: Persistence
    cluster: ClusterView
    keys: int
    connected_clients: int
    uptime_seconds: int
    modules: _containers.RepeatedScalarFieldContainer[str]
    libraries: int
    is_starting: bool
    def __init__(self, answers: _Optional[bool] = ..., version: _Optional[str] = ..., role: _Optional[_Union[Role, str]] = ..., is_loading: _Optional[bool] = ..., loaded_percent: _Optional[float] = ..., replication: _Optional[_Union[Replication, _Mapping]] = ..., memory: _Optional[_Union[Memory, _Mapping]] = ..., persistence: _Optional[_Union[Persistence, _Mapping]] = ..., cluster: _Optional[_Union[ClusterView, _Mapping]] = ..., keys: _Optional[int] = ..., connected_clients: _Optional[int] = ..., uptime_seconds: _Optional[int] = ..., modules: _Optional[_Iterable[str]] = ..., libraries: _Optional[int] = ..., is_starting: _Optional[bool] = ...) -> None: ...

class Replication(_message.Message):
    __slots__ = ("history", "offset", "primary_address", "link_is_up", "sync_in_progress", "replicas", "silent_seconds", "full_syncs", "cut_off", "former_history", "former_history_end")
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    PRIMARY_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    LINK_IS_UP_FIELD_NUMBER: _ClassVar[int]
    SYNC_IN_PROGRESS_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    SILENT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    FULL_SYNCS_FIELD_NUMBER: _ClassVar[int]
    CUT_OFF_FIELD_NUMBER: _ClassVar[int]
    FORMER_HISTORY_FIELD_NUMBER: _ClassVar[int]
    FORMER_HISTORY_END_FIELD_NUMBER: _ClassVar[int]
    history: str
    offset: int
    primary_address: str
    link_is_up: bool
    sync_in_progress: bool
    replicas: _containers.RepeatedCompositeFieldContainer[ReplicaSeen]
    silent_seconds: int
    full_syncs: int
    cut_off: int
    former_history: str
    former_history_end: int
    def __init__(self, history: _Optional[str] = ..., offset: _Optional[int] = ..., primary_address: _Optional[str] = ..., link_is_up: _Optional[bool] = ..., sync_in_progress: _Optional[bool] = ..., replicas: _Optional[_Iterable[_Union[ReplicaSeen, _Mapping]]] = ..., silent_seconds: _Optional[int] = ..., full_syncs: _Optional[int] = ..., cut_off: _Optional[int] = ..., former_history: _Optional[str] = ..., former_history_end: _Optional[int] = ...) -> None: ...

class ReplicaSeen(_message.Message):
    __slots__ = ("address", "state", "offset", "lag_seconds")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAG_SECONDS_FIELD_NUMBER: _ClassVar[int]
    address: str
    state: str
    offset: int
    lag_seconds: int
    def __init__(self, address: _Optional[str] = ..., state: _Optional[str] = ..., offset: _Optional[int] = ..., lag_seconds: _Optional[int] = ...) -> None: ...

class Memory(_message.Message):
    __slots__ = ("used_bytes", "max_bytes", "eviction_policy")
    USED_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    EVICTION_POLICY_FIELD_NUMBER: _ClassVar[int]
    used_bytes: int
    max_bytes: int
    eviction_policy: str
    def __init__(self, used_bytes: _Optional[int] = ..., max_bytes: _Optional[int] = ..., eviction_policy: _Optional[str] = ...) -> None: ...

class Persistence(_message.Message):
    __slots__ = ("save_in_progress", "last_save_failed", "last_save_time", "append_only", "rewrite_in_progress", "last_write_failed")
    SAVE_IN_PROGRESS_FIELD_NUMBER: _ClassVar[int]
    LAST_SAVE_FAILED_FIELD_NUMBER: _ClassVar[int]
    LAST_SAVE_TIME_FIELD_NUMBER: _ClassVar[int]
    APPEND_ONLY_FIELD_NUMBER: _ClassVar[int]
    REWRITE_IN_PROGRESS_FIELD_NUMBER: _ClassVar[int]
    LAST_WRITE_FAILED_FIELD_NUMBER: _ClassVar[int]
    save_in_progress: bool
    last_save_failed: bool
    last_save_time: int
    append_only: bool
    rewrite_in_progress: bool
    last_write_failed: bool
    def __init__(self, save_in_progress: _Optional[bool] = ..., last_save_failed: _Optional[bool] = ..., last_save_time: _Optional[int] = ..., append_only: _Optional[bool] = ..., rewrite_in_progress: _Optional[bool] = ..., last_write_failed: _Optional[bool] = ...) -> None: ...

class ClusterView(_message.Message):
    __slots__ = ("node_id", "state", "current_epoch", "nodes", "shard_id", "migrating", "importing", "migrations", "shards_digest", "is_hurrying", "slot_keys")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CURRENT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    SHARD_ID_FIELD_NUMBER: _ClassVar[int]
    MIGRATING_FIELD_NUMBER: _ClassVar[int]
    IMPORTING_FIELD_NUMBER: _ClassVar[int]
    MIGRATIONS_FIELD_NUMBER: _ClassVar[int]
    SHARDS_DIGEST_FIELD_NUMBER: _ClassVar[int]
    IS_HURRYING_FIELD_NUMBER: _ClassVar[int]
    SLOT_KEYS_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    state: str
    current_epoch: int
    nodes: _containers.RepeatedCompositeFieldContainer[ClusterNode]
    shard_id: str
    migrating: _containers.RepeatedCompositeFieldContainer[OpenSlots]
    importing: _containers.RepeatedCompositeFieldContainer[OpenSlots]
    migrations: _containers.RepeatedCompositeFieldContainer[SlotMigration]
    shards_digest: str
    is_hurrying: bool
    slot_keys: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, node_id: _Optional[str] = ..., state: _Optional[str] = ..., current_epoch: _Optional[int] = ..., nodes: _Optional[_Iterable[_Union[ClusterNode, _Mapping]]] = ..., shard_id: _Optional[str] = ..., migrating: _Optional[_Iterable[_Union[OpenSlots, _Mapping]]] = ..., importing: _Optional[_Iterable[_Union[OpenSlots, _Mapping]]] = ..., migrations: _Optional[_Iterable[_Union[SlotMigration, _Mapping]]] = ..., shards_digest: _Optional[str] = ..., is_hurrying: _Optional[bool] = ..., slot_keys: _Optional[_Iterable[int]] = ...) -> None: ...

class OpenSlots(_message.Message):
    __slots__ = ("slots", "other_id")
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    OTHER_ID_FIELD_NUMBER: _ClassVar[int]
    slots: _containers.RepeatedCompositeFieldContainer[SlotRange]
    other_id: str
    def __init__(self, slots: _Optional[_Iterable[_Union[SlotRange, _Mapping]]] = ..., other_id: _Optional[str] = ...) -> None: ...

class SlotMigration(_message.Message):
    __slots__ = ("name", "source_id", "target_id", "slots", "state", "message", "is_export", "is_key_by_key", "remaining_bytes", "milliseconds_ago")
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATE_UNSPECIFIED: _ClassVar[SlotMigration.State]
        STATE_UNDER_WAY: _ClassVar[SlotMigration.State]
        STATE_EMPTIED: _ClassVar[SlotMigration.State]
        STATE_DONE: _ClassVar[SlotMigration.State]
        STATE_FAILED: _ClassVar[SlotMigration.State]
        STATE_CANCELLED: _ClassVar[SlotMigration.State]
    STATE_UNSPECIFIED: SlotMigration.State
    STATE_UNDER_WAY: SlotMigration.State
    STATE_EMPTIED: SlotMigration.State
    STATE_DONE: SlotMigration.State
    STATE_FAILED: SlotMigration.State
    STATE_CANCELLED: SlotMigration.State
    NAME_FIELD_NUMBER: _ClassVar[int]
    SOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    TARGET_ID_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    IS_EXPORT_FIELD_NUMBER: _ClassVar[int]
    IS_KEY_BY_KEY_FIELD_NUMBER: _ClassVar[int]
    REMAINING_BYTES_FIELD_NUMBER: _ClassVar[int]
    MILLISECONDS_AGO_FIELD_NUMBER: _ClassVar[int]
    name: str
    source_id: str
    target_id: str
    slots: _containers.RepeatedCompositeFieldContainer[SlotRange]
    state: SlotMigration.State
    message: str
    is_export: bool
    is_key_by_key: bool
    remaining_bytes: int
    milliseconds_ago: int
    def __init__(self, name: _Optional[str] = ..., source_id: _Optional[str] = ..., target_id: _Optional[str] = ..., slots: _Optional[_Iterable[_Union[SlotRange, _Mapping]]] = ..., state: _Optional[_Union[SlotMigration.State, str]] = ..., message: _Optional[str] = ..., is_export: _Optional[bool] = ..., is_key_by_key: _Optional[bool] = ..., remaining_bytes: _Optional[int] = ..., milliseconds_ago: _Optional[int] = ...) -> None: ...

class ClusterNode(_message.Message):
    __slots__ = ("id", "address", "hostname", "role", "primary_id", "config_epoch", "is_connected", "is_failed", "is_suspected", "slots", "is_in_handshake")
    ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    HOSTNAME_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    PRIMARY_ID_FIELD_NUMBER: _ClassVar[int]
    CONFIG_EPOCH_FIELD_NUMBER: _ClassVar[int]
    IS_CONNECTED_FIELD_NUMBER: _ClassVar[int]
    IS_FAILED_FIELD_NUMBER: _ClassVar[int]
    IS_SUSPECTED_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    IS_IN_HANDSHAKE_FIELD_NUMBER: _ClassVar[int]
    id: str
    address: str
    hostname: str
    role: Role
    primary_id: str
    config_epoch: int
    is_connected: bool
    is_failed: bool
    is_suspected: bool
    slots: _containers.RepeatedCompositeFieldContainer[SlotRange]
    is_in_handshake: bool
    def __init__(self, id: _Optional[str] = ..., address: _Optional[str] = ..., hostname: _Optional[str] = ..., role: _Optional[_Union[Role, str]] = ..., primary_id: _Optional[str] = ..., config_epoch: _Optional[int] = ..., is_connected: _Optional[bool] = ..., is_failed: _Optional[bool] = ..., is_suspected: _Optional[bool] = ..., slots: _Optional[_Iterable[_Union[SlotRange, _Mapping]]] = ..., is_in_handshake: _Optional[bool] = ...) -> None: ...

class SlotRange(_message.Message):
    __slots__ = ("first", "last")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    first: int
    last: int
    def __init__(self, first: _Optional[int] = ..., last: _Optional[int] = ...) -> None: ...

class Gate(_message.Message):
    __slots__ = ("is_asked", "waits_for", "opened_by")
    IS_ASKED_FIELD_NUMBER: _ClassVar[int]
    WAITS_FOR_FIELD_NUMBER: _ClassVar[int]
    OPENED_BY_FIELD_NUMBER: _ClassVar[int]
    is_asked: bool
    waits_for: str
    opened_by: str
    def __init__(self, is_asked: _Optional[bool] = ..., waits_for: _Optional[str] = ..., opened_by: _Optional[str] = ...) -> None: ...

class Record(_message.Message):
    __slots__ = ("epoch", "primary")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PRIMARY_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    primary: str
    def __init__(self, epoch: _Optional[int] = ..., primary: _Optional[str] = ...) -> None: ...

class Disk(_message.Message):
    __slots__ = ("has_data", "was_stopped_cleanly", "is_synced_always", "has_append_only_file", "history", "offset", "free_bytes", "size_bytes", "is_full")
    HAS_DATA_FIELD_NUMBER: _ClassVar[int]
    WAS_STOPPED_CLEANLY_FIELD_NUMBER: _ClassVar[int]
    IS_SYNCED_ALWAYS_FIELD_NUMBER: _ClassVar[int]
    HAS_APPEND_ONLY_FILE_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    IS_FULL_FIELD_NUMBER: _ClassVar[int]
    has_data: bool
    was_stopped_cleanly: bool
    is_synced_always: bool
    has_append_only_file: bool
    history: str
    offset: int
    free_bytes: int
    size_bytes: int
    is_full: bool
    def __init__(self, has_data: _Optional[bool] = ..., was_stopped_cleanly: _Optional[bool] = ..., is_synced_always: _Optional[bool] = ..., has_append_only_file: _Optional[bool] = ..., history: _Optional[str] = ..., offset: _Optional[int] = ..., free_bytes: _Optional[int] = ..., size_bytes: _Optional[int] = ..., is_full: _Optional[bool] = ...) -> None: ...

class Fingerprints(_message.Message):
    __slots__ = ("config", "users", "server_certificate", "sidecar_certificate", "trust")
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    SERVER_CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    SIDECAR_CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    TRUST_FIELD_NUMBER: _ClassVar[int]
    config: str
    users: str
    server_certificate: str
    sidecar_certificate: str
    trust: str
    def __init__(self, config: _Optional[str] = ..., users: _Optional[str] = ..., server_certificate: _Optional[str] = ..., sidecar_certificate: _Optional[str] = ..., trust: _Optional[str] = ...) -> None: ...

class Configuration(_message.Message):
    __slots__ = ("mounted", "needs_restart", "refused")
    MOUNTED_FIELD_NUMBER: _ClassVar[int]
    NEEDS_RESTART_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    mounted: str
    needs_restart: _containers.RepeatedScalarFieldContainer[str]
    refused: str
    def __init__(self, mounted: _Optional[str] = ..., needs_restart: _Optional[_Iterable[str]] = ..., refused: _Optional[str] = ...) -> None: ...

class Order(_message.Message):
    __slots__ = ("pod_uid", "epoch", "limit_milliseconds", "promote", "replicate", "hand_over", "set_config", "load_users", "save", "shut_down", "fence", "open_gate", "meet", "forget", "assign_slots", "migrate_slots", "cancel_migration", "reset_node", "note_primary", "take_office", "import_slots", "claim_slots", "hurry", "dump_functions", "load_functions", "step_aside")
    POD_UID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LIMIT_MILLISECONDS_FIELD_NUMBER: _ClassVar[int]
    PROMOTE_FIELD_NUMBER: _ClassVar[int]
    REPLICATE_FIELD_NUMBER: _ClassVar[int]
    HAND_OVER_FIELD_NUMBER: _ClassVar[int]
    SET_CONFIG_FIELD_NUMBER: _ClassVar[int]
    LOAD_USERS_FIELD_NUMBER: _ClassVar[int]
    SAVE_FIELD_NUMBER: _ClassVar[int]
    SHUT_DOWN_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    OPEN_GATE_FIELD_NUMBER: _ClassVar[int]
    MEET_FIELD_NUMBER: _ClassVar[int]
    FORGET_FIELD_NUMBER: _ClassVar[int]
    ASSIGN_SLOTS_FIELD_NUMBER: _ClassVar[int]
    MIGRATE_SLOTS_FIELD_NUMBER: _ClassVar[int]
    CANCEL_MIGRATION_FIELD_NUMBER: _ClassVar[int]
    RESET_NODE_FIELD_NUMBER: _ClassVar[int]
    NOTE_PRIMARY_FIELD_NUMBER: _ClassVar[int]
    TAKE_OFFICE_FIELD_NUMBER: _ClassVar[int]
    IMPORT_SLOTS_FIELD_NUMBER: _ClassVar[int]
    CLAIM_SLOTS_FIELD_NUMBER: _ClassVar[int]
    HURRY_FIELD_NUMBER: _ClassVar[int]
    DUMP_FUNCTIONS_FIELD_NUMBER: _ClassVar[int]
    LOAD_FUNCTIONS_FIELD_NUMBER: _ClassVar[int]
    STEP_ASIDE_FIELD_NUMBER: _ClassVar[int]
    pod_uid: str
    epoch: int
    limit_milliseconds: int
    promote: Promote
    replicate: Replicate
    hand_over: HandOver
    set_config: SetConfig
    load_users: LoadUsers
    save: Save
    shut_down: ShutDown
    fence: Fence
    open_gate: OpenGate
    meet: Meet
    forget: Forget
    assign_slots: AssignSlots
    migrate_slots: MigrateSlots
    cancel_migration: CancelMigration
    reset_node: ResetNode
    note_primary: NotePrimary
    take_office: TakeOffice
    import_slots: ImportSlots
    claim_slots: ClaimSlots
    hurry: Hurry
    dump_functions: DumpFunctions
    load_functions: LoadFunctions
    step_aside: StepAside
    def __init__(self, pod_uid: _Optional[str] = ..., epoch: _Optional[int] = ..., limit_milliseconds: _Optional[int] = ..., promote: _Optional[_Union[Promote, _Mapping]] = ..., replicate: _Optional[_Union[Replicate, _Mapping]] = ..., hand_over: _Optional[_Union[HandOver, _Mapping]] = ..., set_config: _Optional[_Union[SetConfig, _Mapping]] = ..., load_users: _Optional[_Union[LoadUsers, _Mapping]] = ..., save: _Optional[_Union[Save, _Mapping]] = ..., shut_down: _Optional[_Union[ShutDown, _Mapping]] = ..., fence: _Optional[_Union[Fence, _Mapping]] = ..., open_gate: _Optional[_Union[OpenGate, _Mapping]] = ..., meet: _Optional[_Union[Meet, _Mapping]] = ..., forget: _Optional[_Union[Forget, _Mapping]] = ..., assign_slots: _Optional[_Union[AssignSlots, _Mapping]] = ..., migrate_slots: _Optional[_Union[MigrateSlots, _Mapping]] = ..., cancel_migration: _Optional[_Union[CancelMigration, _Mapping]] = ..., reset_node: _Optional[_Union[ResetNode, _Mapping]] = ..., note_primary: _Optional[_Union[NotePrimary, _Mapping]] = ..., take_office: _Optional[_Union[TakeOffice, _Mapping]] = ..., import_slots: _Optional[_Union[ImportSlots, _Mapping]] = ..., claim_slots: _Optional[_Union[ClaimSlots, _Mapping]] = ..., hurry: _Optional[_Union[Hurry, _Mapping]] = ..., dump_functions: _Optional[_Union[DumpFunctions, _Mapping]] = ..., load_functions: _Optional[_Union[LoadFunctions, _Mapping]] = ..., step_aside: _Optional[_Union[StepAside, _Mapping]] = ...) -> None: ...

class StepAside(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Promote(_message.Message):
    __slots__ = ("force", "former_id", "former")
    FORCE_FIELD_NUMBER: _ClassVar[int]
    FORMER_ID_FIELD_NUMBER: _ClassVar[int]
    FORMER_FIELD_NUMBER: _ClassVar[int]
    force: bool
    former_id: str
    former: str
    def __init__(self, force: _Optional[bool] = ..., former_id: _Optional[str] = ..., former: _Optional[str] = ...) -> None: ...

class TakeOffice(_message.Message):
    __slots__ = ("former_id", "proof")
    FORMER_ID_FIELD_NUMBER: _ClassVar[int]
    PROOF_FIELD_NUMBER: _ClassVar[int]
    former_id: str
    proof: str
    def __init__(self, former_id: _Optional[str] = ..., proof: _Optional[str] = ...) -> None: ...

class Replicate(_message.Message):
    __slots__ = ("primary",)
    PRIMARY_FIELD_NUMBER: _ClassVar[int]
    primary: str
    def __init__(self, primary: _Optional[str] = ...) -> None: ...

class HandOver(_message.Message):
    __slots__ = ("to",)
    TO_FIELD_NUMBER: _ClassVar[int]
    to: str
    def __init__(self, to: _Optional[str] = ...) -> None: ...

class NotePrimary(_message.Message):
    __slots__ = ("primary",)
    PRIMARY_FIELD_NUMBER: _ClassVar[int]
    primary: str
    def __init__(self, primary: _Optional[str] = ...) -> None: ...

class SetConfig(_message.Message):
    __slots__ = ("directives",)
    class DirectivesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    DIRECTIVES_FIELD_NUMBER: _ClassVar[int]
    directives: _containers.ScalarMap[str, str]
    def __init__(self, directives: _Optional[_Mapping[str, str]] = ...) -> None: ...

class LoadUsers(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LoadCertificates(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Save(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ShutDown(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Fence(_message.Message):
    __slots__ = ("is_on",)
    IS_ON_FIELD_NUMBER: _ClassVar[int]
    is_on: bool
    def __init__(self, is_on: _Optional[bool] = ...) -> None: ...

class OpenGate(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Meet(_message.Message):
    __slots__ = ("nodes",)
    NODES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[Acquaintance]
    def __init__(self, nodes: _Optional[_Iterable[_Union[Acquaintance, _Mapping]]] = ...) -> None: ...

class Acquaintance(_message.Message):
    __slots__ = ("node", "node_id", "address")
    NODE_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    node: str
    node_id: str
    address: str
    def __init__(self, node: _Optional[str] = ..., node_id: _Optional[str] = ..., address: _Optional[str] = ...) -> None: ...

class Forget(_message.Message):
    __slots__ = ("node_ids", "though_they_own_slots", "though_they_seem_connected")
    NODE_IDS_FIELD_NUMBER: _ClassVar[int]
    THOUGH_THEY_OWN_SLOTS_FIELD_NUMBER: _ClassVar[int]
    THOUGH_THEY_SEEM_CONNECTED_FIELD_NUMBER: _ClassVar[int]
    node_ids: _containers.RepeatedScalarFieldContainer[str]
    though_they_own_slots: bool
    though_they_seem_connected: bool
    def __init__(self, node_ids: _Optional[_Iterable[str]] = ..., though_they_own_slots: _Optional[bool] = ..., though_they_seem_connected: _Optional[bool] = ...) -> None: ...

class AssignSlots(_message.Message):
    __slots__ = ("slots", "config_epoch")
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    CONFIG_EPOCH_FIELD_NUMBER: _ClassVar[int]
    slots: _containers.RepeatedCompositeFieldContainer[SlotRange]
    config_epoch: int
    def __init__(self, slots: _Optional[_Iterable[_Union[SlotRange, _Mapping]]] = ..., config_epoch: _Optional[int] = ...) -> None: ...

class MigrateSlots(_message.Message):
    __slots__ = ("slots", "to_node_id", "key_by_key")
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    TO_NODE_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_BY_KEY_FIELD_NUMBER: _ClassVar[int]
    slots: _containers.RepeatedCompositeFieldContainer[SlotRange]
    to_node_id: str
    key_by_key: bool
    def __init__(self, slots: _Optional[_Iterable[_Union[SlotRange, _Mapping]]] = ..., to_node_id: _Optional[str] = ..., key_by_key: _Optional[bool] = ...) -> None: ...

class CancelMigration(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ImportSlots(_message.Message):
    __slots__ = ("slots", "from_node_id")
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    FROM_NODE_ID_FIELD_NUMBER: _ClassVar[int]
    slots: _containers.RepeatedCompositeFieldContainer[SlotRange]
    from_node_id: str
    def __init__(self, slots: _Optional[_Iterable[_Union[SlotRange, _Mapping]]] = ..., from_node_id: _Optional[str] = ...) -> None: ...

class ClaimSlots(_message.Message):
    __slots__ = ("slots", "from_node_id", "from_node")
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    FROM_NODE_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_NODE_FIELD_NUMBER: _ClassVar[int]
    slots: _containers.RepeatedCompositeFieldContainer[SlotRange]
    from_node_id: str
    from_node: str
    def __init__(self, slots: _Optional[_Iterable[_Union[SlotRange, _Mapping]]] = ..., from_node_id: _Optional[str] = ..., from_node: _Optional[str] = ...) -> None: ...

class Hurry(_message.Message):
    __slots__ = ("milliseconds", "ping_milliseconds", "node_timeout_milliseconds", "keeps_node_timeout")
    MILLISECONDS_FIELD_NUMBER: _ClassVar[int]
    PING_MILLISECONDS_FIELD_NUMBER: _ClassVar[int]
    NODE_TIMEOUT_MILLISECONDS_FIELD_NUMBER: _ClassVar[int]
    KEEPS_NODE_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    milliseconds: int
    ping_milliseconds: int
    node_timeout_milliseconds: int
    keeps_node_timeout: bool
    def __init__(self, milliseconds: _Optional[int] = ..., ping_milliseconds: _Optional[int] = ..., node_timeout_milliseconds: _Optional[int] = ..., keeps_node_timeout: _Optional[bool] = ...) -> None: ...

class DumpFunctions(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LoadFunctions(_message.Message):
    __slots__ = ("functions",)
    FUNCTIONS_FIELD_NUMBER: _ClassVar[int]
    functions: bytes
    def __init__(self, functions: _Optional[bytes] = ...) -> None: ...

class ResetNode(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Outcome(_message.Message):
    __slots__ = ("result", "message", "guard", "observation", "write_pause_milliseconds", "functions")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    GUARD_FIELD_NUMBER: _ClassVar[int]
    OBSERVATION_FIELD_NUMBER: _ClassVar[int]
    WRITE_PAUSE_MILLISECONDS_FIELD_NUMBER: _ClassVar[int]
    FUNCTIONS_FIELD_NUMBER: _ClassVar[int]
    result: Result
    message: str
    guard: str
    observation: Observation
    write_pause_milliseconds: int
    functions: bytes
    def __init__(self, result: _Optional[_Union[Result, str]] = ..., message: _Optional[str] = ..., guard: _Optional[str] = ..., observation: _Optional[_Union[Observation, _Mapping]] = ..., write_pause_milliseconds: _Optional[int] = ..., functions: _Optional[bytes] = ...) -> None: ...

class LeaseQuestion(_message.Message):
    __slots__ = ("pod_uid", "epoch", "primary")
    POD_UID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PRIMARY_FIELD_NUMBER: _ClassVar[int]
    pod_uid: str
    epoch: int
    primary: str
    def __init__(self, pod_uid: _Optional[str] = ..., epoch: _Optional[int] = ..., primary: _Optional[str] = ...) -> None: ...

class LeaseAnswer(_message.Message):
    __slots__ = ("follows", "epoch")
    FOLLOWS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    follows: bool
    epoch: int
    def __init__(self, follows: _Optional[bool] = ..., epoch: _Optional[int] = ...) -> None: ...

class TakeOverRequest(_message.Message):
    __slots__ = ("pod_uid", "epoch")
    POD_UID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    pod_uid: str
    epoch: int
    def __init__(self, pod_uid: _Optional[str] = ..., epoch: _Optional[int] = ..., **kwargs) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("observation", "events")
    OBSERVATION_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    observation: Observation
    events: _containers.RepeatedCompositeFieldContainer[Event]
    def __init__(self, observation: _Optional[_Union[Observation, _Mapping]] = ..., events: _Optional[_Iterable[_Union[Event, _Mapping]]] = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("kind", "message", "at")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        KIND_UNSPECIFIED: _ClassVar[Event.Kind]
        KIND_SERVER_STARTED: _ClassVar[Event.Kind]
        KIND_SERVER_DIED: _ClassVar[Event.Kind]
        KIND_ROLE_CHANGED: _ClassVar[Event.Kind]
        KIND_POD_STOPPING: _ClassVar[Event.Kind]
        KIND_DISK_FULL: _ClassVar[Event.Kind]
        KIND_CERTIFICATE_RELOADED: _ClassVar[Event.Kind]
        KIND_GATE_CLOSED: _ClassVar[Event.Kind]
        KIND_FENCED: _ClassVar[Event.Kind]
        KIND_CONFIG_CHANGED: _ClassVar[Event.Kind]
        KIND_READINESS_CHANGED: _ClassVar[Event.Kind]
        KIND_SERVER_HUNG: _ClassVar[Event.Kind]
        KIND_STARTED_EMPTY: _ClassVar[Event.Kind]
    KIND_UNSPECIFIED: Event.Kind
    KIND_SERVER_STARTED: Event.Kind
    KIND_SERVER_DIED: Event.Kind
    KIND_ROLE_CHANGED: Event.Kind
    KIND_POD_STOPPING: Event.Kind
    KIND_DISK_FULL: Event.Kind
    KIND_CERTIFICATE_RELOADED: Event.Kind
    KIND_GATE_CLOSED: Event.Kind
    KIND_FENCED: Event.Kind
    KIND_CONFIG_CHANGED: Event.Kind
    KIND_READINESS_CHANGED: Event.Kind
    KIND_SERVER_HUNG: Event.Kind
    KIND_STARTED_EMPTY: Event.Kind
    KIND_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    kind: Event.Kind
    message: str
    at: int
    def __init__(self, kind: _Optional[_Union[Event.Kind, str]] = ..., message: _Optional[str] = ..., at: _Optional[int] = ...) -> None: ...

class HeartbeatAnswer(_message.Message):
    __slots__ = ("next_milliseconds",)
    NEXT_MILLISECONDS_FIELD_NUMBER: _ClassVar[int]
    next_milliseconds: int
    def __init__(self, next_milliseconds: _Optional[int] = ...) -> None: ...

class LeaseRequest(_message.Message):
    __slots__ = ("node", "pod_uid", "epoch", "promotable")
    NODE_FIELD_NUMBER: _ClassVar[int]
    POD_UID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PROMOTABLE_FIELD_NUMBER: _ClassVar[int]
    node: str
    pod_uid: str
    epoch: int
    promotable: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, node: _Optional[str] = ..., pod_uid: _Optional[str] = ..., epoch: _Optional[int] = ..., promotable: _Optional[_Iterable[str]] = ...) -> None: ...

class LeaseGrant(_message.Message):
    __slots__ = ("epoch", "milliseconds", "promotable")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    MILLISECONDS_FIELD_NUMBER: _ClassVar[int]
    PROMOTABLE_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    milliseconds: int
    promotable: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, epoch: _Optional[int] = ..., milliseconds: _Optional[int] = ..., promotable: _Optional[_Iterable[str]] = ...) -> None: ...
