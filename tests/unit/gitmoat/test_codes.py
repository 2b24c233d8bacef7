import re

import pytest

from gitmoat.codes import CODES, Code


@pytest.mark.parametrize("code", CODES.values(), ids=lambda code: code.id)
def test_a_code_is_one_plain_line_with_a_way_out(code: Code) -> None:
    assert re.fullmatch(r"[GHSEPUBNRC][1-9][0-9]{2}", code.id)
    assert re.fullmatch(r"[ -~]{1,90}", code.text)
    assert re.fullmatch(r"[ -~]{1,110}", code.fix)
    assert not code.text.endswith(".")


def test_every_code_has_its_own_text() -> None:
    assert all(key == code.id for key, code in CODES.items())
    assert len({code.text for code in CODES.values()}) == len(CODES)


def test_what_a_sandbox_may_read_names_no_path_of_the_host() -> None:
    assert not [code.id for code in CODES.values() if "/" in code.text]
