"""The objects an informer knows, by key and by index; read without copying, because nothing in it can change.

Answers reach it by two ways, the watch and our own writes, in any order: the newest version of an object wins.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Generic

from valkey_operator.kube.errors import Unreadable
from valkey_operator.kube.objects import Key, Object, ObjectT, Unread

Index = Callable[[ObjectT], Iterable[str]]
# Called with the object before and after; None where there was or is none. Who needs more reads the store.
Handler = Callable[[Object | None, Object | None], None]


class Store(Generic[ObjectT]):
    """Filled by one informer, read by everybody."""

    def __init__(self) -> None:
        self._items: dict[Key, ObjectT | Unread] = {}
        self._indexes: dict[str, tuple[Index[ObjectT], dict[str, dict[Key, ObjectT]]]] = {}
        self._handlers: list[Handler] = []
        # Objects whose end was the answer to our own delete, until the watch has told it too; and where they were.
        self._gone: dict[str, str] = {}
        # Found to be as wished, in the version that is here: the record of who owns what is long to read.
        self._whole: set[Key] = set()

    def get(self, key: Key) -> ObjectT | None:
        """The object, or None when there is none. One that is there but cannot be read is not "none"."""
        item = self._items.get(key)
        if isinstance(item, Unread):
            raise Unreadable(f"{key} is there but cannot be read: {item.why}")
        return item

    def by(self, index: str, value: str) -> Collection[ObjectT]:
        return tuple(self._indexes[index][1].get(value, {}).values())

    def __iter__(self) -> Iterator[ObjectT]:
        return iter([item for item in self._items.values() if not isinstance(item, Unread)])

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: Key) -> bool:
        return key in self._items

    def add_index(self, name: str, values: Index[ObjectT]) -> None:
        self._indexes[name] = (values, {})
        for item in self:
            self._enter(name, item)

    def on_change(self, handler: Handler) -> None:
        self._handlers.append(handler)

    # For the informer and the writer alone

    def known(self, key: Key) -> ObjectT | Unread | None:
        return self._items.get(key)

    def is_whole(self, key: Key) -> bool:
        return key in self._whole

    def note_whole(self, key: Key) -> None:
        self._whole.add(key)

    def put(self, item: ObjectT | Unread, *, whatever_version: bool = False) -> None:
        before = self._items.get(item.key)
        is_old = item.metadata.uid in self._gone or (before is not None and before.version >= item.version)
        if whatever_version or not is_old:
            self._gone.pop(item.metadata.uid, None)
            self._replace(item.key, item)

    def delete(self, item: Object, *, by_us: bool = False) -> None:
        """This very object, in this version, is no more."""
        self._gone.pop(item.metadata.uid, None)
        if by_us:
            self._gone[item.metadata.uid] = item.metadata.namespace
        before = self._items.get(item.key)
        if before is not None and before.version <= item.version:
            self._replace(item.key, None)

    def keep_only(self, listed: Collection[Object], namespace: str, version: int) -> None:
        """A whole list of that version: what is not in it is gone, unless we wrote it later."""
        keys, uids = {item.key for item in listed}, {item.metadata.uid for item in listed}
        for key, item in list(self._items.items()):
            if key not in keys and item.version <= version and namespace in ("", key.namespace):
                self._replace(key, None)
        # What the list still shows was read before our delete: older events of it may follow.
        self._gone = {uid: at for uid, at in self._gone.items() if uid in uids or namespace not in ("", at)}

    def _replace(self, key: Key, after: ObjectT | Unread | None) -> None:
        before = self._items.pop(key, None)
        self._whole.discard(key)
        if after is not None:
            self._items[key] = after
        for name in self._indexes:
            self._leave(name, before)
            self._enter(name, after)
        for handler in self._handlers:
            handler(before, after)

    def _enter(self, name: str, item: ObjectT | Unread | None) -> None:
        values, entries = self._indexes[name]
        if item is not None and not isinstance(item, Unread):
            for value in values(item):
                entries.setdefault(value, {})[item.key] = item

    def _leave(self, name: str, item: ObjectT | Unread | None) -> None:
        values, entries = self._indexes[name]
        if item is not None and not isinstance(item, Unread):
            for value in set(values(item)):
                del entries[value][item.key]
                if not entries[value]:
                    del entries[value]
