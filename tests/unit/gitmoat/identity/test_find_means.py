"""Which way to know a peer is chosen from what the kernel refuses."""

from __future__ import annotations

import errno
import os

from gitmoat.identity.peer import Means, find_means


def no_such_option(sock: object) -> int:
    raise OSError(errno.ENOPROTOOPT, os.strerror(errno.ENOPROTOOPT))


def no_such_request(pidfd: int) -> object:
    raise OSError(errno.ENOTTY, os.strerror(errno.ENOTTY))


def any_descriptor(sock: object) -> int:
    return os.open(os.devnull, os.O_RDONLY)


def test_without_so_peerpidfd_only_credentials_are_left() -> None:
    assert find_means(peer_pidfd=no_such_option) is Means.CREDENTIALS


def test_without_pidfd_get_info_a_pidfd_is_left() -> None:
    before = len(os.listdir("/proc/self/fd"))
    assert find_means(any_descriptor, no_such_request) is Means.PIDFD
    assert len(os.listdir("/proc/self/fd")) == before


def test_with_both_everything_is_known() -> None:
    assert find_means(any_descriptor, lambda pidfd: None) is Means.INFO
