"""A stand-in for GitHub's REST API: pull requests and comments of one repository, with pages, tokens and limits."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

REPOSITORY = "owner/project"
TOKEN = "a token of the job"
BOT = "github-actions[bot]"
#: What GitHub takes in a comment, and lists in a page.
MOST_CHARACTERS = 65_536
MOST_IN_A_PAGE = 100


@dataclass
class GitHub:
    """The state of the repository, and what it was asked."""

    url: str = ""
    pulls: list[dict[str, Any]] = field(default_factory=list)
    #: Comments by the number of their pull request.
    comments: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    #: What is answered instead, by a method and the beginning of a path.
    failing: dict[tuple[str, str], tuple[int, bytes]] = field(default_factory=dict)

    def pull(self, number: int, *, head: str, sha: str, repository_id: int = 1) -> None:
        """Open a pull request of the branch `head` (`login:branch`)."""
        login, _, branch = head.partition(":")
        of = {"repo": {"id": repository_id}, "sha": sha, "ref": branch, "label": f"{login}:{branch}"}
        self.pulls.append({"number": number, "state": "open", "head": of})
        self.comments[number] = []

    def comment(self, number: int, body: str, author: str = BOT) -> int:
        """Add a comment, and return its id."""
        found = 1 + sum(map(len, self.comments.values()))
        self.comments[number].append({"id": found, "body": body, "user": {"login": author}})
        return found

    @property
    def writes(self) -> list[str]:
        return [one for one in self.requests if not one.startswith("GET ")]

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        """Return status and document."""
        if (method, path) == ("GET", "/pulls"):
            wanted = query.get("head", "")
            # GitHub ignores a head without an owner.
            found = [one for one in self.pulls if ":" not in wanted or one["head"]["label"] == wanted]
            return 200, page(found, query)
        if found := re.fullmatch(r"/issues/(\d+)/comments", path):
            number = int(found[1])
            if number not in self.comments:
                return 404, {"message": "Not Found"}
            if method == "GET":
                return 200, page(self.comments[number], query)
            if len(body["body"]) > MOST_CHARACTERS:
                return 422, {"message": "body is too long (maximum is 65536 characters)"}
            return 201, {"id": self.comment(number, body["body"])}
        if method == "PATCH" and (found := re.fullmatch(r"/issues/comments/(\d+)", path)):
            (one,) = [one for all_ in self.comments.values() for one in all_ if one["id"] == int(found[1])]
            one["body"] = body["body"]
            return 200, one
        return 404, {"message": "Not Found"}


def page(rows: list[Any], query: dict[str, str]) -> list[Any]:
    size = min(int(query.get("per_page", 30)), MOST_IN_A_PAGE)
    first = (int(query.get("page", 1)) - 1) * size
    return rows[first : first + size]


@contextmanager
def serving() -> Iterator[GitHub]:
    """Serve it on a port of this machine."""
    github = GitHub()

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            whole = urlsplit(self.path)
            path = whole.path.removeprefix(f"/repos/{REPOSITORY}")
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or "null")
            github.requests.append(f"{self.command} {path}")
            status, text = next(
                (told for (method, start), told in github.failing.items() if (method, start) == (self.command, path)),
                (0, b""),
            )
            if not status:
                query = {name: values[-1] for name, values in parse_qs(whole.query).items()}
                status, document = github.answer(self.command, path, query, body)
                if self.headers["Authorization"] != f"Bearer {TOKEN}":
                    status, document = 401, {"message": "Bad credentials"}
                text = json.dumps(document).encode()
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PATCH = handle_any

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        github.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield github
        server.shutdown()
