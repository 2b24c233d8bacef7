from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from hostctl.commands.logs import without_controls
from tests.fakes.chunking import cut_up, cuts


def test_what_moves_a_cursor_is_shown_as_a_question_mark() -> None:
    hostile = b"a\x1b[2Jb\rc\x07d\x9b1m\xc2\x9b\x7fe\tf\n"
    assert b"".join(without_controls([hostile])).decode() == "a?[2Jb?c?d\ufffd1m??e\tf\n"


@settings(deadline=None)
@given(st.text(max_size=60), cuts())
def test_letters_survive_any_cut(text: str, lengths: list[int]) -> None:
    whole = b"".join(without_controls([text.encode(errors="replace")]))
    pieces = cut_up(text.encode(errors="replace"), lengths)
    assert b"".join(without_controls(pieces)) == whole
