"""The diagrams of the documentation: `python -m publish.diagrams` writes docs/pictures/*.svg."""

from __future__ import annotations

from pathlib import Path

from publish.svg import Picture

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"


def processes() -> Picture:
    made = Picture(940, 430, "Processes of Gitmoat: what each holds, and who speaks to whom")
    made.box(16, 16, 420, 296, "paper edge")
    made.text(28, 38, "sandbox: a network namespace with lo and nothing else", "soft small")
    made.card(
        (28, 52, 396, 68),
        "the command (untrusted uid)",
        [
            "repository code, tests, an agent; owns /workspace",
            "holds nothing; git to 127.0.0.1:419 if allowed",
        ],
        "hostile",
    )
    made.card(
        (28, 134, 396, 68),
        "git gate (helper uid)",
        [
            "no workspace, own bare repository; git to 127.0.0.1:418",
            "holds a token: one repository, ten minutes, this port",
        ],
        "box",
    )
    made.card(
        (28, 230, 396, 68),
        "sidecar (own uid)",
        ["strict parser, policy; no files, no socket()", "holds its session's key, in memory"],
        "box",
    )
    made.arrow([(226, 202), (226, 230)])
    made.arrow([(28, 86), (21, 86), (21, 264), (28, 264)])
    made.card(
        (560, 200, 210, 112),
        "broker (own uid)",
        [
            "decides again, per ref",
            "writes the audit first",
            "adds the credential",
            "holds the credentials",
        ],
        "trusted",
    )
    made.arrow([(424, 264), (560, 264)])
    made.text(492, 252, "TLS 1.3", "soft small", "middle")
    made.text(492, 282, "keys pinned", "soft small", "middle")
    made.box(830, 228, 94, 56)
    made.text(877, 252, "git server", "ink bold", "middle")
    made.text(877, 271, "HTTPS", "soft small", "middle")
    made.arrow([(770, 256), (830, 256)])
    made.card(
        (28, 346, 396, 68),
        "hostd (root, small)",
        ["namespaces, nftables, probes; dials for the sidecar", "holds the host's signing key"],
        "trusted",
    )
    made.arrow([(226, 346), (226, 298)])
    made.arrow([(424, 366), (665, 366), (665, 312)])
    made.text(544, 358, "signed grants", "soft small", "middle")
    made.box(770, 382, 154, 32)
    made.text(847, 403, "hostctl (uid 0)", "ink bold", "middle")
    made.arrow([(770, 403), (424, 403)])
    return made


_PUSH = [
    ("git", "sidecar", "POST git-receive-pack on lo"),
    ("sidecar", "sidecar", "strict grammar, policy, else 404"),
    ("sidecar", "broker", "a new request, streamed over TLS"),
    ("broker", "broker", "session, budget, every ref decided"),
    ("broker", "journal", "the decision, synced to disk"),
    ("broker", "git server", "own spelling of the commands, pack, credential"),
    ("git server", "broker", "the answer"),
    ("broker", "git", "the answer, head made anew, control bytes replaced"),
]
_ACTORS = {"git": 75, "sidecar": 300, "broker": 535, "journal": 735, "git server": 865}


def push() -> Picture:
    height = 90 + 44 * len(_PUSH)
    made = Picture(940, height, "A push, step by step")
    for name, x in _ACTORS.items():
        made.box(x - 55, 16, 110, 32, "hostile" if name == "git" else "box")
        made.text(x, 37, name, "ink bold", "middle")
        made.rule(x, 48, height - 14)
    for number, (start, end, what) in enumerate(_PUSH, 1):
        y = 44 + 44 * number
        _step(made, y, _ACTORS[start], _ACTORS[end], f"{number}  {what}")
    return made


def _step(made: Picture, y: int, start: int, end: int, text: str) -> None:
    if start == end:
        made.arrow([(start, y - 8), (start + 24, y - 8), (start + 24, y + 8), (start, y + 8)])
        made.label(start + 32, y + 4, text)
        return
    made.arrow([(start, y + 8), (end, y + 8)])
    from_the_right = min(start, end) > 500 and len(text) * 6 > abs(end - start)
    if from_the_right:
        made.label(max(start, end) - 8, y, text, "end")
    else:
        made.label(min(start, end) + 8, y, text)


_LIFE = [
    ("plan", ["policy, three fresh uids", "nothing made yet"]),
    ("room", ["namespace with lo only", "nftables, listeners"]),
    ("sidecar", ["forked, confined", "grant registered, closed"]),
    ("probes", ["as both uids: what must", "work works, the rest fails"]),
    ("active", ["clone, then command", "watchdog every 15 s"]),
]


def life() -> Picture:
    made = Picture(940, 210, "The life of a sandbox")
    for number, (title, lines) in enumerate(_LIFE):
        x = 16 + 184 * number
        look = "trusted" if title == "active" else "box"
        made.card((x, 24, 168, 76), title, lines, look)
        if number:
            made.arrow([(x - 16, 62), (x, 62)])
        made.arrow([(x + 84, 100), (x + 84, 150)])
    made.card(
        (16, 150, 904, 46),
        "end: session revoked, processes killed, files removed or kept",
        [],
        "box",
    )
    made.text(908, 172, "any failure, rm, stop, a rule that changed", "soft small", "end")
    return made


DRAWN = {"processes": processes, "push": push, "life": life}


def main() -> None:
    for name, draw in DRAWN.items():
        (PICTURES / f"{name}.svg").write_text(str(draw()), encoding="utf-8")


if __name__ == "__main__":
    main()
