import pytest
from hypothesis import given
from hypothesis import strategies as st

from netpolicy.format.units import format_duration, format_size, parse_duration, parse_size
from tests.fakes.policies import patient


def test_quantities_as_people_write_them() -> None:
    assert [parse_duration(text) for text in ("90s", "30m", "8h", "2d")] == [
        90,
        1800,
        28800,
        172800,
    ]
    assert parse_size("200MiB") == 200 * 2**20
    assert parse_size("4GiB") == 4 * 2**30


@patient
@given(st.integers(1, 10**9 - 1))
def test_what_is_formatted_is_read_back(number: int) -> None:
    assert parse_duration(format_duration(number)) == number
    assert parse_size(format_size(number)) == number


@pytest.mark.parametrize(
    "text", ["", "8", "h", "0s", "-1s", "+1s", "1.5h", "8H", " 8h", "8h ", "8h\n", "1h30m", "٨h"]
)
def test_durations_that_leave_a_doubt_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["", "5", "0B", "1MB", "1mib", "1 MiB", "1e3B", "MiB", "1K"])
def test_sizes_that_leave_a_doubt_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a size"):
        parse_size(text)
