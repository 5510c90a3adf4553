"""What becomes of one document: objects in our API, what is to be told, and what could not be carried over."""

from __future__ import annotations

from dataclasses import dataclass, field

from valkey_operator.api.group import GROUP, VERSION
from valkey_operator.dialects.block import Block, as_yaml
from valkey_operator.dialects.fields import Fields
from valkey_operator.dialects.reading import Content, Document

KEPT_METADATA = ("name", "generateName", "namespace", "labels", "annotations")
# What an API server or another operator put there; it has no meaning for a new object.
DROPPED_METADATA = (
    "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
    "deletionGracePeriodSeconds", "managedFields", "selfLink", "ownerReferences", "finalizers",
)  # fmt: skip
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass
class Made:
    """An object that was made."""

    kind: str
    metadata: Content
    block: Block
    head: list[str] = field(default_factory=list)
    api_version: str = f"{GROUP}/{VERSION}"
    root: str = "spec"

    @property
    def name(self) -> str:
        return str(self.metadata.get("name", ""))

    @property
    def content(self) -> Content:
        top = {"apiVersion": self.api_version, "kind": self.kind, "metadata": self.metadata}
        return {**top, self.root: self.block.values}

    def as_yaml(self) -> str:
        comments = {f"{self.root}.{path}": text for path, text in self.block.comments.items()}
        return as_yaml(self.content, comments, self.head)


@dataclass
class Conversion:
    """One document on its way. A document that `stays` is printed as it stands."""

    document: Document
    dialect: str
    made: list[Made] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    lost: list[tuple[str, str]] = field(default_factory=list)
    stays: bool = False
    secrets_taken: frozenset[tuple[object, str]] = frozenset()

    def metadata(self) -> Content:
        """What a new object keeps of the old one's; its last applied form holds what stood in the spec."""
        found = Fields(self.document.metadata, "metadata")
        kept = {key: found.take(key) for key in KEPT_METADATA if key in found}
        owners = [key for key in ("ownerReferences", "finalizers") if found.see(key)]
        if owners and not self.made:
            self.note(f"metadata.{' and '.join(owners)} left out: they belong to what made it there")
        for key in DROPPED_METADATA:
            found.take(key)
        self.lose(found)
        annotations = kept.get("annotations")
        if isinstance(annotations, dict):
            annotations = {key: value for key, value in annotations.items() if key != LAST_APPLIED}
            kept["annotations"] = annotations
        return {key: value for key, value in kept.items() if value != {}}

    def make(self, kind: str, block: Block, **metadata: str) -> Made:
        made = Made(kind, {**self.metadata(), **metadata}, block)
        made.head.append(f"Converted from {self.document.kind} of {self.dialect}.")
        self.made.append(made)
        return made

    def free_secret(self) -> str:
        """A name for the Secret with the passwords that no Secret of the input has."""
        name = wanted = f"{self.document.name}-passwords"
        place, number = self.document.metadata.get("namespace"), 1
        while (place, name) in self.secrets_taken:
            number += 1
            name = f"{wanted}-{number}"
        return name

    def make_secret(self, name: str, passwords: dict[str, str]) -> None:
        block = Block()
        block.values.update(passwords)
        place = self.document.metadata.get("namespace")
        metadata = {"name": name, **({"namespace": place} if place else {})}
        head = [f"The passwords that stood in {self.document.kind} {self.document.name}."]
        self.made.insert(0, Made("Secret", metadata, block, head, "v1", "stringData"))

    def note(self, sentence: str) -> None:
        self.notes.append(sentence)

    def lose(self, fields: Fields) -> None:
        self.lost += fields.left_over()

    def cannot(self, path: str, sentence: str) -> None:
        self.lost.append((path, sentence))
