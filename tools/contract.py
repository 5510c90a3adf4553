"""The contract between operator and sidecars: its Python code, and whether the last release still understands it.

    uv run python -m tools.contract

After a release a contract only grows: compared with the file at the newest tag v*. Before the first release there
is nothing to compare with, and it says so.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from google.protobuf import descriptor_pb2
from grpc_tools import protoc

from tools.compatibility import files_at, newest_tag, text_at

ROOT = Path(__file__).resolve().parents[1]
PROTO = "proto/valkey/operator/v1/sidecar.proto"
PLACE = "valkey_operator/contract/v1"

Enums = Iterable[descriptor_pb2.EnumDescriptorProto]


def generated() -> dict[Path, str]:
    """Every file that is made from the contract, and its content."""
    with tempfile.TemporaryDirectory() as folder:
        # Beside this very interpreter: it need not be on the PATH.
        plugin = Path(sys.executable).with_name("protoc-gen-grpclib_python")
        ways = [f"--{way}_out={folder}" for way in ("python", "pyi", "grpclib_python")]
        ways.append(f"--plugin=protoc-gen-grpclib_python={plugin}")
        _compile((ROOT / PROTO).read_text(), *ways)
        made = sorted((Path(folder) / PLACE).iterdir())
        return {ROOT / "src" / PLACE / file.name: file.read_text() for file in made}


def described(text: str) -> descriptor_pb2.FileDescriptorProto:
    with tempfile.NamedTemporaryFile() as file:
        _compile(text, f"--descriptor_set_out={file.name}")
        return descriptor_pb2.FileDescriptorSet.FromString(file.read()).file[0]


def breaks(old: descriptor_pb2.FileDescriptorProto, new: descriptor_pb2.FileDescriptorProto) -> Iterator[str]:
    """What a peer of the old contract would misunderstand in the new one."""
    messages, newer = dict(_messages(old)), dict(_messages(new))
    for name, message in messages.items():
        if name not in newer:
            yield f"message {name} is gone"
        else:
            yield from _fields(name, message, newer[name])
            yield from _enums(message.enum_type, newer[name].enum_type, f"{name}.")
    yield from _enums(old.enum_type, new.enum_type, "")
    calls = {f"{service.name}.{call.name}": call for service in new.service for call in service.method}
    for service in old.service:
        for call in service.method:
            known = calls.get(f"{service.name}.{call.name}")
            if known is None:
                yield f"call {service.name}.{call.name} is gone"
            elif (known.input_type, known.output_type) != (call.input_type, call.output_type):
                yield f"call {service.name}.{call.name} takes or gives another message"


def _messages(
    part: descriptor_pb2.FileDescriptorProto,
) -> Iterator[tuple[str, descriptor_pb2.DescriptorProto]]:
    for message in part.message_type:
        yield message.name, message
        for inner in message.nested_type:
            yield f"{message.name}.{inner.name}", inner


def _fields(
    name: str, old: descriptor_pb2.DescriptorProto, new: descriptor_pb2.DescriptorProto
) -> Iterator[str]:
    newer = {field.number: field for field in new.field}
    reserved = {number for part in new.reserved_range for number in range(part.start, part.end)}
    for field in old.field:
        known = newer.get(field.number)
        if known is None and field.number not in reserved:
            yield f"{name}.{field.name} is gone and its number {field.number} is not reserved"
        elif known is not None and (known.name, known.type, known.label, known.type_name) != (
            field.name, field.type, field.label, field.type_name,
        ):  # fmt: skip
            yield f"{name}.{field.name}: number {field.number} means something else"


def _enums(old: Enums, new: Enums, place: str) -> Iterator[str]:
    newer = {each.name: {value.number: value.name for value in each.value} for each in new}
    for each in old:
        for value in each.value:
            if newer.get(each.name, {}).get(value.number) != value.name:
                yield f"{place}{each.name}.{value.name} is gone or has another number"


def _compile(text: str, *ways: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "sidecar.proto"
        file.write_text(text)
        if protoc.main(["protoc", f"-I{PLACE}={folder}", *ways, str(file)]):
            sys.exit(f"{PROTO} cannot be compiled")


def main() -> None:
    tag = newest_tag()
    if not tag or not files_at(tag, PROTO):
        print("no release yet: nothing to compare the contract with")
        return
    found = list(breaks(described(text_at(tag, PROTO)), described((ROOT / PROTO).read_text())))
    if found:
        sys.exit(f"a peer of {tag} would misunderstand:\n" + "\n".join(found))


if __name__ == "__main__":
    main()
