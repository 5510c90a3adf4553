"""What a store believes when answers, events and lists reach it in any order."""

from __future__ import annotations

import pytest

from valkey_operator.kube.errors import Unreadable
from valkey_operator.kube.objects import Key, Metadata, Object, Unread
from valkey_operator.kube.store import Store


def made(version: int, name: str = "a", namespace: str = "n", uid: str = "") -> Object:
    return Object(Metadata(name, namespace, uid or f"uid-of-{name}", str(version)))


def unread(version: int, name: str = "a") -> Unread:
    return Unread(made(version, name).metadata, "odd")


A = Key("n", "a")


def version(store: Store[Object]) -> int | None:
    found = store.get(A)
    return None if found is None else found.version


def test_what_we_deleted_does_not_come_back_with_a_list_that_was_read_before() -> None:
    store: Store[Object] = Store()
    store.put(made(10))
    store.delete(made(10), by_us=True)
    store.put(made(15))
    store.keep_only([made(15)], "", 15)
    store.put(made(16))
    assert version(store) is None, "an event from before our delete, told after that list"
    store.delete(made(20))
    store.put(made(30, uid="another"))
    assert version(store) == 30


def test_a_list_of_another_namespace_says_nothing_about_what_we_deleted_here() -> None:
    store: Store[Object] = Store()
    store.put(made(10))
    store.delete(made(10), by_us=True)
    store.keep_only([], "elsewhere", 100)
    store.put(made(15))
    assert version(store) is None


def test_what_came_back_with_a_backup_is_followed_again() -> None:
    store: Store[Object] = Store()
    store.put(made(10))
    store.delete(made(10), by_us=True)
    store.put(made(5), whatever_version=True)
    store.keep_only([made(5)], "", 20)
    store.put(made(6))
    assert version(store) == 6


def test_what_was_found_as_wished_is_looked_at_again_in_another_version_and_forgotten_with_its_end() -> None:
    store: Store[Object] = Store()
    store.put(made(10))
    store.note_whole(A)
    store.put(made(9))
    assert store.is_whole(A), "an old event changes nothing"
    store.put(made(11))
    assert not store.is_whole(A)
    store.note_whole(A)
    store.delete(made(12))
    assert not store.is_whole(A)


def test_one_that_cannot_be_read_obeys_the_same_rules() -> None:
    store: Store[Object] = Store()
    store.put(unread(10))
    store.put(made(9))
    with pytest.raises(Unreadable, match="n/a is there but cannot be read: odd"):
        store.get(A)
    assert (A in store, list(store)) == (True, [])
    store.put(unread(5), whatever_version=True)
    store.put(made(6))
    assert version(store) == 6
    store.delete(made(6), by_us=True)
    store.put(unread(7))
    assert store.get(A) is None


def test_an_index_may_name_a_value_twice() -> None:
    store: Store[Object] = Store()
    store.add_index("both", lambda item: [item.metadata.namespace, item.metadata.namespace])
    store.put(made(1))
    store.put(made(2))
    assert [item.version for item in store.by("both", "n")] == [2]
    store.put(unread(3))
    assert list(store.by("both", "n")) == []
    store.put(made(4))
    store.delete(made(4))
    assert list(store.by("both", "n")) == []


def test_handlers_hear_of_each_change_once() -> None:
    store: Store[Object] = Store()
    told: list[tuple[int, int]] = []

    def changed(before: Object | None, after: Object | None) -> None:
        told.append((before.version if before else 0, after.version if after else 0))

    store.on_change(changed)
    for item in (made(1), made(1), unread(2), made(1)):
        store.put(item)
    store.keep_only([], "n", 5)
    assert told == [(0, 1), (1, 2), (2, 0)]
