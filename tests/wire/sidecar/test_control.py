from __future__ import annotations

import os
import socket

from gitmoat.net.http.incoming import Incoming
from tests.fakes.sidecar_requests import advertise, info_refs, status
from tests.fakes.sidecar_world import BROKER_SEED, SIDECAR_SEED, Broker, Hostd, World, public


def test_ready_carries_the_public_key_and_comes_on_each_connection(world: World) -> None:
    for _ in range(2):
        hostd = Hostd(world)
        world.loop.settle()
        assert hostd.messages == [b"R" + public(SIDECAR_SEED)]
    world.loop.settle()


def test_the_newest_connection_wins(world: World) -> None:
    first = Hostd(world)
    world.loop.settle()
    second = Hostd(world)
    world.loop.settle()
    assert first.lost
    assert not second.lost


def test_nothing_is_dialled_before_activation(world: World) -> None:
    hostd = Hostd(world)
    world.loop.pass_time(30)
    assert hostd.dials == 0
    hostd.send("activate")
    world.loop.settle()
    assert hostd.dials == 2
    assert world.broker.open == 2


def test_what_the_sidecar_sends_is_always_33_bytes(world: World) -> None:
    hostd = world.start()
    hostd.send("selftest")
    world.loop.settle()
    assert {len(message) for message in hostd.messages} == {33}
    assert {message[:1] for message in hostd.messages} == {b"R", b"D", b"T"}


def test_activation_again_changes_nothing(world: World) -> None:
    hostd = world.start()
    hostd.send("activate")
    world.loop.settle()
    assert hostd.dials == 2


def test_a_restarted_hostd_finds_the_sidecar_serving(world: World) -> None:
    first = world.start()
    world.broker.handler = advertise
    first.link.close()
    world.loop.settle()
    request = info_refs("hub.example/acme/app")
    assert status(world.answer(world.untrusted_port, request)) == 200
    second = Hostd(world)
    world.loop.settle()
    assert status(world.answer(world.untrusted_port, request)) == 200
    assert second.messages[0][:1] == b"R"


def test_a_malformed_message_is_dropped_with_its_descriptors(world: World) -> None:
    hostd = world.start()
    before = len(os.listdir("/proc/self/fd"))
    with socket.socket() as extra:
        hostd.send("stop", extra.fileno())
        hostd.send("nonsense", extra.fileno())
        hostd.link.send(b"\xff")
        world.loop.settle()
    assert len(os.listdir("/proc/self/fd")) <= before
    assert not world.has_stopped()
    assert not hostd.lost


def test_connections_nobody_asked_for_are_closed_beyond_the_cap(world: World) -> None:
    hostd = world.start()
    for _ in range(40):
        hostd.answer_dial()
        world.loop.settle()
    assert world.broker.open <= world.config.dial_cap + world.config.egress_cap


def test_a_connection_that_is_closed_already_is_not_kept(world: World) -> None:
    hostd = world.start()
    hostd.silent = True
    world.broker.kill()
    world.loop.settle()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        near, far = socket.socketpair()
        far.close()
        hostd.send("connection", near.fileno())
        near.close()
        world.loop.settle()
    world.loop.settle()
    assert len(os.listdir("/proc/self/fd")) <= before + 2


def test_a_broker_with_another_key_gets_no_request(world: World) -> None:
    good = world.broker
    world.broker = evil = Broker(world, bytes([9] * 32))
    evil.handler = advertise
    world.start()
    client = world.request(world.untrusted_port, info_refs("hub.example/acme/app"))
    world.loop.pass_time(9)
    assert status(client.received) == 502
    assert evil.heads == []
    client.close()
    world.broker = good
    evil.close()


def test_a_broker_that_does_not_know_us_is_not_hammered(world: World) -> None:
    world.broker.admitted = frozenset()
    hostd = world.start()
    world.loop.pass_time(60)
    assert hostd.dials < 20


def test_stop_ends_an_idle_sidecar_at_once(world: World) -> None:
    hostd = world.start()
    hostd.send("stop")
    world.loop.settle()
    assert world.has_stopped()
    assert world.broker.open == 0
    assert hostd.lost


def test_stop_before_activation_ends_too(world: World) -> None:
    hostd = Hostd(world)
    hostd.send("stop")
    world.loop.settle()
    assert world.has_stopped()


def test_stop_lets_a_running_exchange_end_and_takes_no_new_one(world: World) -> None:
    held: list[Incoming] = []
    hostd = world.start()
    world.broker.handler = held.append
    client = world.request(world.untrusted_port, info_refs("hub.example/acme/app"))
    world.loop.settle()
    hostd.send("stop")
    world.loop.settle()
    assert not world.has_stopped()
    [incoming] = held
    advertise(incoming)
    world.loop.settle()
    assert status(client.received) == 200
    client.close()
    world.loop.settle()
    assert world.has_stopped()


def test_stop_cuts_what_does_not_end_in_time(world: World) -> None:
    hostd = world.start()
    world.broker.handler = lambda incoming: None
    client = world.request(world.untrusted_port, info_refs("hub.example/acme/app"))
    world.loop.settle()
    hostd.send("stop")
    world.loop.pass_time(29)
    assert not world.has_stopped()
    world.loop.pass_time(2)
    assert world.has_stopped()
    assert client.over


def test_idle_keep_alive_connections_do_not_delay_a_stop(world: World) -> None:
    hostd = world.start()
    world.broker.handler = advertise
    client = world.request(world.untrusted_port, info_refs("hub.example/acme/app"))
    world.loop.turn_until(lambda: client.whole)
    hostd.send("stop")
    world.loop.settle()
    assert world.has_stopped()


def test_a_broker_key_is_pinned_by_the_config_alone(world: World) -> None:
    assert world.config.broker_keys == frozenset({public(BROKER_SEED)})


def test_stop_waits_for_a_pipelined_request_too(world: World) -> None:
    held: list[Incoming] = []
    hostd = world.start()
    world.broker.handler = held.append
    client = world.request(world.untrusted_port, 2 * info_refs("hub.example/acme/app"))
    world.loop.settle()
    advertise(held[0])
    world.loop.settle()
    hostd.send("stop")
    world.loop.settle()
    assert not world.has_stopped()
    advertise(held[1])
    world.loop.settle()
    assert client.received.count(b"refs\n") == 2
    client.close()
    world.loop.settle()
    assert world.has_stopped()
