"""The sidecar's certificates: awaited, followed, and told of."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.mtls import ISSUING, NOW, material
from tests.pki import Issuing
from tests.unit.test_contract_mtls_reload import mount
from valkey_operator.contract.mtls import thumbprints
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.sidecar.certificates import Certificates


class Told(list[tuple[contract.Event.Kind, str]]):
    def __call__(self, kind: contract.Event.Kind, message: str) -> None:
        self.append((kind, message))


async def test_who_needs_them_waits_until_they_are_mounted(tmp_path: Path) -> None:
    told = Told()
    certificates = Certificates(tmp_path, told)
    waiting = asyncio.create_task(certificates.credentials())
    certificates.look()
    await asyncio.sleep(0)
    assert not waiting.done()
    assert certificates.fingerprints() == contract.Fingerprints()
    mount(tmp_path, "..1", shown := material(ISSUING.node()))
    certificates.look()
    assert (await asyncio.wait_for(waiting, 1)).thumbprint == thumbprints(shown.certificate)[0]
    assert told == []  # the first are nothing new


async def test_new_ones_are_told_of_and_shown_in_the_fingerprints(tmp_path: Path) -> None:
    other, told = Issuing(NOW), Told()
    mount(tmp_path, "..1", material(ISSUING.node()))
    certificates = Certificates(tmp_path, told)
    certificates.look()
    mount(tmp_path, "..2", new := material(ISSUING.node(), ISSUING.root, other.root))
    certificates.look()
    certificates.look()
    thumbprint = thumbprints(new.certificate)[0]
    assert told == [(contract.Event.KIND_CERTIFICATE_RELOADED, f"certificate {thumbprint}")]
    found = certificates.fingerprints()
    roots = sorted(thumbprints(root.certificate)[0] for root in (ISSUING.root, other.root))
    assert (found.sidecar_certificate, found.trust) == (thumbprint, ",".join(roots))


async def test_what_cannot_be_used_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    mount(tmp_path, "..1", material(ISSUING.node()))
    certificates = Certificates(tmp_path, Told())
    certificates.look()
    (tmp_path / "tls.key").unlink()
    (tmp_path / "tls.key").write_text("garbage")
    (tmp_path / "..data").unlink()
    for _ in range(3):
        certificates.look()
    assert caplog.text.count("the certificate before is still shown") == 1
