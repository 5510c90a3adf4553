"""As much of the Kubernetes API as this package itself needs: requests and watches, by a kubeconfig's user.

It stands on the standard library alone. The operator has a client of its own; the two share nothing, so
that the proving ground does not lean on what it proves.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import ssl
import tempfile
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from devcluster.problem import Problem

Json = dict[str, Any]


class ApiError(Problem):
    """The API server refused a request; `code` is its HTTP status."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"the API server answered {code}: {message}")
        self.code = code


class Unreachable(Problem):
    """The API server could not be asked, or did not answer to the end."""


class Api:
    """Talks to one API server. Every call opens a connection of its own, so threads may share it."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self._server = urllib.parse.urlsplit(cluster["server"])
        self._tls = ssl.create_default_context(cadata=_decode(cluster["certificate-authority-data"]))
        with tempfile.NamedTemporaryFile("w") as pair:
            pair.write(_decode(user["client-certificate-data"]) + _decode(user["client-key-data"]))
            pair.flush()
            self._tls.load_cert_chain(pair.name)

    def get(self, path: str, timeout: float = 10) -> Json:
        return self._call("GET", path, timeout=timeout)

    def post(self, path: str, body: Json) -> Json:
        return self._call("POST", path, body)

    def patch(self, path: str, body: Json) -> Json:
        return self._call("PATCH", path, body, {"Content-Type": "application/merge-patch+json"})

    def delete(self, path: str) -> Json:
        return self._call("DELETE", path)

    def is_ready(self) -> bool:
        try:
            with self._asked("GET", "/readyz", timeout=2) as response:
                return response.status == 200
        except Unreachable:
            return False

    def may_get(self, path: str) -> bool:
        try:
            self.get(path)
        except Unreachable:
            return False
        except ApiError as error:
            if error.code not in (403, 404):
                raise
            return False
        return True

    def watch(self, path: str) -> Iterator[Json]:
        """Everything there is as ADDED, then every change; ends when the server ends it."""
        listed = self.get(path)
        for item in listed["items"]:
            yield {"type": "ADDED", "object": item}
        version = listed["metadata"]["resourceVersion"]
        query = f"watch=1&allowWatchBookmarks=true&resourceVersion={version}&timeoutSeconds=600"
        for event in self.events(f"{path}?{query}"):
            if event["type"] == "ERROR":
                return
            if event["type"] != "BOOKMARK":
                yield event

    def events(self, path: str) -> Iterator[Json]:
        """A watch as the server sends it, errors and bookmarks too."""
        # Bookmarks come about once a minute: a connection silent for longer than two is dead.
        with self._asked("GET", path, timeout=120) as response:
            self._refuse_error(response.status, b"" if response.status == 200 else response.read())
            for line in response:
                yield json.loads(line)

    @contextlib.contextmanager
    def _asked(
        self, method: str, path: str, body: str | None = None, headers: Mapping[str, str] | None = None,
        timeout: float = 10,
    ) -> Iterator[http.client.HTTPResponse]:  # fmt: skip
        host, port = self._server.hostname or "", self._server.port or 443
        connection = http.client.HTTPSConnection(host, port, timeout=timeout, context=self._tls)
        try:
            connection.request(method, path, body, headers or {})
            yield connection.getresponse()
        except (OSError, http.client.HTTPException, json.JSONDecodeError) as error:
            words = str(error) or type(error).__name__
            raise Unreachable(f"the API server at {host} cannot be asked: {words}") from None
        finally:
            connection.close()

    def _call(
        self, method: str, path: str, body: Json | None = None, headers: Mapping[str, str] | None = None,
        timeout: float = 10,
    ) -> Json:  # fmt: skip
        content = None if body is None else json.dumps(body)
        kind = {"Content-Type": "application/json", **(headers or {})}
        with self._asked(method, path, content, kind, timeout) as response:
            answer = response.read()
            self._refuse_error(response.status, answer)
            parsed: Json = json.loads(answer)
            return parsed

    @staticmethod
    def _refuse_error(status: int, answer: bytes) -> None:
        if status < 400:
            return
        try:
            message = json.loads(answer)["message"]
        except (ValueError, KeyError):
            message = answer.decode(errors="replace")
        raise ApiError(status, message)


def _decode(text: str) -> str:
    return base64.b64decode(text).decode()
