"""The part of a push that is read before anything else happens."""

from hypothesis import given

from broker.exchange.prefix_sink import PrefixSink
from broker.kinds.push_commands import BadPush, CommandsReader
from gitmoat.net.causes import Cause, Why
from gitmoat.wire.git.pktline import FLUSH, format_data
from gitmoat.wire.git.receivepack import PushCommands
from tests.fakes.chunking import cut_up, cuts

LINE = b"0" * 40 + b" " + b"1" * 40 + b" refs/heads/a\0 report-status"
COMMANDS = format_data(LINE) + FLUSH
PACK = b"PACK\0\0\0\2" + bytes(100)


def fed(pieces: list[bytes]) -> tuple[CommandsReader, list[PushCommands | BadPush], bytes]:
    """The reader, what it found, and the bytes that came after it had found it."""
    found: list[PushCommands | BadPush] = []
    reader = CommandsReader(1000)
    after = b""
    for piece in pieces:
        if found:
            after += piece
        elif (one := reader.feed(piece)) is not None:
            found.append(one)
    if not found and (last := reader.finish()) is not None:
        found.append(last)
    return reader, found, after


@given(cuts())
def test_commands_are_found_once_and_no_byte_of_the_pack_is_lost(lengths: list[int]) -> None:
    sink, found, after = fed(list(cut_up(COMMANDS + PACK, lengths)))
    (commands,) = found
    assert isinstance(commands, PushCommands)
    assert commands.commands[0].ref.text == "refs/heads/a"
    assert sink.leftover + after == PACK
    assert sink.read == len(COMMANDS)


def test_a_body_that_ends_early_is_bad() -> None:
    _, found, _ = fed([COMMANDS[:-1]])
    assert found == [BadPush("push ends inside its commands")]


def test_a_body_that_ends_without_its_pack_is_bad() -> None:
    _, found, _ = fed([COMMANDS])
    assert found == [BadPush("push ends without a pack")]


@given(cuts())
def test_a_second_list_of_commands_behind_the_first_is_bad_and_waits_nowhere(
    lengths: list[int],
) -> None:
    sink, found, _ = fed(list(cut_up(COMMANDS + COMMANDS, lengths)))
    assert found == [BadPush("what follows a push's commands is not a pack")]
    assert sink.leftover == b""


@given(cuts())
def test_deletions_are_found_when_the_body_ends_and_nothing_may_follow_them(
    lengths: list[int],
) -> None:
    deletion = format_data(b"1" * 40 + b" " + b"0" * 40 + b" refs/heads/a\0 delete-refs") + FLUSH
    sink, (found,), _ = fed(list(cut_up(deletion, lengths)))
    assert isinstance(found, PushCommands) and not found.has_pack
    assert (sink.read, sink.leftover) == (len(deletion), b"")
    _, more, _ = fed(list(cut_up(deletion + PACK, lengths)))
    assert more == [BadPush("something follows a push that has no pack")]


def test_a_body_that_cannot_be_read_is_bad_at_once() -> None:
    assert isinstance(CommandsReader(1000).feed(b"zzzz"), BadPush)


def test_what_follows_is_held_back_once_and_found_once() -> None:
    held: list[str] = []
    found: list[PushCommands | BadPush] = []
    sink = PrefixSink(CommandsReader(1000), lambda: held.append("held"))
    sink.done.addCallback(found.append)
    sink.body(COMMANDS)
    assert not found and not held
    sink.body(PACK)
    assert len(found) == len(held) == 1
    sink.body(b"zzzz")
    sink.body_done()
    assert len(found) == len(held) == 1


def test_a_push_that_is_never_served_is_still_understood() -> None:
    line = format_data(LINE + b" unheard-of") + FLUSH
    _, (bad,), _ = fed([line])
    assert isinstance(bad, BadPush) and bad.commands is not None and bad.code == "G203"


def test_options_belong_to_what_was_read_and_not_to_the_pack() -> None:
    options = format_data(b"ci.skip") + FLUSH
    commands = format_data(LINE + b" push-options") + FLUSH + options
    sink, (found,), _ = fed([commands + PACK])
    assert isinstance(found, PushCommands) and found.options == ("ci.skip",)
    assert (sink.read, sink.leftover) == (len(commands), PACK)


def test_a_client_that_left_has_pushed_nothing() -> None:
    sink = PrefixSink(CommandsReader(1000), lambda: None)
    sink.body(COMMANDS[:10])
    sink.body_failed(Why(Cause.LOST))
    assert not sink.done.called
