"""git's credential attributes, read strictly: what git never writes is refused, not repaired."""

REQUEST_LIMIT = 16 * 1024
LINE_LIMIT = 4 * 1024
LINES_LIMIT = 64
ACTIONS = ("get", "store", "erase")
QUIT = b"quit=1\n"

_CONTROL = bytes(range(0x20)) + b"\x7f"
_KEY = b"abcdefghijklmnopqrstuvwxyz0123456789_"
# Attributes that change what the request is about. git sends none of them to a helper.
_REFUSED = (b"url", b"quit")


class CredentialMalformed(Exception):
    """Not a credential request or answer of git's; `what` never quotes the bytes."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


class Request:
    """One question: which action for which repository."""

    __slots__ = ("action", "host", "path", "protocol", "username")

    def __init__(
        self, action: str, protocol: str, host: str, path: str, username: str | None = None
    ) -> None:
        self.action = action
        self.protocol = protocol
        self.host = host
        self.path = path
        self.username = username

    def _values(self) -> tuple[str | None, ...]:
        return (self.action, self.protocol, self.host, self.path, self.username)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Request) and other._values() == self._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        return f"Request{self._values()!r}"


class RequestReader:
    """Collects a request that arrives in pieces; single use, sticky after an error."""

    __slots__ = ("_broken", "_held", "_over")

    def __init__(self) -> None:
        self._held = b""
        self._broken: CredentialMalformed | None = None
        self._over = False

    def feed(self, data: bytes) -> None:
        self._check()
        if len(self._held) + len(data) > REQUEST_LIMIT:
            raise self._fail("the request is too long")
        self._held += data

    def finish(self) -> Request:
        """The request, now that the client has closed its side."""
        self._check()
        try:
            request = parse_request(self._held)
        except CredentialMalformed as problem:
            raise self._fail(problem.what) from None
        self._held, self._over = b"", True
        return request

    def _check(self) -> None:
        if self._broken is not None:
            raise self._broken
        if self._over:
            raise self._fail("the request was already read")

    def _fail(self, what: str) -> CredentialMalformed:
        self._held = b""
        self._broken = CredentialMalformed(what)
        return self._broken


def parse_request(raw: bytes) -> Request:
    """`action=…` and git's attributes, up to a blank line or the end of the input."""
    if len(raw) > REQUEST_LIMIT:
        raise CredentialMalformed("the request is too long")
    found = _attributes(raw)
    action = _required(found, b"action")
    if action not in ACTIONS:
        raise CredentialMalformed("the action is not get, store or erase")
    protocol = _required(found, b"protocol")
    if protocol != "http":
        raise CredentialMalformed("the protocol is not http")
    return Request(
        action,
        protocol,
        _required(found, b"host"),
        _required(found, b"path"),
        _required(found, b"username") if b"username" in found else None,
    )


def format_request(request: Request) -> bytes:
    """The bytes `parse_request` reads back."""
    lines = [f"action={request.action}", f"protocol={request.protocol}"]
    lines += [f"host={request.host}", f"path={request.path}"]
    lines += [] if request.username is None else [f"username={request.username}"]
    return "".join(line + "\n" for line in lines).encode("ascii")


def format_answer(username: str, password: str) -> bytes:
    """What git reads as a credential."""
    answer = f"username={username}\npassword={password}\n".encode("ascii")
    parse_answer(answer)
    return answer


def parse_answer(raw: bytes) -> tuple[str, str] | None:
    """Username and password; None where the answer is to quit."""
    if raw == QUIT:
        return None
    found = _attributes(raw)
    if set(found) != {b"username", b"password"}:
        raise CredentialMalformed("the answer is neither a credential nor quit")
    return _required(found, b"username"), _required(found, b"password")


def _attributes(raw: bytes) -> dict[bytes, bytes]:
    """Single-valued attributes by name; lists such as `wwwauth[]` are checked and dropped."""
    found: dict[bytes, bytes] = {}
    for line in _lines(raw):
        name, equals, value = line.partition(b"=")
        plain = name.removesuffix(b"[]")
        if not equals or not plain or plain.strip(_KEY) or plain in _REFUSED:
            raise CredentialMalformed("a line is not an attribute")
        if name in found:
            raise CredentialMalformed("an attribute is given twice")
        if plain == name:
            found[name] = value
    return found


def _lines(raw: bytes) -> list[bytes]:
    # LF only and no control byte: CVE-2020-5260, CVE-2024-52006. A missing last LF is a
    # request that was cut off: git leaves such when it refuses a URL half-way.
    if not raw.endswith(b"\n"):
        raise CredentialMalformed("the input ends within a line")
    lines = raw[:-1].split(b"\n")
    if lines[-1] == b"" and len(lines) > 1:
        lines.pop()
    if len(lines) > LINES_LIMIT or any(len(line) > LINE_LIMIT for line in lines):
        raise CredentialMalformed("the input has too many or too long lines")
    if any(line.translate(None, _CONTROL) != line for line in lines):
        raise CredentialMalformed("the input has control bytes")
    if b"" in lines:
        raise CredentialMalformed("bytes after the request")
    return lines


def _required(found: dict[bytes, bytes], name: bytes) -> str:
    value = found.get(name, b"")
    if not value or not value.isascii():
        raise CredentialMalformed(f"{name.decode()} is missing, empty or not ASCII")
    return value.decode("ascii")
