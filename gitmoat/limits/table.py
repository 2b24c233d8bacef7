"""Every limit there is: its value, where it is set, and what happens at it.

docs/limits.md is made from this table, and `tests/unit/gitmoat/limits/test_table.py` compares each value
with the one in force, so that a limit cannot change without its row, nor have none.
"""

from __future__ import annotations

from attrs import frozen

POLICY, BROKER = "policy", "broker.toml"


@frozen
class Limit:
    """`name` is the test's key; `setting` is empty where the value is fixed."""

    name: str
    what: str
    value: int | float
    unit: str
    code: str
    end: str
    setting: str = ""


@frozen
class Group:
    title: str
    about: str
    limits: tuple[Limit, ...]


_LATER = "429 with Retry-After; a push is told per ref"
_BUSY = "503 with Retry-After; a push is told per ref"
_WAITS = "the next connection waits in the kernel's backlog"

GROUPS = (
    Group(
        "One session",
        "Set in the policy. The git gate has a quarter more of the first two, for itself alone, so "
        "that a command that uses git in a loop does not keep its owner from fetching.",
        (
            Limit("git_requests_per_minute", "git requests a minute, five minutes' worth at once", 120, "", "G303", "the next one waits for its turn, and is answered then", f"{POLICY} `limits.git_requests_per_minute`"),
            Limit("git_wait", "for that turn", 15, "s", "G303", "refused at once if it would be longer: " + _LATER),
            Limit("git_concurrency", "git requests at a time", 4, "", "G303", _LATER, f"{POLICY} `limits.git_concurrency`"),
            Limit("push_max", "the pack of one push", 200 << 20, "bytes", "G301", "refused before anything goes up if its size is announced; else the upstream connection is cut and nothing is applied", f"{POLICY} `limits.push_max`"),
            Limit("fetch_max", "the answer to one fetch", 4 << 30, "bytes", "G302", "the answer ends with a message between two packets", f"{POLICY} `limits.fetch_max`"),
            Limit("session_max", "bytes of git in all, both ways, over all sidecars of a sandbox and restarts of the broker", 64 << 30, "bytes", "G305", "the transfer is ended with a message, then the session is over for good (S101)", f"{POLICY} `limits.session_max`"),
            Limit("egress_connections", "connections to other hosts at a time", 64, "", "E108", "refused, with the reason in the proxy's answer", f"{POLICY} `limits.egress_connections`"),
            Limit("egress_per_minute", "connections to other hosts a minute", 600, "", "E108", "the same", f"{POLICY} `limits.egress_per_minute`"),
            Limit("egress_max", "bytes to and from other hosts in all, over all sidecars of a sandbox and restarts of the broker", 20 << 30, "bytes", "E109", "connections are cut, new ones refused", f"{POLICY} `limits.egress_max`"),
            Limit("egress_idle", "a connection to another host without a byte", 600, "s", "", "cut", f"{POLICY} `limits.egress_idle`"),
            Limit("lookups", "names of other hosts that the system's resolver is asked for at a time", 2, "", "", "the next one waits; none does with `egress.resolvers` in broker.toml"),
            Limit("push_refs", "refs in one push, and 1 MiB for their names and object ids, or 256 bytes for each of so many refs", 4000, "", "G304", "the push is refused, told per ref", f"{POLICY} `limits.push_refs`"),
            Limit("ttl", "from activation to the hard end", 28800, "s", "S101", "what runs is cut, everything is refused", f"{POLICY} `session.ttl`"),
            Limit("idle_session", "without a git operation that succeeded", 14400, "s", "S101", "everything is refused", f"{POLICY} `session.idle`"),
            Limit("reports", "reports of its sidecar a minute", 60, "", "G303", "not recorded; the sidecar adds up what is alike"),
            Limit("denials", "refusals with a record of their own at once, then one in two seconds", 20, "", "", "the others are counted in `denials.summarised`"),
            Limit("free_refusals", "refusals before answers get slower; half is forgotten in 30 s", 10, "", "", "each answer 0.25 s later than the one before, up to 5 s, with the advice not to retry; not while `hostctl verify` runs", f"{POLICY} `limits.free_refusals`"),
        ),
    ),
    Group(
        "One sandbox's sidecar",
        "Each socket has its own connections and its own rate of new ones. Together with the links to the "
        "broker they stay below the descriptors a sidecar may have, so the untrusted uid cannot take the last.",
        (
            Limit("helper_connections", "connections to :418", 32, "", "", _WAITS),
            Limit("untrusted_connections", "connections to :419", 64, "", "", _WAITS),
            Limit("untrusted_rate", "new connections a second to :419, 200 at once", 50, "", "", _WAITS),
            Limit("credential_connections", "connections to the credential socket", 32, "", "", _WAITS),
            Limit("proxy_connections", "connections to :480", 64, "", "", _WAITS),
            Limit("plain_connections", "connections to :80 of synthetic addresses", 64, "", "", _WAITS),
            Limit("tls_connections", "connections to :443 of synthetic addresses", 64, "", "", _WAITS),
            Limit("dns_connections", "DNS connections", 16, "", "", _WAITS),
            Limit("dns_batch", "DNS datagrams in one turn of its loop", 64, "", "", "then everything else that is ready has its turn"),
            Limit("egress_links", "links to the broker for other hosts, beside those for git", 64, "", "E108", "refused"),
            Limit("credentials_per_minute", "tokens a minute", 120, "", "H106", "`quit=1`"),
            Limit("credential_time", "one credential request", 5, "s", "H103", "closed"),
            Limit("broker_links", "links to the broker; the untrusted port never has the last quarter", 16, "", "B101", "502 when none is free for 8 s"),
            Limit("descriptors", "descriptors in all", 512, "", "", "accepting rests half a second at a time; nothing spins"),
        ),
    ),
    Group(
        "One request",
        "The same on both hops.",
        (
            Limit("head", "the head of a request, TLS handshake", 10, "s", "G104", "408 and the end", f"{BROKER} `timeouts.head`"),
            Limit("head_bytes", "the head of a request", 16384, "bytes", "G104", "431 and the end"),
            Limit("headers", "header lines", 64, "", "G104", "431 and the end"),
            Limit("idle", "without a byte in either direction", 60, "s", "U101", "both connections are cut; a push says that its result is open", f"{BROKER} `timeouts.idle`"),
            Limit("operation", "in all", 900, "s", "U101", "the same", f"{BROKER} `timeouts.operation`"),
            Limit("drain", "after the broker was told to end, for requests that were under way", 30, "s", "", "no more is taken; what is left is cut 4 s later", f"{BROKER} `timeouts.drain`"),
            Limit("sliced_lines", "pkt-lines of an upstream's answer; one more for each 40 bytes of it, in a push's report for each 16", 16384, "", "U104", "the answer ends with a message between two packets"),
            Limit("sliced_framing", "bytes of an answer that only frame its chunks, and half of what they carry on top", 64 << 10, "bytes", "U104", "cut, with a message where the answer allows one"),
            Limit("turn", "bytes that one turn of the broker or a sidecar reads of one connection; 16 KiB while they take more than 0.01 s to use", 512 << 10, "bytes", "", "the others have their turn first"),
            Limit("unpacked", "what a compressed request unpacks to, as a multiple of its length, and 1 MiB on top", 16, "", "G104", "413 and the end"),
            Limit("minimum_rate", "bytes a second that its client must send or read, while only the client is waited for", 512, "", "G306", "ended with a message", f"{BROKER} `limits.minimum_rate`"),
        ),
    ),
    Group(
        "The broker",
        "Set in broker.toml. Hosts (grants, revocations, health) and the admin socket are never counted or queued.",
        (
            Limit("connections", "TLS connections", 4096, "", "", "closed; 16 more are for hosts", f"{BROKER} `limits.connections`"),
            Limit("operations", "git operations at a time; one sandbox has half of them at most", 256, "", "B106", "sandboxes wait in turn, one operation of each; then " + _BUSY, f"{BROKER} `limits.operations`"),
            Limit("queue", "waiting for a turn", 10, "s", "B106", _BUSY, f"{BROKER} `limits.queue`"),
            Limit("host_requests_per_minute", "git requests a minute of one host's sessions; the lower half is for sandboxes within their share", 6000, "", "B106", _BUSY, f"{BROKER} `limits.host_requests_per_minute`"),
            Limit("requests_per_minute", "git requests a minute of all sessions; the same", 12000, "", "B106", _BUSY, f"{BROKER} `limits.requests_per_minute`"),
            Limit("credential_requests_per_minute", "requests a minute with one credential at one upstream; the same", 1200, "", "U108", _LATER, f"{BROKER} `limits.credential_requests_per_minute`"),
            Limit("longest_rest", "the longest rest an upstream can ask for with Retry-After or rate-limit headers", 3600, "s", "U108", _LATER),
            Limit("breaker", "connections to an upstream in a row that could not be made", 5, "", "U101", "it is left alone for 2 to 30 s, then one request of each sandbox tries"),
            Limit("doors", "repositories whose failures are remembered for one session; five failures in a row close one for that session, for 2 to 30 s", 64, "", "U110", "the oldest is forgotten, and asked again"),
            Limit("credential_drops", "times that a credential is asked for anew at once because an upstream did not take it; then every 30 s", 3, "", "U102", "the one that is there is used"),
            Limit("denied_tokens", "tokens a minute that one session asks GitHub for in vain", 20, "", "U105", "refused without asking"),
            Limit("metrics_connections", "readers of metrics at a time", 8, "", "", "closed"),
        ),
    ),
    Group(
        "One host",
        "What is started in one sandbox delays nothing that is started in another. Memory and processes: "
        "[what sandboxes share](threat-model.md#what-sandboxes-share-and-what-keeps-them-apart).",
        (
            Limit("start", "from the fork of a program to its exec", 10, "s", "R117", "it alone is ended; exit status 126"),
            Limit("unstarted", "programs of one sandbox that have not come so far, or were ended and are not gone", 64, "", "R117", "one more is refused"),
            Limit("creations", "sandboxes that are being made at a time", 4, "", "", "the next one waits"),
            Limit("pids", "processes of one sandbox", 4096, "", "", "fork fails", "`hostctl run --pids`"),
        ),
    ),
    Group(
        "The audit",
        "See [audit](reference/audit.md).",
        (
            Limit("audit_text", "characters of a text", 512, "", "", "cut, with three dots"),
            Limit("audit_segment", "one journal file", 64 << 20, "bytes", "", "another is begun, in the same chain", f"{BROKER} `audit.segment`"),
            Limit("audit_keep", "older journal files", 64, "", "", "the oldest is removed, and a record says so", f"{BROKER} `audit.keep`"),
            Limit("audit_request", "journal for each git request that a session may make, in the average; with 120 a minute and all its refusals some 300 MiB a day", 1024, "bytes", "G303", "a push with many refs waits, refused ones are only counted, so that no sandbox has the records of the others removed"),
            Limit("audit_burst", "journal that a session may have written above that", 16 << 20, "bytes", "G303", "the same"),
            Limit("audit_reserve", "disk space kept behind the end of each journal for git, grants and revocations", 4 << 20, "bytes", "B103", "when only that is left everything else is refused, or dropped and counted, until there is space"),
            Limit("audit_reserve_own", "of it, for grants, revocations and ends alone", 1 << 20, "bytes", "B103", "no sandbox's records get there"),
            Limit("audit_reserve_share", "of it, the records of one sandbox's git, some 35 requests", 32 << 10, "bytes", "B103", "its git is refused, until there is space; that of the others is not"),
        ),
    ),
)  # fmt: skip


def page() -> str:
    """docs/limits.md."""
    lines = ["# Limits", ""]
    lines += ["Every limit, its default, and what happens at it. This page is generated from"]
    lines += ["`gitmoat/limits/table.py`. Codes are explained by `hostctl explain CODE`.", ""]
    for group in GROUPS:
        lines += [f"## {group.title}", "", group.about, ""]
        lines += ["| limit | default | set by | at the limit |", "|---|---|---|---|"]
        lines += [_row(limit) for limit in group.limits]
        lines.append("")
    return "\n".join(lines)


def _row(limit: Limit) -> str:
    code = f"{limit.code}: " if limit.code else ""
    return f"| {limit.what} | {_shown(limit)} | {limit.setting or 'fixed'} | {code}{limit.end} |"


def _shown(limit: Limit) -> str:
    if limit.unit != "bytes":
        return f"{limit.value} {limit.unit}".rstrip()
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if limit.value >= 1 << shift:
            return f"{int(limit.value) >> shift} {unit}"
    return f"{limit.value} bytes"
