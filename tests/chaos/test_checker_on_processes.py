"""The checker on local processes: the scenarios of the control without pods, and what needs no pod."""

import asyncio
import datetime
import ipaddress
import os
import ssl
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tests.chaos.bare import ACCESS, CLUSTER_OPTIONS, OPTIONS, form_cluster, order
from tests.chaos.cluster_target import ClusterTarget
from tests.chaos.history import Recorder
from tests.chaos.judge import judge
from tests.chaos.outcomes import Outcome
from tests.chaos.processes import LOOPBACK, free_ports, processes
from tests.chaos.scenarios import CLEAN, CONTROLS, Scenario
from tests.chaos.stored import read_history
from tests.chaos.targets import PlainTarget
from tests.chaos.verdict import Verdict
from tests.chaos.wire import Address
from tests.chaos.workload import Workload

RUNS = range(int(os.environ.get("CONTROL_RUNS", "1")))


async def run(scenario: Scenario, folder: Path, seed: int = 0) -> Verdict:
    async with processes(folder, scenario.servers, scenario.options) as servers:
        return await scenario.run(servers, Recorder(folder / "history.jsonl"), seed)


@pytest.mark.parametrize("scenario", CLEAN, ids=str)
async def test_a_safe_change_is_clean(scenario: Scenario, tmp_path: Path) -> None:
    verdict = await run(scenario, tmp_path)
    assert verdict.clean, str(verdict)


@pytest.mark.parametrize("seed", RUNS)
@pytest.mark.parametrize("scenario", CONTROLS, ids=str)
async def test_an_unsafe_change_is_caught(scenario: Scenario, seed: int, tmp_path: Path) -> None:
    verdict = await run(scenario, tmp_path, seed)
    assert verdict.lost, str(verdict)
    assert verdict.rollbacks, str(verdict)
    assert not verdict.clean


async def test_a_stored_history_gets_the_same_verdict_again(tmp_path: Path) -> None:
    verdict = await run(CONTROLS[0], tmp_path)
    assert str(judge(read_history(tmp_path / "history.jsonl"))) == str(verdict)


async def test_the_checker_finds_the_new_primary_when_the_old_one_stays_dead(tmp_path: Path) -> None:
    """The replica takes over before anybody calls the primary dead: no server tells the writers to move."""
    options = (*CLUSTER_OPTIONS, "--cluster-require-full-coverage", "no")
    async with processes(tmp_path, 6, options) as servers:
        primaries, replicas = servers.addresses[:3], servers.addresses[3:]
        await form_cluster(primaries, replicas)
        recorder = Recorder()
        async with Workload(ClusterTarget(primaries, ACCESS), recorder, pace=0.02) as load:
            await load.acknowledged(each=5)
            await servers.kill(primaries[0])
            await asyncio.sleep(0.3)  # long enough for every writer to have looked at the old map again
            await order(replicas[0], "CLUSTER", "FAILOVER", "TAKEOVER")
            await load.acknowledged(each=5)
        took = {write.node for write in recorder.history.writes if write.outcome is Outcome.OK}
        assert str(replicas[0]) in took


async def test_servers_that_do_not_heal_prove_nothing(tmp_path: Path) -> None:
    async with processes(tmp_path, 1, OPTIONS) as servers:
        target = PlainTarget(servers.addresses[0], ACCESS)
        async with Workload(target, Recorder(), pace=0.01, heal_within=0.2) as load:
            await load.acknowledged(each=20)
    verdict = await load.judge()
    assert str(verdict).startswith("NOT PROVEN")
    assert "there is no final read" in str(verdict)


async def test_the_checker_writes_over_tls_with_a_password(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    port = next(port for port in free_ports() if port > 25_000)
    files = ("--tls-cert-file", certificate, "--tls-key-file", key, "--tls-ca-cert-file", certificate)
    options = (*OPTIONS, "--tls-port", str(port), *files, "--tls-auth-clients", "no")
    access = replace(ACCESS, tls=ssl.create_default_context(cafile=certificate))
    async with processes(tmp_path, 1, options):
        async with Workload(PlainTarget(Address(LOOPBACK, port), access), Recorder(), pace=0.01) as load:
            await load.acknowledged(each=20)
        verdict = await load.judge()
    assert verdict.clean, str(verdict)


def make_certificate(folder: Path) -> tuple[str, str]:
    """A certificate for the loopback address that signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "checker")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(LOOPBACK))])
    certificate = (
        x509.CertificateBuilder(subject_name=name, issuer_name=name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(address, critical=False)
        .sign(key, hashes.SHA256())
    )
    files = folder / "certificate.pem", folder / "key.pem"
    files[0].write_bytes(certificate.public_bytes(Encoding.PEM))
    files[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return str(files[0]), str(files[1])
