"""One question at a time, and its answer kept while it is good."""

from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred

from broker.credentials.providers.cache import DROPS, Cache, Fresh
from broker.credentials.providers.credential import Credential, unavailable
from broker.errors import Unavailable
from gitmoat.identity.secret import Secret


@define(eq=False)
class Source:
    now: float = 0.0
    asked: list[Deferred[Fresh]] = field(factory=list)
    keeping: Cache = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.keeping = Cache(lambda: self.now, 5.0)

    def ask(self) -> Deferred[Fresh]:
        self.asked.append(Deferred())
        return self.asked[-1]

    def get(self, key: str = "k") -> Deferred[Credential]:
        return self.keeping.get(key, self.ask)

    def answer(self, seconds: float = 60.0) -> Credential:
        credential = Credential("bot", Secret(b"x"))
        self.asked[-1].callback(Fresh(credential, seconds))
        return credential


def value(done: Deferred[Credential]) -> Any:
    assert done.called
    return done.result


def test_many_who_ask_at_once_wait_for_one_answer() -> None:
    source = Source()
    waiting = [source.get() for _ in range(20)]
    assert len(source.asked) == 1
    given = source.answer()
    assert [value(one) for one in waiting] == [given] * 20
    assert value(source.get()) is given
    assert len(source.asked) == 1


def test_it_is_asked_for_again_when_its_time_is_over() -> None:
    source = Source()
    source.get()
    source.answer(seconds=60)
    source.now = 59.9
    assert source.get().called
    source.now = 60.0
    assert not source.get().called
    assert len(source.asked) == 2


def test_other_things_are_asked_for_apart() -> None:
    source = Source()
    source.get("a")
    source.get("b")
    assert len(source.asked) == 2


def test_a_failure_is_told_to_all_and_kept_for_seconds_only() -> None:
    source = Source()
    waiting = [source.get(), source.get()]
    heard: list[object] = []
    for one in waiting:
        one.addErrback(lambda failure: heard.append(failure.trap(Unavailable)))
    source.asked[0].errback(unavailable("no", "do"))
    assert heard == [Unavailable, Unavailable]
    source.now = 5.0
    source.get()
    assert len(source.asked) == 2
    source.answer()
    assert source.get().called


def test_who_asks_again_and_again_for_what_fails_does_not_have_it_asked_for_each_time() -> None:
    source = Source()
    heard: list[object] = []
    for number in range(100):
        source.get().addErrback(lambda failure: heard.append(str(failure.value)[:4]))
        if number == 0:
            source.asked[0].errback(unavailable("no", "do"))
    assert heard == ["U105"] * 100 and len(source.asked) == 1


def test_failures_that_are_kept_are_bounded() -> None:
    source = Source()
    for number in range(3000):
        source.get(str(number)).addErrback(lambda _: None)
        source.asked[-1].errback(unavailable("no", "do"))
    assert len(source.keeping._failures) <= 1024


def test_one_who_leaves_does_not_end_the_question_of_the_others() -> None:
    source = Source()
    first, second = source.get(), source.get()
    first.addErrback(lambda failure: None)
    first.cancel()
    given = source.answer()
    assert value(second) is given


def test_dropping_an_old_one_keeps_the_new_one() -> None:
    source = Source()
    source.get()
    old = source.answer()
    source.keeping.drop("k", old)
    source.get()
    new = source.answer()
    source.keeping.drop("k", old)
    assert value(source.get()) is new


def test_what_is_kept_is_bounded() -> None:
    source = Source()
    for number in range(1200):
        source.get(str(number))
        source.answer()
    assert len(source.keeping._kept) <= 1024


def test_who_has_it_refused_again_and_again_does_not_have_it_asked_for_each_time() -> None:
    source = Source()
    for _ in range(DROPS):
        source.get()
        assert source.keeping.drop("k", source.answer(seconds=9999))
    source.get()
    given = source.answer(seconds=9999)
    assert not source.keeping.drop("k", given)
    assert value(source.get()) is given, "the others go on with it"
    source.now += 30
    assert source.keeping.drop("k", given)
    assert not source.get().called
