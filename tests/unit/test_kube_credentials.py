"""How we show who we are: token files and credential programs, which change under us."""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.unit.test_kube_access import SECRET, read, token
from valkey_operator.kube import credentials
from valkey_operator.kube.credentials import Plugin, TokenFile
from valkey_operator.kube.errors import Misconfigured

# Tokens in files


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def token_file(tmp_path: Path, clock: Clock) -> TokenFile:
    (tmp_path / "token").write_text("old")
    return TokenFile(tmp_path / "token", clock)


async def test_a_token_file_is_read_again_when_its_time_is_over(token_file: TokenFile, clock: Clock) -> None:
    assert await token(token_file) == "old"
    token_file.path.write_text("new")
    assert await token(token_file) == "old"
    clock.now += credentials.TOKEN_FILE_AGE + 1
    assert await token(token_file) == "new"


async def test_a_refused_token_is_read_again_at_once(token_file: TokenFile) -> None:
    refused = await token_file.identity()
    token_file.path.write_text("new")
    token_file.forget(refused)
    assert await token(token_file) == "new"


async def test_a_late_refusal_of_the_old_token_does_not_drop_the_new_one(
    token_file: TokenFile, clock: Clock
) -> None:
    refused = await token_file.identity()
    token_file.path.write_text("new")
    token_file.forget(refused)
    renewed = await token_file.identity()
    token_file.forget(refused)
    assert await token_file.identity() is renewed
    assert clock.now == Clock.now


@pytest.mark.parametrize("content", [b"", b" \n", b"two\nlines", b"\xff\xfe"])
async def test_a_half_written_token_file_keeps_the_last_good_token(
    token_file: TokenFile, clock: Clock, content: bytes
) -> None:
    await token_file.identity()
    token_file.path.write_bytes(content)
    clock.now += credentials.TOKEN_FILE_AGE + 1
    assert await token(token_file) == "old"
    token_file.path.write_text("new")
    assert await token(token_file) == "new"


async def test_an_empty_token_file_is_an_error_and_not_an_anonymous_user(token_file: TokenFile) -> None:
    token_file.path.write_text("")
    with pytest.raises(Misconfigured, match=r"the token file .*/token holds no token"):
        await token_file.identity()


async def test_a_missing_token_file_is_named(token_file: TokenFile) -> None:
    token_file.path.unlink()
    with pytest.raises(Misconfigured, match=r"the token file .*/token cannot be read: No such file"):
        await token_file.identity()


# Credential programs


ANSWER = """
import json, os, pathlib, sys
count = pathlib.Path(sys.argv[1])
count.write_text(str(int(count.read_text()) + 1) if count.exists() else "1")
told = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
token = f"{os.environ['WHO']}-{count.read_text()}"
status = {"token": token, "expirationTimestamp": sys.argv[2]} if len(sys.argv) > 2 else {"token": token}
print(json.dumps({"apiVersion": told["apiVersion"], "kind": "ExecCredential", "status": status}))
"""


def program(tmp_path: Path, code: str, *arguments: str) -> Plugin:
    found = read(
        tmp_path / "config",
        {
            "exec": {
                "apiVersion": "client.authentication.k8s.io/v1",
                "command": sys.executable,
                "args": ["-c", code, str(tmp_path / "count"), *arguments],
                "env": [{"name": "WHO", "value": "carol"}],
            }
        },
    ).credentials
    assert isinstance(found, Plugin)
    return found


async def test_a_credential_program_makes_the_token_once(tmp_path: Path) -> None:
    plugin = program(tmp_path, ANSWER)
    shown = await asyncio.gather(*(plugin.identity() for _ in range(3)))
    assert {identity.token for identity in shown} == {"carol-1"}


@pytest.mark.parametrize(("minutes", "second"), [(60, "carol-1"), (-1, "carol-2")])
async def test_a_token_that_expires_is_made_anew(tmp_path: Path, minutes: int, second: str) -> None:
    expires = datetime.now(UTC) + timedelta(minutes=minutes)
    plugin = program(tmp_path, ANSWER, expires.isoformat())
    await plugin.identity()
    assert await token(plugin) == second


async def test_a_program_is_asked_once_however_many_requests_were_refused(tmp_path: Path) -> None:
    plugin = program(tmp_path, ANSWER)
    refused = await plugin.identity()
    for _ in range(3):
        plugin.forget(refused)
        assert await token(plugin) == "carol-2"


async def test_a_program_may_show_a_certificate(tmp_path: Path) -> None:
    status = {"clientCertificateData": "CERTIFICATE", "clientKeyData": "KEY"}
    shown = await program(tmp_path, f"print({json.dumps({'status': status})!r})").identity()
    assert (shown.token, shown.certificate, shown.key) == ("", b"CERTIFICATE", b"KEY")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import sys; print('{}'); sys.exit('first\\nlog in first')", "failed: log in first"),
        ("import sys; sys.exit(3)", "failed: it said nothing"),
        (f"print({SECRET!r})", "printed no ExecCredential"),
        (f"print({json.dumps({'status': {'token': [SECRET]}})!r})", "printed no ExecCredential"),
        (f"print({json.dumps({'status': {}})!r})", "printed no ExecCredential"),
        (f"print({json.dumps({'status': {'clientCertificateData': 'x'}})!r})", "printed no ExecCredential"),
        (
            'import sys; sys.stdout.buffer.write(b\'{"status":{"token":"\\xff"}}\')',
            "printed no ExecCredential",
        ),
    ],
)
async def test_a_program_that_makes_no_credential_is_named(tmp_path: Path, code: str, said: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        await program(tmp_path, code).identity()
    assert str(refused.value) == f"the credential program {sys.executable} {said}"


async def test_a_program_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "PLUGIN_LIMIT", 0.1)
    with pytest.raises(Misconfigured, match="did not end in 0 s"):
        await program(tmp_path, "import time; time.sleep(600)").identity()


async def test_a_program_that_hangs_is_ended_with_all_it_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child of a script holds the script's output open: only with it the script's end is noticed."""
    monkeypatch.setattr(credentials, "PLUGIN_LIMIT", 0.5)
    script = "import subprocess; subprocess.run(['sleep', '600'])"
    async with asyncio.timeout(10):
        with pytest.raises(Misconfigured, match="did not end in 0 s"):
            await program(tmp_path, script).identity()


async def test_a_token_without_a_time_zone_on_its_end_is_not_taken(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="printed no ExecCredential"):
        await program(tmp_path, ANSWER, "2030-01-01T00:00:00").identity()
