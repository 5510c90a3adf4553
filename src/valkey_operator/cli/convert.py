"""`kubectl valkey convert -f FILE`: other people's manifests in this API, as YAML to read before it is applied."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from io import BytesIO, TextIOWrapper
from itertools import islice
from pathlib import Path

from valkey_operator.cli.command import Answer, Command, Problem
from valkey_operator.dialects import CHOICES
from valkey_operator.dialects.reading import BadManifest, Document, read

NOT_ALL = 3
ENDINGS = (".yaml", ".yml", ".json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-f",
        "--filename",
        action="append",
        required=True,
        metavar="FILE",
        help="a file, a folder, or - for what comes in; may be given several times",
    )
    parser.add_argument(
        "-R", "--recursive", action="store_true", help="folders with what is in their folders"
    )
    parser.add_argument(
        "--from",
        dest="dialect",
        choices=CHOICES,
        help="whose a ValkeyCluster is that several could have written",
    )
    parser.add_argument(
        "--lenient",
        action="store_true",
        help=f"end with 0, not with {NOT_ALL}, when something could not be carried over",
    )


def run(options: argparse.Namespace) -> Answer:
    from valkey_operator.dialects.convert import convert  # noqa: PLC0415 - all our types, for this command alone

    try:
        documents = [
            found for name in options.filename for found in _documents(name, recursive=options.recursive)
        ]
        converted = convert(documents, options.dialect)
    except BadManifest as error:
        raise Problem(str(error)) from None
    if not documents:
        raise Problem(f"there is no object in {', '.join(options.filename)}")
    told = [f"note: {note}" for note in converted.notes]
    told += [f"not carried over: {lost}" for lost in converted.lost]
    code = NOT_ALL if converted.lost and not options.lenient else 0
    return Answer(converted.text, code, "\n".join(told))


def _documents(name: str, *, recursive: bool) -> Iterator[Document]:
    try:
        for place, content in _contents(name, recursive=recursive):
            yield from read(TextIOWrapper(BytesIO(content), "utf-8").read(), place)
    except OSError as error:
        raise Problem(f"{error.filename or name} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Problem(f"{place} cannot be read: it is no text in UTF-8") from None


def _contents(name: str, *, recursive: bool) -> Iterator[tuple[str, bytes]]:
    if name == "-":
        if sys.stdin is None:
            raise Problem("standard input cannot be read: it is closed")
        yield "standard input", sys.stdin.buffer.read()
    else:
        yield from ((str(path), path.read_bytes()) for path in _files(Path(name), recursive=recursive))


def _files(path: Path, *, recursive: bool) -> list[Path]:
    if not path.is_dir():
        return [path]
    folders = os.walk(path, onerror=_unreadable)
    found = (
        Path(folder, name)
        for folder, _, names in (folders if recursive else islice(folders, 1))
        for name in names
    )
    files = sorted(file for file in found if file.suffix in ENDINGS and file.is_file())
    if not files:
        raise Problem(f"{path} has no file that ends in {', '.join(ENDINGS)}")
    return files


def _unreadable(error: OSError) -> None:
    """A folder that is left out would be manifests that are lost in silence."""
    raise error


COMMAND = Command(
    "convert",
    "Turn manifests of early drafts and of other operators into this API, and say what cannot be carried over.",
    run,
    add_arguments,
)
