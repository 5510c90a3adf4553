"""Where the API server is and how to get in: from kubeconfig files, or from inside a pod.

Certificates in files are read again when they change, so a rotated CA needs no restart.
"""

from __future__ import annotations

import base64
import os
import ssl
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from valkey_operator.kube.credentials import Credentials, Fixed, Identity, Plugin, TokenFile
from valkey_operator.kube.errors import Misconfigured

POD_FILES = Path("/var/run/secrets/kubernetes.io/serviceaccount")
# How long a changed certificate file may go unnoticed.
FILES_AGE = 10.0
# Never asked for through a proxy.
OWN_MACHINE = ("127.0.0.0/8", "::1")

Source = bytes | Path
Entry = Mapping[str, Any]
Contents = Sequence[tuple[Entry, Path]]


@dataclass
class Tls:
    """Whom we trust and what we show; `context` is rebuilt when a file or the shown certificate changes."""

    authority: Source | None = None
    certificate: Source | None = None
    key: Source | None = field(default=None, repr=False)
    server_name: str | None = None
    verify: bool = True
    _context: ssl.SSLContext | None = None
    _made_of: object = None
    _looked_at: float = float("-inf")

    def context(self, identity: Identity) -> ssl.SSLContext:
        now = time.monotonic()
        known = self._context
        if known is not None and now - self._looked_at <= FILES_AGE and not identity.certificate:
            return known
        try:
            made_of = (*map(_version, (self.authority, self.certificate, self.key)), identity.certificate)
            if known is None or made_of != self._made_of:
                known = self._build(identity)
        except Misconfigured:
            if known is None:
                raise
            return known  # half of a rotation: what was good goes on, and the next call looks again
        self._context, self._made_of, self._looked_at = known, made_of, now
        return known

    def _build(self, identity: Identity) -> ssl.SSLContext:
        certificate, key = self.certificate, self.key
        if identity.certificate:
            certificate, key = identity.certificate, identity.key
        try:
            # An empty file must be an error: without any authority the system's own would be trusted.
            authority = None if self.authority is None else _content(self.authority).decode() or " "
            context = ssl.create_default_context(cadata=authority)
            # The default since Python 3.13; the certificates of many a cluster lack what it asks for.
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
            if not self.verify:
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            if certificate is not None and key is not None:
                load_pair(context, _content(certificate), _content(key))
        except (OSError, ValueError) as error:
            raise Misconfigured(f"the certificates for the API server cannot be used: {error}") from None
        return context


@dataclass
class Access:
    """Everything needed to ask one API server."""

    server: str
    tls: Tls | None = None
    credentials: Credentials = field(default_factory=Fixed)
    namespace: str = "default"
    proxy: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


def find(paths: str | None = None, context: str | None = None) -> Access:
    """As kubectl chooses: the user's kubeconfig where there is one, else, inside a pod, the pod's own account."""
    asked_for = paths or context or any(map(_is_there, _files()))
    if not asked_for and (POD_FILES / "token").exists():
        return from_pod(POD_FILES)
    return from_kubeconfig(paths, context)


def from_pod(files: Path = POD_FILES) -> Access:
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise Misconfigured("this is no pod: KUBERNETES_SERVICE_HOST and _PORT are not set")
    place = files / "namespace"
    return Access(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        tls=Tls(authority=files / "ca.crt"),
        credentials=TokenFile(files / "token"),
        namespace=place.read_text().strip() if place.exists() else "default",
    )


def from_kubeconfig(paths: str | None = None, context: str | None = None) -> Access:
    """The named context, else the current one, of all files in `paths` (or KUBECONFIG); the first file wins."""
    files = _files(paths)
    named = ", ".join(map(str, files))
    contents = [(_read(file), file.parent) for file in files if _is_there(file)]
    if not contents:
        raise Misconfigured(f"there is no kubeconfig at {named}; set KUBECONFIG or name a file")
    try:
        return _access(contents, context)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        words = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise Misconfigured(f"the kubeconfig {named} is not as it should be: {words}") from None


def _files(paths: str | None = None) -> list[Path]:
    named = paths or os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    return [Path(part).expanduser() for part in named.split(os.pathsep) if part]


def _is_there(file: Path) -> bool:
    try:
        return file.exists()
    except OSError as error:  # in a folder that may not be looked into
        raise Misconfigured(f"the kubeconfig {file} cannot be read: {error.strerror}") from None


def _read(file: Path) -> Entry:
    import yaml  # noqa: PLC0415 - a megabyte that no pod needs

    try:
        content = yaml.safe_load(file.read_bytes()) or {}
    except OSError as error:
        raise Misconfigured(f"the kubeconfig {file} cannot be read: {error.strerror}") from None
    except yaml.YAMLError as error:
        # The parser's own text quotes the line, and a token may stand there.
        mark = getattr(error, "problem_mark", None)
        line = f" in line {mark.line + 1}" if mark else ""
        raise Misconfigured(f"the kubeconfig {file} cannot be read: it is no YAML{line}") from None
    if not isinstance(content, dict):
        raise Misconfigured(f"the kubeconfig {file} is not a kubeconfig: it holds no map")
    return content


def _access(contents: Contents, context: str | None) -> Access:
    name = context or next(filter(None, (content.get("current-context") for content, _ in contents)), "")
    if not name:
        raise Misconfigured("the kubeconfig has no current-context; name a context")
    chosen = _named(contents, "context", name)
    cluster = _named(contents, "cluster", chosen.get("cluster", ""))
    user = _named(contents, "user", chosen["user"]) if chosen.get("user") else {}
    tls = Tls(
        authority=_source(cluster, "certificate-authority"),
        certificate=_source(user, "client-certificate"),
        key=_source(user, "client-key"),
        server_name=cluster.get("tls-server-name"),
        verify=not cluster.get("insecure-skip-tls-verify", False),
    )
    server = cluster["server"].rstrip("/")
    return Access(
        server=server,
        tls=tls if server.startswith("https:") else None,
        credentials=_credentials(user, name),
        namespace=chosen.get("namespace") or "default",
        proxy=_proxy(cluster.get("proxy-url")),
        headers={"Impersonate-User": user["as"]} if user.get("as") else {},
    )


def environment_proxy(server: str) -> str | None:
    """What HTTPS_PROXY, or HTTP_PROXY for a server without TLS, and NO_PROXY say of it, as kubectl reads them."""
    from urllib.request import getproxies_environment  # noqa: PLC0415 - a megabyte that no pod needs

    try:
        place, named = urlsplit(server), getproxies_environment()
        port = place.port or (443 if place.scheme == "https" else 80)
    except ValueError as error:
        raise Misconfigured(f"the API server's address {server} is none: {error}") from None
    rules = [rule.strip().lower() for rule in named.get("no", "").split(",")]
    is_direct = any(
        _covers(rule, place.hostname or "", port) for rule in ("localhost", *OWN_MACHINE, *rules) if rule
    )
    return None if is_direct else _proxy(named.get(place.scheme))


def _covers(rule: str, host: str, port: int) -> bool:
    """A rule of NO_PROXY: an address, a network, a name with all below it, .name for only those; *, or with a port."""
    with suppress(ValueError):
        network = ip_network(rule, strict=False)
        with suppress(ValueError):
            return ip_address(host) in network
        return False
    name, _, only = rule.partition(":")
    if only and only != str(port):
        return False
    name = name.removeprefix("*")
    return not name or host == name or host.endswith(f".{name.removeprefix('.')}")


def _proxy(url: str | None) -> str | None:
    """Of what is wrong with it nothing is quoted: it may hold a password."""
    if not url:
        return None
    sort, mark, rest = url.partition("://")
    if mark and sort.lower() not in ("http", "https"):
        raise Misconfigured(
            f"the proxy for the API server is a {sort} proxy, which is not supported; use an HTTP proxy"
        )
    whole = f"{sort.lower()}://{rest}" if mark else f"http://{url}"
    try:
        place = urlsplit(whole)
        is_one = bool(place.hostname) and place.port != 0
    except ValueError:
        is_one = False
    if not is_one:
        raise Misconfigured(
            "the proxy for the API server is no URL; write http://host:port, and %2F for a / in a password"
        )
    return whole


def _named(contents: Contents, sort: str, name: str) -> Entry:
    """What the first of the files has under that name, and the folder its paths begin at."""
    known: dict[str, Entry] = {}
    for content, folder in contents:
        for entry in content.get(f"{sort}s") or ():
            known.setdefault(entry["name"], {**(entry.get(sort) or {}), "folder": folder})
    if name not in known:
        raise Misconfigured(
            f"the kubeconfig has no {sort} {name!r}; it has: {', '.join(sorted(known)) or 'none'}"
        )
    return known[name]


def _credentials(user: Entry, context: str) -> Credentials:
    for gone in ("auth-provider", "as-groups", "as-uid", "as-user-extra"):
        if gone in user:
            problem = f"context {context!r} uses {gone}, which is not supported; use an exec plugin"
            raise Misconfigured(problem)
    if asked := user.get("exec"):
        # Beside the kubeconfig, if it is a path; else wherever the PATH says.
        program = asked["command"]
        command = [str(user["folder"] / program) if "/" in program else program, *(asked.get("args") or ())]
        variables = {pair["name"]: pair["value"] for pair in asked.get("env") or ()}
        version = asked.get("apiVersion", "client.authentication.k8s.io/v1")
        return Plugin(command, variables, version, asked.get("installHint") or "")
    if user.get("tokenFile"):
        return TokenFile(user["folder"] / user["tokenFile"])
    return Fixed(Identity(token=user.get("token") or ""))


def with_token(access: Access, token: str) -> Access:
    """The same server for another user: no client certificate, only this token."""
    tls = access.tls and replace(access.tls, certificate=None, key=None, _context=None, _made_of=None)
    return replace(access, tls=tls, credentials=Fixed(Identity(token=token)))


def _source(entry: Entry, name: str) -> Source | None:
    if entry.get(f"{name}-data"):
        return base64.b64decode(entry[f"{name}-data"])
    return entry["folder"] / entry[name] if entry.get(name) else None


def _content(source: Source) -> bytes:
    return source.read_bytes() if isinstance(source, Path) else source


def _version(source: Source | None) -> object:
    """Equal as long as the source is the same."""
    if not isinstance(source, Path):
        return None
    try:
        status = source.stat()
    except OSError as error:
        raise Misconfigured(f"{source} cannot be read: {error.strerror}") from None
    return status.st_mtime_ns, status.st_ino, status.st_size


def load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """The ssl module takes a pair only from a file: one in memory, else one that nobody else can read."""
    in_memory = hasattr(os, "memfd_create")
    with os.fdopen(os.memfd_create("pair"), "wb") if in_memory else tempfile.NamedTemporaryFile() as pair:
        pair.write(certificate + b"\n" + key)
        pair.flush()
        place = f"/proc/self/fd/{pair.fileno()}" if in_memory else pair.name
        context.load_cert_chain(place, password="")  # never ask at the terminal for one
