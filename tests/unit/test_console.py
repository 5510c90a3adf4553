"""The reader of pages: what it takes for a command, and which output it accepts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.console import Command, commands

PAGE = """# A page

```yaml
a: b
```

```console
$ echo one
one
$ cat <<END
> two
> END
two

three …
…
$ true
```
"""


def test_commands_and_what_they_print_are_found(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(PAGE)
    assert commands(tmp_path / "page.md") == [
        Command(8, "echo one", ("one",)),
        Command(10, "cat <<END\ntwo\nEND", ("two", "", "three …", "…")),
        Command(17, "true", ()),
    ]


@pytest.mark.parametrize(
    ("printed", "output", "is_right"),
    [
        (("a  b",), "a b\n", True),
        (("a b",), "a c\n", False),
        (("a … b",), "a 12 b\n", True),
        (("a",), "a\nb\n", False),
        (("a", "…"), "a\nb\nc\n", True),
        (("a", "…"), "a\n", True),
        (("…", "z"), "a\nz", True),
        (("…", "z"), "a\nzz", False),
        (("(1.0)",), "(1.0)", True),
        (("(1.0)",), "(1x0)", False),
        ((), "whatever", True),
    ],
)
def test_only_what_the_page_says_is_right(printed: tuple[str, ...], output: str, is_right: bool) -> None:
    assert (Command(1, "c", printed).differs(output) == "") is is_right


def test_a_difference_shows_both() -> None:
    assert Command(3, "c", ("a",)).differs("b") == "line 3: `c` should print\na\nand printed\nb"
