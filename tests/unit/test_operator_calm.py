"""Progress is told, but not at every step."""

from __future__ import annotations

from valkey_operator.kube.objects import Key
from valkey_operator.operator.calm import Calm

KEY = Key("prod", "cache")


def on_its_way(message: str) -> dict[str, str]:
    return {"state": "Initializing", "message": message}


def test_the_first_word_and_the_last_are_told_at_once_and_between_them_every_two_seconds() -> None:
    clock = [0.0]
    calm, status, written = Calm(now=lambda: clock[0]), dict[str, str](), []
    for tenth in range(50):
        clock[0] = tenth / 10
        wanted = on_its_way(f"step {tenth}") if tenth < 45 else {"state": "Ready", "message": "serves"}
        if wanted != status and not calm.pause(KEY, status, wanted):
            status = wanted
            written.append((tenth, wanted["message"]))
    assert written == [(0, "step 0"), (20, "step 20"), (40, "step 40"), (45, "serves")]


def test_it_says_how_long_to_wait() -> None:
    clock = [0.0]
    calm = Calm(now=lambda: clock[0])
    assert calm.pause(KEY, {}, on_its_way("a")) == 0
    clock[0] = 0.5
    assert calm.pause(KEY, on_its_way("a"), on_its_way("b")) == 1.5


def test_calm_from_the_first_it_says_nothing_of_what_starts_in_time() -> None:
    clock = [0.0]
    calm = Calm(now=lambda: clock[0], is_calm_from_the_first=True)
    assert calm.pause(KEY, {}, on_its_way("a")) == 2
    clock[0] = 1.5
    assert calm.pause(KEY, {}, on_its_way("b")) == 0.5
    assert calm.pause(KEY, {}, {"state": "Ready"}) == 0
    clock[0] = 10
    assert calm.pause(KEY, {}, on_its_way("a")) == 2
    clock[0] = 12
    assert calm.pause(KEY, {}, on_its_way("a")) == 0


def test_what_fails_is_told_at_once() -> None:
    calm = Calm(now=lambda: 0.0)
    assert calm.pause(KEY, {}, on_its_way("a")) == 0
    assert calm.pause(KEY, on_its_way("a"), {"state": "Failed"}) == 0
    assert calm.pause(KEY, {"state": "Failed"}, on_its_way("b")) == 0


def moving(done: int, **more: object) -> dict[str, object]:
    operation = {"kind": "Scaling", "step": f"{done}", "done": done, "total": 4096}
    return {"state": "Reconciling", "message": f"{done}", "operation": operation, **more}


def test_an_operation_that_counts_on_is_told_every_two_seconds_and_all_else_at_once() -> None:
    clock = [0.0]
    calm = Calm(now=lambda: clock[0])
    assert calm.pause(KEY, {}, moving(0)) == 0
    clock[0] = 0.5
    assert calm.pause(KEY, moving(0), moving(100)) == 1.5
    assert calm.pause(KEY, moving(0), moving(100, readyReplicas=5)) == 0
    clock[0] = 2.5
    assert calm.pause(KEY, moving(0), moving(300)) == 0
    assert calm.pause(KEY, moving(300), {"state": "Ready"}) == 0
