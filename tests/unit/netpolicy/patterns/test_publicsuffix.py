"""The list that comes with the library, without a name of it written here."""

from importlib.resources import files

from netpolicy.patterns.publicsuffix import is_shared


def private_suffix() -> str:
    """Some domain whose owner says that strangers live below it."""
    text = (files("publicsuffixlist") / "public_suffix_list.dat").read_text(encoding="utf-8")
    lines = text.partition("===BEGIN PRIVATE DOMAINS===")[2].splitlines()
    return next(line for line in lines if line.isascii() and line[:1].isalnum())


def test_suffixes_of_both_kinds_are_shared_and_what_is_below_is_not() -> None:
    suffix = private_suffix()
    assert "." in suffix and is_shared(suffix)
    assert not is_shared(f"me.{suffix}")


def test_a_top_level_domain_is_shared_known_or_not() -> None:
    assert is_shared("com") and is_shared("example")
    assert not is_shared("corp.example")
