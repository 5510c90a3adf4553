"""Numbers that nobody can have are refused by name, and nothing computes them: a few letters would stop an operator."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from valkey_operator.api.crd import structural
from valkey_operator.api.directives import known
from valkey_operator.api.directives import refusal as directive_refusal
from valkey_operator.api.layers import APPLIES, effective
from valkey_operator.api.model import INT_OR_STRING, RULES
from valkey_operator.api.quantity import MOST, amount, quantity_bytes
from valkey_operator.api.requests import shards_named
from valkey_operator.api.validation import Fault, faults, validity_span
from valkey_operator.decide.window import is_open
from valkey_operator.dialects.convert import convert
from valkey_operator.dialects.reading import BadManifest, read
from valkey_operator.model.deployment import Deployment
from valkey_operator.model.times import span
from valkey_operator.render.server_config import valkey_conf

DIGITS = "9" * 5000
NUMBERS: tuple[Any, ...] = (10**5000, -(10**5000), 2**63, 1e300, DIGITS, f"-{DIGITS}", "1e400")
AMOUNTS = (
    *NUMBERS,
    "1e999999",
    "1e1000000",
    "1e99",
    f"1e{DIGITS}",
    f"{DIGITS}Gi",
    "99Ei",
    "9" * 64,
    "-1Gi",
    "1e3Gi",
)
SPANS = ("99999999999h", "999999999999999999999m", f"{DIGITS}s", "99999h" * 5, "1e400s", "-1h")
VALIDITIES = ("99999y", "99999mo", f"{DIGITS}d", "1e9d", "100y")
SIZES = ("99999999999999gb", f"{DIGITS}mb", "1e400", f"1{'0' * 15}", "9999999999g")
TIMES = (f"{'9' * 90} * * * *", f"*/{DIGITS} * * * *", "0 0 */31 * 1#5", f"0 0 * * {'9' * 50}L")
# By what a field of text says of itself.
BY_FORM = {"a time span": SPANS, "a validity": VALIDITIES, "a size": SIZES, "a cron time": TIMES}


def _leaves(
    schema: dict[str, Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], tuple[Any, ...]]]:
    """Every field that is a number in some way, and what it must not be. `[]` is an item of a list."""
    if schema.get("type") == "integer":
        yield path, NUMBERS
    elif INT_OR_STRING.items() <= schema.items():
        yield path, AMOUNTS if "pattern" in schema else NUMBERS
    elif schema.get("type") == "string":
        form = str(schema.get(RULES, ""))
        yield from ((path, values) for words, values in BY_FORM.items() if f"is not {words}" in form)
    for name, part in schema.get("properties", {}).items():
        yield from _leaves(part, (*path, name))
    if isinstance(schema.get("items"), dict):
        yield from _leaves(schema["items"], (*path, "[]"))
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _leaves(schema["additionalProperties"], (*path, "memory"))


LEAVES = [(kind, *leaf) for kind, model in APPLIES.items() for leaf in _leaves(structural(model))]


def _spec(path: tuple[str, ...], value: Any) -> Any:
    if not path:
        return value
    inner = _spec(path[1:], value)
    return [inner] if path[0] == "[]" else {path[0]: inner}


def _faults(kind: str, spec: dict[str, Any]) -> list[Fault]:
    began = time.perf_counter()
    found = faults(kind, effective(kind, spec).values)
    assert time.perf_counter() - began < 2
    return found


def _is_in_block(fault: Fault, field: str) -> bool:
    """A rule of the whole block names the field in its sentence."""
    block, _, name = field.rpartition(".")
    return fault.field == block and fault.sentence.startswith(f"{name} is ")


def test_the_fields_that_are_numbers_are_found() -> None:
    names = {path[-1] for _, path, _ in LEAVES}
    assert names >= {"size", "memory", "replicas", "nodeTimeout", "windowDuration", "window", "validity", "seconds",
                     "rewriteMinSize", "rewritePercentage", "port", "parallelSyncs", "tolerationSeconds"}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "path", "values"), LEAVES, ids=lambda part: str(part) if isinstance(part, str) else ""
)
def test_a_huge_number_is_refused_by_the_name_of_its_field(
    kind: str, path: tuple[str, ...], values: tuple[Any, ...]
) -> None:
    root = "spec.template." if kind == "ValkeyPool" else "spec."
    field = root + ".".join("0" if part == "[]" else part for part in path)
    for value in values:
        found = _faults(kind, _spec(path, value))
        named = [fault for fault in found if fault.field.startswith(field) or _is_in_block(fault, field)]
        assert len(named) == 1 or isinstance(value, float), (field, found)
        assert named
        assert all(len(str(fault)) < 400 for fault in found)


@pytest.mark.parametrize(
    "name", [name for name, of in known().items() if of["type"] in ("integer", "memory")]
)
def test_a_huge_number_in_a_directive_is_refused(name: str) -> None:
    huge = (*NUMBERS, [DIGITS], f"{DIGITS}gb", "9999999999999gb", f"{DIGITS}%", "99999999999999999999")
    for value in huge:
        sentence = directive_refusal(name, value, "9.1")
        assert sentence is not None, value
        assert len(sentence) < 300
    (fault,) = [each for each in _faults("Valkey", {"config": {name: DIGITS}}) if name in each.field]
    assert fault.field == f"spec.config.{name}"


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(["maxmemory", "timeout", "save", "loadmodule", "appendonly", "nonsense"]), ANY_JSON)
def test_no_value_of_a_directive_raises(name: str, value: Any) -> None:
    faults("Valkey", effective("Valkey", {"config": {name: value}}).values)


@given(st.sampled_from(LEAVES), ANY_JSON)
def test_no_value_of_a_number_raises(leaf: tuple[str, tuple[str, ...], Any], value: Any) -> None:
    kind, path, _ = leaf
    faults(kind, effective(kind, _spec(path, value)).values)


AMOUNT_TEXTS = st.from_regex(r"[+-]?[0-9.]{1,25}([eE][+-]?[0-9]{1,7}|[numkMGTPE]i?)?", fullmatch=True)


@given(AMOUNT_TEXTS)
def test_an_amount_is_never_more_than_can_be_had(text: str) -> None:
    found = amount(text)
    assert found is None or abs(found) <= MOST


@given(AMOUNT_TEXTS)
def test_what_is_accepted_as_memory_can_be_rendered(text: str) -> None:
    values = effective("Valkey", {"resources": {"limits": {"memory": text}}}).values
    if not faults("Valkey", values):
        assert "maxmemory " in valkey_conf(Deployment("Valkey", "demo", "prod", "uid", values))


@pytest.mark.parametrize(
    ("text", "size"),
    [("1e3", 1000), ("1E", 10**18), ("1E3", 1000), ("100e-2", 1), (".5Ki", 512), ("2.", 2), ("1m", 1), ("1n", 1),
     ("+1k", 1000), ("8Ei", None), ("1e3Ki", None), ("1K", None), ("", None), ("1e400", None), ("1Gi\n", None)],
)  # fmt: skip
def test_amounts_are_read_as_kubernetes_reads_them(text: str, size: int | None) -> None:
    assert quantity_bytes(text) == size


SPAN_PARTS = st.from_regex(r"([0-9]{1,9}ms|[0-9]{1,8}s|[0-9]{1,6}m|[0-9]{1,4}h)+", fullmatch=True)


@given(SPAN_PARTS.filter(lambda text: len(text) <= 32))
def test_every_span_that_is_accepted_can_be_waited_for(duration: str) -> None:
    assert faults("Valkey", effective("Valkey", {"update": {"windowDuration": duration}}).values) == []
    assert span(duration) < timedelta(days=5000)
    is_open("0 4 * * 6", duration, datetime(2026, 11, 14, tzinfo=UTC))


@pytest.mark.parametrize("window", [*TIMES, "61 4 * * *", "soon", DIGITS])
def test_what_is_no_window_never_opens(window: str) -> None:
    assert not is_open(window, "1h", datetime.now(UTC))


@pytest.mark.parametrize("duration", SPANS)
def test_a_window_of_a_span_that_cannot_be_raises_nothing(duration: str) -> None:
    is_open("0 4 * * 6", duration, datetime.now(UTC))


@pytest.mark.parametrize("validity", VALIDITIES)
def test_a_validity_beyond_all_calendars_is_no_validity(validity: str) -> None:
    with pytest.raises(ValueError, match="is no validity"):
        validity_span(validity)


def test_a_number_of_shards_that_cannot_be_names_none() -> None:
    assert shards_named(f"1,{DIGITS}") == {1}


def test_all_that_is_wrong_is_a_short_text_also_with_names_of_a_thousand_letters() -> None:
    found = _faults("Valkey", {"config": {"x" * 5000: 1}, "resources": {"limits": {"y" * 5000: "1e400"}}})
    assert len(found) == 2
    assert all(len(str(fault)) < 400 for fault in found)


def test_a_manifest_of_another_operator_with_a_huge_number_is_told() -> None:
    text = f"""
apiVersion: valkey.io/v1alpha1
kind: ValkeyCluster
metadata: {{name: a}}
spec: {{masterCount: "{DIGITS}", backup: {{rdb: {{enabled: true, save: "{DIGITS} 1"}}}}}}
"""
    assert convert(read(text, "here"))
    with pytest.raises(BadManifest, match="at most 1000 digits"):
        read(f"a: {DIGITS}", "here")
