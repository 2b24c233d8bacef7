from __future__ import annotations

from argparse import ArgumentTypeError

import pytest

from hostctl.terminal.quantities import count, cpus, duration, size


@pytest.mark.parametrize(
    ("text", "octets"),
    [("1", 1), ("512m", 512 << 20), ("2g", 2 << 30), ("2GiB", 2 << 30), ("3kb", 3 << 10)],
)
def test_sizes(text: str, octets: int) -> None:
    assert size(text) == octets


@pytest.mark.parametrize("text", ["", "0", "g", "-1g", "1.5g", "2x", "2 g", "٢g", "1e9", "9" * 20])
def test_no_sizes(text: str) -> None:
    with pytest.raises(ArgumentTypeError):
        size(text)


def test_counts_and_times() -> None:
    assert (count("64"), cpus("0.5"), cpus("2"), duration("8h")) == (64, 0.5, 2.0, 28800)
    for text in ("", "0", "-1", "1.5", "٢"):
        with pytest.raises(ArgumentTypeError):
            count(text)
    for text in ("", "0", "-1", "nan", "inf", "x"):
        with pytest.raises(ArgumentTypeError):
            cpus(text)
