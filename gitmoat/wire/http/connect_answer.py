"""What an HTTP proxy answers to CONNECT (RFC 9110, section 9.3.6)."""

import re
from typing import Final

from gitmoat.wire.malformed import Malformed

_LIMIT: Final = 16 * 1024
_END: Final = b"\r\n\r\n"
# Some proxies still speak HTTP/1.0. Of their answer only the status matters: RFC 9110, 9.3.6 has
# Content-Length and Transfer-Encoding of a 2xx ignored, and behind any other we close.
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})(?: [\t -~\x80-\xff]*)?\r\n")


class TunnelReader:
    """Feed bytes until `feed` returns a status; nothing may come behind a tunnel's head."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, data: bytes) -> int | None:
        self._held += data
        head, end, rest = self._held.partition(_END)
        if not end:
            if len(self._held) > _LIMIT:
                raise Malformed("the proxy's answer is too long")
            return None
        matched = _STATUS.match(head + b"\r\n")
        if matched is None:
            raise Malformed("the proxy's answer is not HTTP")
        status = int(matched[1])
        # A server of TLS waits for its client (RFC 8446, 2): bytes here are not the upstream's.
        if 200 <= status < 300 and rest:
            raise Malformed("the proxy said something inside the tunnel")
        return status
