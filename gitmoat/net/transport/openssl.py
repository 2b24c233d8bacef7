"""TLS by the buffer: records go in and come out many at a time, through memory of the process.

pyOpenSSL makes an object of every record, and copies it twice: a gigabyte has 65,000 of them.
`FastRecords` calls the OpenSSL that pyOpenSSL stands on: a download takes 0.6 of the processor's
time that `PortableRecords` needs for it, which has public names only.

What is at stake: it needs three names that pyOpenSSL does not publish (`_ssl`, `_from_ssl`,
`_into_ssl`), and writes to memory by their pointers. Who changes the versions of pyOpenSSL or
cryptography reads how they use these three, and runs test_openssl.py and test_tls.py of
tests/wire/gitmoat/net/transport, which play everything with both. Names that have gone are noticed
here at import, and `PortableRecords` is taken; names that mean something else are not noticed.
No other module uses what pyOpenSSL or OpenSSL does not publish.
"""

from mmap import MADV_DONTNEED, MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import Any, Final, Protocol

from cryptography.hazmat.bindings.openssl.binding import Binding
from OpenSSL import SSL
from twisted.internet.error import ConnectionDone

from gitmoat.net.transport.descriptor import READ

_RECORD: Final = 16 * 1024
# One read, and a record that began in the one before, fit into it; so do the records of a write
# of that size.
ROOM: Final = READ + 2 * _RECORD

# For every connection of the process: neither holds anything between two calls of the reactor.
# A process that is forked has its own.
_buffers: Final = [mmap(-1, size, MAP_PRIVATE | MAP_ANONYMOUS) for size in (READ, ROOM)]
INTO: Final = memoryview(_buffers[0])
_room: Final = memoryview(_buffers[1])


def wipe() -> None:
    """Between two calls of the reactor: what was read and decrypted there is gone."""
    for buffer in _buffers:
        buffer.madvise(MADV_DONTNEED)


class Records(Protocol):
    """One end of TLS. The handshake, writing and goodbye are asked of pyOpenSSL itself."""

    def take(self, count: int) -> None:
        """That much of `INTO` came from the peer. Use it before anything else is read there."""

    def forget(self) -> None:
        """Whatever was not used of it is not used any more."""

    def decrypt(self) -> tuple[bytes, Exception | None]:
        """All that has come whole; and why there will be no more, if so."""

    def pull(self) -> bytes | memoryview:
        """What TLS wants to send, up to `ROOM`; good until anybody asks any end for anything."""


class PortableRecords:
    def __init__(self, end: SSL.Connection) -> None:
        self._end = end

    def take(self, count: int) -> None:
        self._end.bio_write(INTO[:count])

    def forget(self) -> None:
        """It was copied."""

    def decrypt(self) -> tuple[bytes, Exception | None]:
        pieces: list[bytes] = []
        try:
            while True:
                pieces.append(self._end.recv(_RECORD))
        except SSL.WantReadError:
            over: Exception | None = None
        except SSL.ZeroReturnError:
            over = ConnectionDone()
        except SSL.Error as error:
            over = error
        return b"".join(pieces), over

    def pull(self) -> bytes | memoryview:
        try:
            return self._end.bio_read(ROOM)
        except SSL.WantReadError:
            return b""


_lib: Final[Any] = Binding().lib
_ffi: Final[Any] = Binding().ffi
_INTO: Final = _ffi.from_buffer(INTO)
_ROOM: Final = _ffi.from_buffer(_room)


class FastRecords:
    """OpenSSL reads what came where it lies, and decrypts into one buffer."""

    def __init__(self, end: SSL.Connection) -> None:
        pointers: Any = end
        self._end = end  # which owns what the pointers point to
        self._ssl = pointers._ssl
        self._out = pointers._from_ssl
        self._unread: Any = None
        # It is freed by the first `take` (SSL_set_bio(3)): nobody may write there.
        pointers._into_ssl = None

    def take(self, count: int) -> None:
        unread = _lib.BIO_new_mem_buf(_INTO, count)
        if not unread:
            raise MemoryError
        # To have read all of it means to wait for more; it would be the end by default
        # (BIO_s_mem(3)). No copy is made, so it must be read, or forgotten, before the next one is.
        _lib.BIO_set_mem_eof_return(unread, -1)
        _lib.SSL_set_bio(self._ssl, unread, self._out)  # takes it over, frees the last
        self._unread = unread

    def forget(self) -> None:
        if self._unread is not None and _lib.BIO_get_mem_data(self._unread, _ffi.NULL):
            self.take(0)

    def decrypt(self) -> tuple[bytes, Exception | None]:
        ssl, read, at = self._ssl, _lib.SSL_read, 0
        # The queue of errors is the thread's. What another connection left there would be taken
        # for an error of this one (SSL_get_error(3)).
        _lib.ERR_clear_error()
        while (count := read(ssl, _ROOM + at, ROOM - at)) > 0:
            at += count
        return bytes(_room[:at]), self._over(count)

    def pull(self) -> bytes | memoryview:
        count = _lib.BIO_read(self._out, _ROOM, ROOM)
        return _room[: max(0, count)]

    def _over(self, result: int) -> Exception | None:
        match _lib.SSL_get_error(self._ssl, result):
            case _lib.SSL_ERROR_WANT_READ:
                return None
            case _lib.SSL_ERROR_ZERO_RETURN:
                return ConnectionDone()
            case _:
                return SSL.Error(_errors())


def _errors() -> list[str]:
    """What OpenSSL has to say, and has no more after this."""
    found: list[str] = []
    while number := _lib.ERR_get_error():
        reason = _lib.ERR_reason_error_string(number)
        found.append(_ffi.string(reason).decode() if reason else hex(number))
    return found


_CALLS = (
    "BIO_get_mem_data",
    "BIO_new_mem_buf",
    "BIO_read",
    "BIO_set_mem_eof_return",
    "ERR_clear_error",
    "ERR_get_error",
    "ERR_reason_error_string",
    "SSL_get_error",
    "SSL_read",
    "SSL_set_bio",
)


def _is_there() -> bool:
    end = SSL.Connection(SSL.Context(SSL.TLS_METHOD), None)
    pointers = ("_ssl", "_from_ssl", "_into_ssl")
    return all(getattr(end, name, None) for name in pointers) and all(
        hasattr(_lib, name) for name in _CALLS
    )


records_of: type[FastRecords] | type[PortableRecords] = (
    FastRecords if _is_there() else PortableRecords
)
