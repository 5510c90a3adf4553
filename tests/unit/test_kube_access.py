"""Where the API server is and who we are to it: kubeconfigs, pods, tokens and certificates that change under us."""

from __future__ import annotations

import asyncio
import base64
import ssl
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.certificates import Authority
from valkey_operator.kube import access
from valkey_operator.kube.access import Access, Tls
from valkey_operator.kube.credentials import Credentials, Identity
from valkey_operator.kube.errors import Misconfigured

SECRET = "a-token-nobody-may-see"  # noqa: S105 - it opens nothing
NOBODY = Identity()


def kubeconfig(
    user: dict[str, Any] | None = None,
    cluster: dict[str, Any] | None = None,
    name: str = "here",
    current: str | None = "here",
) -> dict[str, Any]:
    return {
        "current-context": current,
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}:6443", **(cluster or {})}}],
        "users": [{"name": name, "user": user or {}}],
        "contexts": [
            {"name": name, "context": {"cluster": name, "user": name, "namespace": f"{name}-space"}}
        ],
    }


def write(file: Path, content: object) -> str:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump(content))
    return str(file)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config"


def read(file: Path, user: dict[str, Any] | None = None, cluster: dict[str, Any] | None = None) -> Access:
    return access.from_kubeconfig(write(file, kubeconfig(user, cluster)))


def tls_of(found: Access) -> Tls:
    assert found.tls is not None
    return found.tls


async def token(shown: Credentials) -> str:
    return (await shown.identity()).token


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


# Kubeconfigs


def test_the_current_context_names_server_namespace_and_user(file: Path) -> None:
    found = read(file, {"token": SECRET}, {"tls-server-name": "other", "proxy-url": "http://proxy:3128"})
    assert (found.server, found.namespace, found.proxy) == (
        "https://here:6443",
        "here-space",
        "http://proxy:3128",
    )
    assert tls_of(found).server_name == "other"
    assert tls_of(found).verify
    assert asyncio.run(token(found.credentials)) == SECRET


def test_a_context_without_a_namespace_means_default(file: Path) -> None:
    content = kubeconfig()
    del content["contexts"][0]["context"]["namespace"]
    assert access.from_kubeconfig(write(file, content)).namespace == "default"


def test_the_context_that_is_asked_for_wins_over_the_current_one(tmp_path: Path) -> None:
    first, second = kubeconfig(), kubeconfig(name="there")
    both = {key: first[key] + second[key] for key in ("clusters", "users", "contexts")}
    path = write(tmp_path / "config", {**both, "current-context": "here"})
    assert access.from_kubeconfig(path).server == "https://here:6443"
    assert access.from_kubeconfig(path, "there").server == "https://there:6443"


def test_several_files_are_one_and_the_first_that_says_something_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [
        str(tmp_path / "missing"),
        write(tmp_path / "contexts", {"contexts": kubeconfig(name="there")["contexts"], "users": None}),
        write(tmp_path / "there", kubeconfig({"token": SECRET}, name="there", current="there")),
        write(tmp_path / "again", kubeconfig({"token": "later"}, {"server": "https://later"}, name="there")),
    ]
    monkeypatch.setenv("KUBECONFIG", ":".join(parts))
    found = access.from_kubeconfig()
    assert found.server == "https://there:6443"
    assert asyncio.run(token(found.credentials)) == SECRET


def test_the_home_folder_is_looked_into_when_nothing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path / ".kube" / "config", kubeconfig())
    assert access.from_kubeconfig().server == "https://here:6443"


def test_paths_are_relative_to_the_file_that_names_them(tmp_path: Path) -> None:
    user = kubeconfig({"client-certificate": "user.crt", "client-key": "keys/user.key"})
    cluster = kubeconfig(cluster={"certificate-authority": "../ca.crt"})
    paths = [
        write(tmp_path / "one" / "config", {**user, "clusters": []}),
        write(tmp_path / "two" / "config", cluster),
    ]
    tls = tls_of(access.from_kubeconfig(":".join(paths)))
    assert tls.authority == tmp_path / "two" / ".." / "ca.crt"
    assert tls.certificate == tmp_path / "one" / "user.crt"
    assert tls.key == tmp_path / "one" / "keys" / "user.key"


def test_data_in_the_kubeconfig_wins_over_a_file(file: Path) -> None:
    tls = tls_of(
        read(file, cluster={"certificate-authority-data": encoded(b"PEM"), "certificate-authority": "x"})
    )
    assert tls.authority == b"PEM"


def test_a_server_without_tls_needs_no_certificates(file: Path) -> None:
    assert read(file, cluster={"server": "http://here:8080/"}).tls is None


def test_a_token_file_is_found_beside_the_kubeconfig(file: Path) -> None:
    (file.parent / "token").write_text(f"{SECRET}\n")
    assert asyncio.run(read(file, {"tokenFile": "token"}).credentials.identity()).token == SECRET


def test_a_kubeconfig_may_ask_as_somebody_else(file: Path) -> None:
    assert read(file, {"as": "carol"}).headers == {"Impersonate-User": "carol"}


@pytest.mark.parametrize(
    ("content", "context", "said"),
    [
        (kubeconfig(), "gone", "the kubeconfig has no context 'gone'; it has: here"),
        (kubeconfig(current=None), None, "the kubeconfig has no current-context; name a context"),
        ({**kubeconfig(), "clusters": []}, None, "the kubeconfig has no cluster 'here'; it has: none"),
        ({**kubeconfig(), "users": None}, None, "the kubeconfig has no user 'here'; it has: none"),
        (["no map"], None, "is not a kubeconfig: it holds no map"),
        ({**kubeconfig(), "users": [{"user": {}}]}, None, "is not as it should be: 'name' is missing"),
        ({**kubeconfig(), "users": [SECRET]}, None, "is not as it should be"),
        (kubeconfig({"exec": {"args": []}}), None, "is not as it should be: 'command' is missing"),
        (kubeconfig({"client-key-data": "abc"}), None, "is not as it should be"),
        (kubeconfig({"auth-provider": {"name": "gcp"}}), None, "context 'here' uses auth-provider"),
        (kubeconfig({"as": "x", "as-groups": ["y"]}), None, "context 'here' uses as-groups"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_is_refused_in_one_sentence(
    file: Path, content: object, context: str | None, said: str
) -> None:
    with pytest.raises(Misconfigured) as refused:
        access.from_kubeconfig(write(file, content), context)
    assert said in str(refused.value)
    assert SECRET not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_missing_kubeconfig_is_named(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=r"there is no kubeconfig at .*/a, .*/b; set KUBECONFIG"):
        access.from_kubeconfig(f"{tmp_path}/a:{tmp_path}/b")


@pytest.mark.parametrize("how", ["paths", "KUBECONFIG"])
def test_a_kubeconfig_that_may_not_be_looked_at_is_named(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """Whoever runs the tests may look everywhere; a name that is too long is refused to everybody."""
    name = "x" * 300
    monkeypatch.setenv("KUBECONFIG", name)
    with pytest.raises(Misconfigured, match=f"^the kubeconfig {name} cannot be read: File name too long$"):
        access.find(name if how == "paths" else None)


@pytest.mark.parametrize(
    ("server", "rules", "is_direct"),
    [
        ("https://api.example.org:6443", "", False),
        ("https://api.example.org:6443", "*", True),
        ("https://api.example.org:6443", "other.org, example.org", True),
        ("https://API.example.org", "Example.Org", True),
        ("https://api.example.org", ".example.org", True),
        ("https://api.example.org", "*.example.org", True),
        ("https://example.org", ".example.org", False),
        ("https://badexample.org", "example.org", False),
        ("https://api.example.org:6443", "example.org:6443", True),
        ("https://api.example.org", "example.org:6443", False),
        ("https://10.1.2.3:6443", "10.0.0.0/8", True),
        ("https://10.1.2.3:6443", "10.1.2.3", True),
        ("https://11.1.2.3:6443", "10.0.0.0/8", False),
        ("https://api.example.org", "10.0.0.0/8", False),
        ("https://[fd00::1]:6443", "fd00::/8", True),
        ("https://127.0.0.1:6443", "", True),
        ("https://[::1]:6443", "", True),
        ("https://localhost:6443", "", True),
    ],
)
def test_the_proxy_of_the_environment_is_for_whom_kubectl_takes_it(
    monkeypatch: pytest.MonkeyPatch, server: str, rules: str, is_direct: bool
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", rules)
    assert access.environment_proxy(server) == (None if is_direct else "http://proxy:3128")


def test_a_proxy_is_an_http_proxy_and_each_protocol_has_its_own(
    monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "proxy:3128")
    assert access.environment_proxy("https://far") == "http://proxy:3128"
    assert access.environment_proxy("http://far") is None
    said = "^the proxy for the API server is a socks5 proxy, which is not supported; use an HTTP proxy$"
    monkeypatch.setenv("HTTPS_PROXY", "socks5://proxy")
    with pytest.raises(Misconfigured, match=said):
        access.environment_proxy("https://far")
    with pytest.raises(Misconfigured, match=said):
        read(file, cluster={"proxy-url": "socks5://proxy"})
    with pytest.raises(Misconfigured, match=r"^the API server's address https://far:away is none: "):
        access.environment_proxy("https://far:away")


@pytest.mark.parametrize(
    "url",
    [
        f"http://u:{SECRET}@p:port",
        f"http://u:{SECRET}@:3128",
        f"http://u:{SECRET}@[::1",
        f"http://u:{SECRET}/@p:9",
        f"http://u:{SECRET}@p:0",
        "http://",
    ],
)
def test_of_a_proxy_that_is_no_url_no_password_is_told(
    monkeypatch: pytest.MonkeyPatch, file: Path, url: str
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", url)
    said = "^the proxy for the API server is no URL; write http://host:port, and %2F for a / in a password$"
    with pytest.raises(Misconfigured, match=said):
        access.environment_proxy("https://far")
    with pytest.raises(Misconfigured, match=said):
        read(file, cluster={"proxy-url": url})


def test_a_protocol_is_one_in_large_letters_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "HTTP://proxy:3128")
    assert access.environment_proxy("https://far") == "http://proxy:3128"


@pytest.mark.usefixtures("pod")
def test_who_runs_in_a_pod_takes_no_proxy_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    assert access.find().proxy is None


def test_broken_yaml_is_refused_without_quoting_the_line_that_holds_the_token(file: Path) -> None:
    file.write_text(f"users:\n- token: {SECRET}: {SECRET}\n")
    with pytest.raises(Misconfigured) as refused:
        access.from_kubeconfig(str(file))
    assert str(refused.value) == f"the kubeconfig {file} cannot be read: it is no YAML in line 2"


def test_bytes_that_are_no_text_are_refused(file: Path) -> None:
    file.write_bytes(b"\xff\xfe\x00" + SECRET.encode())
    with pytest.raises(Misconfigured, match="it is no YAML") as refused:
        access.from_kubeconfig(str(file))
    assert SECRET not in str(refused.value)


# Inside a pod


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pod's files and environment, and a home without a kubeconfig."""
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    for name, content in {"token": SECRET, "ca.crt": "PEM", "namespace": "valkey-system\n"}.items():
        (folder / name).write_text(content)
    monkeypatch.setattr(access, "POD_FILES", folder)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    return folder


@pytest.mark.parametrize(
    ("host", "server"), [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")]
)
def test_a_pod_finds_its_server_and_its_own_account(
    pod: Path, monkeypatch: pytest.MonkeyPatch, host: str, server: str
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    found = access.from_pod(pod)
    assert (found.server, found.namespace, tls_of(found).authority) == (
        server,
        "valkey-system",
        pod / "ca.crt",
    )
    assert asyncio.run(token(found.credentials)) == SECRET


def test_outside_a_pod_there_is_no_account(pod: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
    with pytest.raises(Misconfigured, match="this is no pod"):
        access.from_pod(pod)


def test_a_pod_without_a_kubeconfig_uses_its_account(pod: Path) -> None:
    assert access.find().namespace == (pod / "namespace").read_text().strip()


def test_a_kubeconfig_in_a_pod_is_preferred_as_kubectl_does(pod: Path) -> None:
    path = write(pod.parent / "home" / ".kube" / "config", kubeconfig())
    assert access.find().server == "https://here:6443"
    assert access.find(path, "here").server == "https://here:6443"


def test_a_context_that_is_asked_for_is_never_replaced_by_the_pod(pod: Path) -> None:
    assert (pod / "token").exists()
    with pytest.raises(Misconfigured, match="there is no kubeconfig"):
        access.find(context="here")


async def test_a_missing_program_comes_with_its_hint(file: Path) -> None:
    asked = {"command": "./no-such-program", "installHint": "install it from the store"}
    found = read(file, {"exec": asked}).credentials
    with pytest.raises(Misconfigured) as refused:
        await found.identity()
    assert str(refused.value) == (
        f"the credential program {file.parent}/no-such-program cannot be run: No such file or directory; "
        "install it from the store"
    )


# Certificates


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tls:
    """Certificates in files, looked at whenever they are needed."""
    monkeypatch.setattr(access, "FILES_AGE", -1.0)
    tls = Tls(tmp_path / "ca.crt", tmp_path / "tls.crt", tmp_path / "tls.key")
    rotate(tls, Authority("first"))
    return tls


def rotate(tls: Tls, authority: Authority, *parts: str) -> None:
    issued = authority.issue("client")
    new = {"authority": authority.certificate, "certificate": issued.certificate, "key": issued.key}
    for part in parts or new:
        place = getattr(tls, part)
        place.with_suffix(".new").write_bytes(new[part])
        place.with_suffix(".new").replace(place)


def test_a_rotated_authority_is_trusted_without_a_restart(pair: Tls) -> None:
    before = pair.context(NOBODY)
    assert pair.context(NOBODY) is before
    rotate(pair, Authority("second"), "authority")
    (trusted,) = pair.context(NOBODY).get_ca_certs()
    assert trusted["subject"] == ((("commonName", "second"),),)


@pytest.mark.parametrize("part", ["certificate", "key"])
def test_a_half_rotated_certificate_keeps_the_last_good_one(pair: Tls, part: str) -> None:
    before = pair.context(NOBODY)
    rotate(pair, Authority("first"), part)
    assert pair.context(NOBODY) is before
    rotate(pair, Authority("first"))
    assert pair.context(NOBODY) is not before


@pytest.mark.parametrize("content", [b"", b"-----BEGIN CERT"])
def test_a_half_written_authority_keeps_the_last_good_one(pair: Tls, content: bytes) -> None:
    before = pair.context(NOBODY)
    assert isinstance(pair.authority, Path)
    pair.authority.write_bytes(content)
    assert pair.context(NOBODY) is before


def test_a_certificate_that_is_gone_keeps_the_last_good_one(pair: Tls) -> None:
    before = pair.context(NOBODY)
    assert isinstance(pair.certificate, Path)
    pair.certificate.unlink()
    assert pair.context(NOBODY) is before


def test_an_empty_authority_is_an_error_and_never_the_trust_of_the_machine() -> None:
    with pytest.raises(Misconfigured, match="the certificates for the API server cannot be used"):
        Tls(authority=b"").context(NOBODY)


def test_a_key_with_a_password_is_refused_and_nobody_is_asked_for_it() -> None:
    issued = Authority("first").issue("client", password=b"secret")
    with pytest.raises(Misconfigured, match="cannot be used"):
        Tls(certificate=issued.certificate, key=issued.key).context(NOBODY)


def test_a_certificate_of_a_program_replaces_the_one_before(pair: Tls) -> None:
    first, second = (Authority("first").issue("client") for _ in range(2))
    shown = [Identity("", issued.certificate, issued.key) for issued in (first, second)]
    before = pair.context(shown[0])
    assert pair.context(shown[0]) is before
    assert pair.context(shown[1]) is not before


# Secrets


async def test_no_secret_is_in_a_repr(file: Path) -> None:
    user = {"token": SECRET, "client-key-data": encoded(SECRET.encode())}
    found = read(file, user)
    await found.credentials.identity()
    secret_variable = {"command": "x", "env": [{"name": "PASSWORD", "value": SECRET}]}
    (file.parent / "token").write_text(SECRET)
    from_file = read(file, {"tokenFile": "token"})
    await from_file.credentials.identity()
    shown = repr(
        [found, read(file, {"exec": secret_variable}), from_file, Identity(SECRET, b"", SECRET.encode())]
    )
    assert SECRET not in shown
    assert encoded(SECRET.encode()) not in shown


def test_another_token_leaves_the_certificate_behind(pair: Tls) -> None:
    before = Access("https://here", pair)
    pair.context(NOBODY)
    other = access.with_token(before, SECRET)
    assert (tls_of(other).certificate, tls_of(other).key) == (None, None)
    assert tls_of(other).authority == pair.authority
    assert asyncio.run(token(other.credentials)) == SECRET


def test_certificates_without_every_modern_extension_are_accepted(
    pair: Tls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.13 asks for them by default, and clusters of all sorts would be out of reach."""
    usual = ssl.create_default_context

    def strict(*arguments: Any, **options: Any) -> ssl.SSLContext:
        context = usual(*arguments, **options)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", strict)
    context = pair.context(Identity())
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
