"""What a credential helper of the owner may answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.credentials.providers.credential import Credential
from broker.credentials.providers.helper_answer import ANSWER_LIMIT, question, read_answer

HOST = "git.example:8443"


def test_the_question_names_the_server_and_ends() -> None:
    assert question(HOST) == b"protocol=https\nhost=git.example:8443\n\n"


@pytest.mark.parametrize(
    "raw",
    [
        b"username=bot\npassword=s3cret\n",
        b"username=bot\npassword=s3cret",
        b"protocol=https\nhost=git.example:8443\nusername=bot\npassword=s3cret\n\n",
        b"capability[]=authtype\nusername=bot\npassword=s3cret\noauth_refresh_token=x\n",
    ],
)
def test_an_answer_is_a_user_and_a_password(raw: bytes) -> None:
    found = read_answer(raw, HOST)
    assert isinstance(found, Credential)
    assert (found.username, found.password.expose()) == ("bot", b"s3cret")


def test_an_expiry_is_understood() -> None:
    found = read_answer(b"username=b\npassword=p\npassword_expiry_utc=1800000000\n", HOST)
    assert isinstance(found, Credential) and found.expires == 1800000000


@pytest.mark.parametrize(
    ("raw", "what"),
    [
        (b"", "no credential"),
        (b"\n", "no credential"),
        (b"username=bot\n", "no credential"),
        (b"username=a:b\npassword=p\n", "no credential"),
        (b"username=bot\npassword=two words\n", "no credential"),
        (b"quit=1\n", "quit"),
        (b"host=evil.example\nusername=bot\npassword=p\n", "another server"),
        (b"protocol=http\nusername=bot\npassword=p\n", "another server"),
        (b"username=bot\r\npassword=p\r\n", "not understand"),
        (b"username=bot\npassword=p\0\n", "not understand"),
        (b"hello\n", "not understand"),
        (b"x=y\n" * 1000, "not understand"),
        (b"username=" + b"a" * ANSWER_LIMIT, "not understand"),
    ],
)
def test_anything_else_is_a_reason_that_quotes_nothing(raw: bytes, what: str) -> None:
    found = read_answer(raw, HOST)
    assert isinstance(found, str) and what in found


@given(st.binary(max_size=200))
def test_no_input_is_too_odd(raw: bytes) -> None:
    found = read_answer(raw, HOST)
    assert isinstance(found, str | Credential)
