"""The objects an informer knows, by key and by index; read without copying, because nothing in it can change.

Answers reach it by two ways, the watch and our own writes, in any order: the newest version of an object wins.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Generic

from valkey_operator.kube.errors import Unreadable
from valkey_operator.kube.objects import Key, Object, ObjectT

Index = Callable[[ObjectT], Iterable[str]]
# Called with the object before and after; None where there was or is none. Who needs more reads the store.
Handler = Callable[[Object | None, Object | None], None]


class Store(Generic[ObjectT]):
    """Filled by one informer, read by everybody."""

    def __init__(self) -> None:
        self._items: dict[Key, ObjectT] = {}
        self._unreadable: dict[Key, tuple[Object, str]] = {}
        self._indexes: dict[str, tuple[Index[ObjectT], dict[str, dict[Key, ObjectT]]]] = {}
        self._handlers: list[Handler] = []
        # Objects whose end was the answer to our own delete, until the watch has told it too.
        self._gone: dict[str, int] = {}

    def get(self, key: Key) -> ObjectT | None:
        """The object, or None when there is none. One that is there but cannot be read is not "none"."""
        if key in self._unreadable:
            raise Unreadable(f"{key} is there but cannot be read: {self._unreadable[key][1]}")
        return self._items.get(key)

    def by(self, index: str, value: str) -> Collection[ObjectT]:
        return tuple(self._indexes[index][1].get(value, {}).values())

    def __iter__(self) -> Iterator[ObjectT]:
        return iter(tuple(self._items.values()))

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: Key) -> bool:
        return key in self._items or key in self._unreadable

    def add_index(self, name: str, values: Index[ObjectT]) -> None:
        self._indexes[name] = (values, {})
        for item in self._items.values():
            self._enter(name, item)

    def on_change(self, handler: Handler) -> None:
        self._handlers.append(handler)

    # For the informer alone

    def put(self, item: ObjectT, *, whatever_version: bool = False) -> None:
        known = self._known(item.key)
        is_old = item.metadata.uid in self._gone or (known is not None and known.version >= item.version)
        if is_old and not whatever_version:
            return
        self._remove(item.key)
        self._items[item.key] = item
        for name in self._indexes:
            self._enter(name, item)
        self._tell(known, item)

    def put_unreadable(self, item: Object, why: str) -> None:
        known = self._known(item.key)
        if known is None or known.version < item.version:
            self._remove(item.key)
            self._unreadable[item.key] = (item, why)
            self._tell(known, item)

    def delete(self, item: Object, *, by_us: bool = False) -> None:
        """This very object, in this version, is no more."""
        self._gone.pop(item.metadata.uid, None)
        if by_us:
            self._gone[item.metadata.uid] = item.version
        known = self._known(item.key)
        if known is not None and known.version <= item.version:
            self._remove(item.key)
            self._tell(known, None)

    def keep_only(self, listed: Collection[Key], namespace: str, version: int) -> None:
        """A whole list of that version: what is not in it is gone, unless we wrote it later."""
        for key in [key for key in (*self._items, *self._unreadable) if key not in listed]:
            known = self._known(key)
            if known is not None and known.version <= version and namespace in ("", key.namespace):
                self._remove(key)
                self._tell(known, None)
        self._gone = {uid: gone for uid, gone in self._gone.items() if gone > version}

    def _known(self, key: Key) -> Object | None:
        return self._items.get(key) or self._unreadable.get(key, (None,))[0]

    def _remove(self, key: Key) -> None:
        self._unreadable.pop(key, None)
        item = self._items.pop(key, None)
        if item is None:
            return
        for values, entries in self._indexes.values():
            for value in values(item):
                del entries[value][key]
                if not entries[value]:
                    del entries[value]

    def _enter(self, name: str, item: ObjectT) -> None:
        values, entries = self._indexes[name]
        for value in values(item):
            entries.setdefault(value, {})[item.key] = item

    def _tell(self, before: Object | None, after: Object | None) -> None:
        for handler in self._handlers:
            handler(before, after)
