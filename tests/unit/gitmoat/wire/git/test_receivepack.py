import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitmoat.wire.git.pktline import FLUSH, format_data
from gitmoat.wire.git.receivepack import (
    AGENT,
    MAX_REF,
    Change,
    Command,
    CommandReader,
    ObjectId,
    PushCommands,
    PushRefused,
    RefName,
    Refusal,
    parse_ref,
)
from gitmoat.wire.malformed import Malformed

ZERO, ONE, TWO = b"0" * 40, b"1" * 40, b"2" * 40
LONG_ZERO, LONG_ONE = b"0" * 64, b"1" * 64
CAPS = b"\0 report-status-v2 side-band-64k quiet object-format=sha1 agent=git/2.39.5"


def line(old: bytes = ZERO, new: bytes = ONE, ref: bytes = b"refs/heads/a") -> bytes:
    return b" ".join([old, new, ref])


def body(*lines: bytes) -> bytes:
    return b"".join(map(format_data, lines)) + FLUSH


PACK = b"PACK\0\0\0\2"


def read(wire: bytes) -> PushCommands:
    """Whole commands, and the pack behind them if there is to be one."""
    for behind in (b"", PACK):
        reader = CommandReader(1000)
        try:
            reader.feed(wire + behind)
            return reader.finish()
        except Malformed as malformed:
            failure = malformed
    raise failure


def command(old: bytes, new: bytes, ref: str) -> Command:
    return Command(ObjectId(old.decode()), ObjectId(new.decode()), RefName(ref))


# What git 2.39 sent for: git push URL main:refs/heads/a main:refs/heads/b
FROM_GIT = (
    b"00ac0000000000000000000000000000000000000000 d088ae6eddfe0250b92babcecb874c65fdcb5936 "
    b"refs/heads/a\x00 report-status-v2 side-band-64k quiet object-format=sha1 agent=git/2.39.5"
    b"00620000000000000000000000000000000000000000 d088ae6eddfe0250b92babcecb874c65fdcb5936 "
    b"refs/heads/b0000PACK\x00\x00\x00\x02"
)


def test_what_git_sends_is_read_and_the_pack_left_alone() -> None:
    reader = CommandReader(1000)
    commands = reader.feed(FROM_GIT)
    reader.finish()
    new = b"d088ae6eddfe0250b92babcecb874c65fdcb5936"
    assert commands == PushCommands(
        (command(ZERO, new, "refs/heads/a"), command(ZERO, new, "refs/heads/b")),
        ("report-status-v2", "side-band-64k", "quiet", "object-format=sha1", AGENT),
    )
    assert reader.leftover == b"PACK\x00\x00\x00\x02"


def test_our_spelling_is_gits_but_for_the_agent() -> None:
    commands, _pack = FROM_GIT.split(b"PACK")
    ours = commands.replace(b"00ac", b"00a9").replace(b"git/2.39.5", b"gitmoat")
    assert read(FROM_GIT).serialise() == ours


def test_one_byte_at_a_time_reads_the_same() -> None:
    reader, end = CommandReader(1000), FROM_GIT.index(b"PACK")
    end += len(PACK)
    answers = [reader.feed(FROM_GIT[at : at + 1]) for at in range(end)]
    assert answers == [None] * (end - 1) + [read(FROM_GIT)]
    assert reader.leftover == PACK


def test_the_probe_before_a_large_push_has_no_commands() -> None:
    assert read(b"0000") == PushCommands()
    assert PushCommands().serialise() == b"0000"


def test_shallow_lines_come_before_the_commands() -> None:
    commands = read(body(b"shallow " + TWO + b"\n", line() + CAPS))
    assert commands.shallow == (ObjectId(TWO.decode()),)
    assert commands.serialise().startswith(b"0035shallow " + TWO + b"\n")


OPTIONS = body(b"ci.skip", b"topic=a b\n")
DELETION = body(line(ONE, ZERO) + b"\0 delete-refs")
BEHIND = [b"", b"P", b"PACK\0\0\0", b"PACK\0\0\0\1", b"PACK\0\0\0\4", b"pack\0\0\0\2", FROM_GIT]


def whether_read(wire: bytes, sizes: list[int]) -> tuple[PushCommands, bytes] | None:
    """The commands and what is left over of the pack; None when they are refused."""
    reader, found = CommandReader(1000), None
    try:
        for size in [*sizes, len(wire)]:
            piece, wire = wire[:size], wire[size:]
            if (found := reader.feed(piece)) is not None:
                break
        found = reader.finish()
    except Malformed:
        with pytest.raises(Malformed):
            reader.finish()
        return None
    return found, reader.leftover + wire


@given(st.sampled_from(BEHIND), st.lists(st.integers(1, 40)))
def test_only_a_pack_of_a_known_version_may_follow_the_commands(
    behind: bytes, sizes: list[int]
) -> None:
    options = body(line() + b"\0 push-options") + OPTIONS
    for wire in (body(line()), options, body(b"shallow " + TWO, line())):
        assert whether_read(wire + behind, sizes) is None
        for version in (b"\2", b"\3"):
            pack = b"PACK\0\0\0" + version + behind
            assert whether_read(wire + pack, sizes) == (read(wire), pack)


@given(st.binary(min_size=1, max_size=20) | st.just(FROM_GIT), st.lists(st.integers(1, 40)))
def test_nothing_may_follow_deletions_or_a_probe(behind: bytes, sizes: list[int]) -> None:
    for wire in (DELETION, b"0000"):
        assert whether_read(wire + behind, sizes) is None
        assert whether_read(wire, sizes) == (read(wire), b"")


def test_a_pack_is_wanted_for_every_change_but_a_deletion() -> None:
    assert not read(DELETION).has_pack
    assert read(body(line(ONE, ZERO), line(ONE, TWO, b"refs/heads/b"))).has_pack


def test_a_trailing_newline_means_nothing() -> None:
    assert read(body(line() + CAPS + b"\n", line(ref=b"refs/heads/b") + b"\n")) == read(
        body(line() + CAPS, line(ref=b"refs/heads/b"))
    )


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [(ZERO, ONE, Change.CREATE), (ONE, TWO, Change.UPDATE), (ONE, ZERO, Change.DELETE)],
)
def test_zero_ids_tell_what_is_changed(old: bytes, new: bytes, change: Change) -> None:
    assert read(body(line(old, new))).commands[0].change is change


def test_sha256_ids_need_their_object_format() -> None:
    named = line(LONG_ZERO, LONG_ONE) + b"\0 object-format=sha256"
    assert read(body(named)).commands[0].new.hex == "1" * 64


@pytest.mark.parametrize(
    ("capabilities", "limit", "report"),
    [
        (b"", 0, False),
        (b"\0report-status", 0, True),
        (b"\0 report-status-v2 side-band", 1000, True),
        (b"\0 side-band-64k", 65520, False),
        (b"\0 report-status side-band side-band-64k", 65520, True),
    ],
)
def test_capabilities_say_how_to_answer(capabilities: bytes, limit: int, report: bool) -> None:
    commands = read(body(line() + capabilities))
    assert (commands.side_band_limit, commands.report_status) == (limit, report)


def test_session_ids_are_dropped_and_agents_replaced() -> None:
    commands = read(body(line() + b"\0 session-id=x/y agent=evil/1 atomic"))
    assert commands.capabilities == (AGENT, "atomic")


def refusal(wire: bytes, **limits: int) -> PushRefused:
    reader = CommandReader(**{"max_commands": 1000} | limits)
    with pytest.raises(PushRefused) as refused:
        reader.feed(wire)
    with pytest.raises(PushRefused):
        reader.feed(b"")
    return refused.value


def test_push_options_are_read_with_the_commands_and_the_pack_left_alone() -> None:
    wire = body(line() + b"\0 report-status push-options") + OPTIONS
    reader = CommandReader(1000)
    found = reader.feed(wire + PACK)
    assert found is not None and found.options == ("ci.skip", "topic=a b")
    assert reader.leftover == PACK
    assert found.serialise() == wire.replace(b"000etopic=a b\n", b"000dtopic=a b")


def test_push_options_are_read_one_byte_at_a_time_too() -> None:
    wire = body(line() + b"\0 push-options") + OPTIONS + PACK
    reader = CommandReader(1000)
    answers = [reader.feed(wire[at : at + 1]) for at in range(len(wire))]
    assert answers == [None] * (len(wire) - 1) + [read(wire)]


def test_a_push_may_have_the_capability_and_no_options() -> None:
    wire = body(line() + b"\0 push-options") + FLUSH
    assert read(wire).options == ()
    assert read(wire).serialise() == wire


def test_push_options_are_text_in_utf8() -> None:
    option = "reviewer=Zoë, çödé".encode()
    found = read(body(line() + b"\0 push-options") + body(option, "ä".encode() * 1024))
    assert found.options == (option.decode(), "ä" * 1024)
    assert read(found.serialise()) == found


@pytest.mark.parametrize(
    "option",
    [b"", b"a\x1b", b"a\0", b"a\nb", b"\xe4", "a\x9bb".encode(), b"\x7f", b"x" * 1025],
)
def test_options_of_other_bytes_are_refused_with_the_commands(option: bytes) -> None:
    refused = refusal(body(line() + b"\0 push-options") + body(b"fine", option))
    assert refused.why is Refusal.OPTION
    assert refused.commands.commands == (command(ZERO, ONE, "refs/heads/a"),)


def test_too_many_options_are_refused_with_the_commands() -> None:
    many = body(line() + b"\0 push-options") + body(*[b"x"] * 65)
    assert refusal(many).why is Refusal.OPTION
    long = body(line() + b"\0 push-options") + body(*[b"x" * 1000] * 70)
    assert refusal(long).why is Refusal.OPTION


SIGNED = (
    b"push-cert\0 report-status side-band-64k",
    b"certificate version 0.1\n",
    b"pusher A <a@example.org> 1700000000 +0000\n",
    b"pushee http://127.0.0.1:419/h/r\n",
    b"nonce 1-2\n",
    b"push-option ci.skip\n",
    b"\n",
    line() + b"\n",
    line(ref=b"refs/heads/b") + b"\n",
    b"-----BEGIN PGP SIGNATURE-----\n",
    b"\n",
    b"whatever\n",
    b"-----END PGP SIGNATURE-----\n",
    b"push-cert-end\n",
)


def test_a_signed_push_is_refused_with_the_commands_of_its_certificate() -> None:
    refused = refusal(body(*SIGNED))
    assert refused.why is Refusal.SIGNED
    named = [each.ref.text for each in refused.commands.commands]
    assert named == ["refs/heads/a", "refs/heads/b"]
    assert refused.commands.report_status and refused.commands.side_band_limit


@pytest.mark.parametrize("missing", range(1, len(SIGNED)))
def test_half_a_certificate_is_malformed_or_refused(missing: int) -> None:
    with pytest.raises(Malformed):
        CommandReader(1000).feed(body(*SIGNED[:missing], *SIGNED[missing + 1 :]))


@pytest.mark.parametrize("end", range(1, len(SIGNED)))
def test_a_certificate_without_its_end_is_malformed(end: int) -> None:
    with pytest.raises(Malformed) as refused:
        CommandReader(1000).feed(body(*SIGNED[:end]))
    assert not isinstance(refused.value, PushRefused)


def test_names_that_are_no_refs_are_reported_as_they_were_sent() -> None:
    latin, long = b"refs/heads/\xe4", b"refs/heads/" + "À".encode() * 600
    odd = (b"HEAD", b"refs/x", latin, long)
    refused = refusal(body(line(ref=odd[0]) + CAPS, line(), *(line(ref=each) for each in odd[1:])))
    assert refused.why is Refusal.REF_NAME
    assert refused.odd == odd
    assert [each.ref.text for each in refused.commands.commands] == ["refs/heads/a"]


@pytest.mark.parametrize(
    "name", [b"a\x1b[31m", b"\x9b31m", "a\x9b31m".encode(), b"a b", b"a\x7f", b"a" * 60001]
)
def test_a_name_that_no_report_may_carry_is_malformed(name: bytes) -> None:
    with pytest.raises(Malformed) as refused:
        CommandReader(1000).feed(body(line(ref=name) + CAPS))
    assert not isinstance(refused.value, PushRefused)


def test_what_a_policy_allows_more_refs_has_room_for_their_names() -> None:
    """256 bytes for each: a mebibyte is enough for those of a policy that says nothing."""
    lines = [line(ref=b"refs/heads/%0150d" % number) for number in range(6000)]
    wire = body(lines[0] + CAPS, *lines[1:]) + PACK
    assert len(wire) > 1 << 20
    found = CommandReader(6000).feed(wire)
    assert found is not None and len(found.commands) == 6000
    with pytest.raises(PushRefused) as refused:
        CommandReader(4000).feed(wire)
    assert refused.value.why is Refusal.TOO_MANY


def test_what_a_newer_git_asks_for_is_refused_with_the_commands() -> None:
    refused = refusal(body(line() + b"\0 report-status shiny-thing=v3"))
    assert refused.why is Refusal.CAPABILITY
    assert refused.commands.capabilities == ("report-status",)
    assert len(refused.commands.commands) == 1


@pytest.mark.parametrize(
    "wire",
    [
        body(b"push-cert\0 report-status\n", b"certificate version 0.1\n"),
        body(line() + b"\0 push-cert=nonce"),
        body(line() + b"\0 unheard-of"),
        body(line() + b"\0 report-status=1"),
        body(line() + b"\0 agent="),
        body(line() + b"\0 agent"),
        body(line() + b"\0 agent=a\x1b"),
        body(line() + b"\0 agent=" + b"a" * 257),
        body(line() + b"\0 object-format=md5"),
        body(line() + b"\0 quiet quiet"),
        body(line() + b"\0 object-format=sha1 object-format=sha256"),
        body(line() + b"\0  quiet"),
        body(line() + b"\0 quiet "),
        body(line() + b"\0 quiet\tatomic"),
        body(line() + b"\0 quiet\natomic"),
        body(line() + b"\0 quiet\0 atomic"),
        body(line() + b"\0 \xff"),
        body(line() + CAPS, line(ref=b"refs/heads/b") + b"\0 atomic"),
        body(line(), line(ONE, TWO)),
        body(line(ZERO, ZERO)),
        body(line(LONG_ZERO, LONG_ONE)),
        body(line(ZERO, LONG_ONE) + b"\0 object-format=sha256"),
        body(line() + b"\0 object-format=sha256"),
        body(b"shallow " + LONG_ONE, line()),
        body(line(new=b"A" * 40)),
        body(line(new=b"1" * 39)),
        body(line(new=b"1" * 41)),
        body(line(new=b"\xff" * 40)),
        body(ZERO + b"  " + ONE + b" refs/heads/a"),
        body(b" " + line()),
        body(line() + b"\r\n"),
        body(line() + b"\n\n"),
        body(ZERO + b" " + ONE),
        body(b""),
        body(b"\n"),
        body(b"shallow " + ONE),
        body(line(), b"shallow " + ONE),
        body(b"shallow " + ONE + b"\0 quiet", line()),
        body(b"SHALLOW " + ONE, line()),
        format_data(line()) + b"0001",
        format_data(line()) + b"0002",
        format_data(line()) + b"PACK",
        b"PACK",
    ],
)
def test_what_git_does_not_send_is_refused_for_good(wire: bytes) -> None:
    reader = CommandReader(1000)
    for data in (wire, b"", FLUSH):
        with pytest.raises(Malformed):
            reader.feed(data)
    with pytest.raises(Malformed):
        reader.finish()


def test_a_push_that_ends_inside_its_commands_is_refused() -> None:
    reader = CommandReader(1000)
    assert reader.feed(format_data(line())) is None
    with pytest.raises(Malformed):
        reader.finish()


def test_too_many_refs_are_refused() -> None:
    lines = [line(ref=b"refs/heads/%d" % each) for each in range(4)]
    full = CommandReader(max_commands=3).feed(body(*lines[:3]) + PACK)
    assert full is not None and len(full.commands) == 3
    refused = refusal(body(*lines), max_commands=3)
    assert (refused.why, refused.status) == (Refusal.TOO_MANY, 413)
    assert len(refused.commands.commands) == 4


def test_commands_beyond_the_limit_are_refused_with_those_before_it() -> None:
    lines = [line(ref=b"refs/heads/%d" % each) for each in range(100)]
    refused = refusal(body(*lines), limit=1000)
    assert refused.why is Refusal.TOO_MANY
    assert 0 < len(refused.commands.commands) < 20


def test_a_command_list_beyond_the_limit_is_refused() -> None:
    reader = CommandReader(1000, limit=1000)
    with pytest.raises(Malformed) as refused:
        reader.feed(b"".join(format_data(b"shallow " + ONE) for _ in range(100)))
    assert refused.value.status == 413


def test_the_pack_does_not_count_against_the_limit() -> None:
    wire = body(line())
    reader = CommandReader(1000, limit=len(wire))
    assert reader.feed(wire + PACK * 1000) is not None
    assert reader.leftover == PACK * 1000


def test_a_reader_is_for_one_push() -> None:
    reader = CommandReader(1000)
    reader.feed(FROM_GIT)
    with pytest.raises(RuntimeError):
        reader.feed(b"0000")


@pytest.mark.parametrize(
    "text",
    [
        "refs/heads/main",
        "refs/heads/HEAD",
        "refs/heads/@",
        "refs/heads/-x",
        "refs/heads/a./b",
        "refs/heads/a.LOCK",
        "refs/heads/lock",
        "refs/heads/{a}",
        "refs/heads/é/日本",
        "refs/pull/1/head",
        "refs/for/main%topic=x",
        "refs/tags/v1.0",
        "refs/heads/" + "a" * (MAX_REF - 11),
    ],
)
def test_names_git_allows_are_allowed(text: str) -> None:
    assert parse_ref(text.encode()) == RefName(text)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"HEAD",
        b"@",
        b"main",
        b"heads/main",
        b"refs",
        b"refs/",
        b"refs/stash",
        b"refs/heads/",
        b"refs//main",
        b"refs/heads//main",
        b"/refs/heads/main",
        b"Refs/heads/main",
        b"refs/heads/main/",
        b"refs/heads/main.",
        b"refs/heads/.main",
        b"refs/.heads/main",
        b"refs/../heads/main",
        b"refs/heads/a..b",
        b"refs/heads/a.lock",
        b"refs/heads.lock/a",
        b"refs/heads/a@{1}",
        b"refs/heads/a b",
        b"refs/heads/a~b",
        b"refs/heads/a^b",
        b"refs/heads/a:b",
        b"refs/heads/a?b",
        b"refs/heads/*",
        b"refs/heads/a[b",
        b"refs/heads/a\\b",
        b"refs/heads/a\0b",
        b"refs/heads/a\nb",
        b"refs/heads/a\n",
        b"refs/heads/a\x1bb",
        b"refs/heads/a\x7fb",
        b"refs/heads/a\xc2\x9bb",
        b"refs/heads/a\xff",
        b"refs/heads/\xed\xa0\x80",
        b"refs/heads/\xc0\xaf",
        b"refs/heads/" + b"a" * (MAX_REF - 10),
        b"refs/heads/" + "é".encode() * (MAX_REF // 2),
    ],
)
def test_names_git_refuses_are_refused(raw: bytes) -> None:
    with pytest.raises(Malformed):
        parse_ref(raw)


def test_values_cannot_be_made_past_their_parser() -> None:
    with pytest.raises(Malformed):
        RefName("refs/heads/a\ud800")
    with pytest.raises(Malformed):
        ObjectId("1" * 40 + "\n")


OBJECT_IDS = st.text("0123456789abcdef", min_size=40, max_size=40).map(ObjectId)
REFS = st.text("abé-.", min_size=1, max_size=8).filter(
    lambda text: ".." not in text and text[0] != "." and text[-1] != "."
)
COMMANDS = st.builds(
    Command,
    OBJECT_IDS.filter(lambda each: not each.is_zero),
    OBJECT_IDS,
    REFS.map(lambda text: RefName("refs/heads/" + text)),
)
CAPABILITIES = st.lists(
    st.sampled_from(["report-status", "side-band-64k", "atomic", "quiet", AGENT]), unique=True
)
PUSHES = st.builds(
    PushCommands,
    st.lists(COMMANDS, min_size=1, max_size=5, unique_by=lambda each: each.ref).map(tuple),
    CAPABILITIES.map(tuple),
    st.lists(OBJECT_IDS, max_size=3).map(tuple),
)


@given(PUSHES, st.binary(max_size=20), st.lists(st.integers(1, 40)))
def test_any_chunking_reads_back_what_was_written(
    push: PushCommands, pack: bytes, sizes: list[int]
) -> None:
    pack = PACK + pack if push.has_pack else b""
    reader, wire = CommandReader(1000), push.serialise() + pack
    for size in [*sizes, len(wire)]:
        piece, wire = wire[:size], wire[size:]
        if reader.feed(piece) is not None:
            break
    assert reader.finish() == push
    assert reader.leftover + wire == pack


@given(st.binary(max_size=300), st.lists(st.integers(1, 40)))
def test_hostile_bytes_are_refused_alike_in_any_chunking(raw: bytes, sizes: list[int]) -> None:
    wire = body(line() + b"\0" + raw) + PACK
    try:
        whole: PushCommands | None = CommandReader(1000).feed(wire)
    except Malformed:
        whole = None
    reader, pieces = CommandReader(1000), None
    try:
        for size in [*sizes, len(wire)]:
            piece, wire = wire[:size], wire[size:]
            if (pieces := reader.feed(piece)) is not None:
                break
    except Malformed:
        pieces = None
    assert pieces == whole


@given(st.binary(max_size=60))
def test_whatever_is_accepted_survives_our_own_spelling(raw: bytes) -> None:
    try:
        commands = read(body(line(ref=b"refs/heads/" + raw)))
    except Malformed:
        return
    assert read(commands.serialise()) == commands
