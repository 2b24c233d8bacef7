"""A session as a store keeps it."""

from broker.sessions.store.interface import StoredSession

SESSION = StoredSession(
    id="s1",
    key=bytes(32),
    host="h",
    host_boot="b",
    counter=1,
    sandbox="sb1",
    name="one",
    runtime="bwrap",
    container=None,
    netns=4026531840,
    epoch=1,
    scope="{}",
    issued=1700000000,
    ttl=3600,
    broker_boot="bb",
    deadline=4000.5,
)
