import pytest

from netpolicy.format.document import PolicyError, parse_policy

RULE = '[[git]]\nrepos = ["github:acme/app"]\n'
HEAD = 'version = 1\nname = "p"\n'


def refused(text: str) -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        parse_policy(text)
    assert caught.value.code == "P101"
    return caught.value


@pytest.mark.parametrize(
    ("text", "path", "what"),
    [
        ("", "version", "is missing"),
        ('name = "p"', "version", "is missing"),
        ('version = 2\nname = "p"', "version", "is not one this program reads"),
        ('version = true\nname = "p"', "version", "is not one this program reads"),
        ('version = "1"\nname = "p"', "version", "is not one this program reads"),
        ("version = 1", "name", "is missing"),
        ('version = 1\nname = "../x"', "name", "not a name"),
        ("version = 1\nname = 3", "name", "must be text"),
        (HEAD + "gti = []", "gti", "unknown key"),
        (HEAD + "git = 3", "git", "must be a list"),
        (HEAD + "git = [3]", "git[0]", "must be a table"),
        (HEAD + "session = 3", "session", "must be a table"),
        (HEAD + "[session]\nttl = 8", "session.ttl", "not a duration like 90s, 30m, 8h or 2d"),
        (HEAD + '[session]\nttl = "8"', "session.ttl", "not a duration like 90s, 30m, 8h or 2d"),
        (HEAD + '[session]\nidle = "0m"', "session.idle", "not a duration like 90s, 30m, 8h or 2d"),
        (HEAD + '[session]\nttl = "31d"', "session.ttl", "too large"),
        (HEAD + '[session]\ntll = "8h"', "session.tll", "unknown key"),
        (
            HEAD + '[limits]\npush_max = "1MB"',
            "limits.push_max",
            "not a size like 64KiB, 200MiB or 4GiB",
        ),
        (
            HEAD + "[limits]\ngit_concurrency = 0",
            "limits.git_concurrency",
            "must be a whole number from 1 to 1000",
        ),
        (
            HEAD + "[limits]\ngit_concurrency = true",
            "limits.git_concurrency",
            "must be a whole number from 1 to 1000",
        ),
        (HEAD + "[limits]\npushmax = 1", "limits.pushmax", "unknown key"),
        (HEAD + RULE, "git[0]", "allows nothing"),
        (HEAD + "[[git]]\nfetch = true", "git[0].repos", "names no repository"),
        (HEAD + '[[git]]\nrepos = "github:a/b"', "git[0].repos", "must be a list"),
        (HEAD + "[[git]]\nrepos = [3]", "git[0].repos[0]", "must be text"),
        (HEAD + '[[git]]\nrepos = ["github:a/b", "*"]', "git[0].repos[1]", "no upstream"),
        (
            HEAD + '[[git]]\nrepos = ["github:a/b", "github:a/b.git"]',
            "git[0].repos[1]",
            "is listed twice",
        ),
        (HEAD + RULE + "fetch = 1", "git[0].fetch", "must be true or false"),
        (HEAD + RULE + 'effect = "permit"', "git[0].effect", "not one of: allow, deny"),
        (HEAD + RULE + "fetch = true\nwho = []", "git[0].who", "is empty"),
        (
            HEAD + RULE + 'fetch = true\nwho = ["root"]',
            "git[0].who[0]",
            "not one of: helper, untrusted",
        ),
        (HEAD + RULE + "push = true", "git[0].push", "must be a table"),
        (HEAD + RULE + "push = {}", "git[0].push", "names no ref"),
        (HEAD + RULE + "push = { branches = [], tags = [] }", "git[0].push", "names no ref"),
        (HEAD + RULE + 'push = { branch = ["a"] }', "git[0].push.branch", "unknown key"),
        (
            HEAD + RULE + 'push = { branches = ["a", "b c"] }',
            "git[0].push.branches[1]",
            "not a ref that git accepts",
        ),
        (HEAD + RULE + 'push = { refs = ["main"] }', "git[0].push.refs[0]", "not a full ref name"),
        (
            HEAD + RULE + 'push = { branches = ["a"], create = false, update = false }',
            "git[0].push",
            "covers no change",
        ),
        (
            HEAD + RULE + 'effect = "deny"\npush = { branches = ["a"], workflows = true }',
            "git[0].push.workflows",
            "has no meaning in a deny rule",
        ),
        (HEAD + (RULE + 'id = "a"\nfetch = true\n') * 2, "git[1].id", "is used by another rule"),
        (HEAD + RULE + 'id = "a b"\nfetch = true', "git[0].id", "not a name"),
        (HEAD + '[[egress]]\nid = "a"', "egress[0].hosts", "names no host"),
        (
            HEAD + '[[egress]]\nhosts = ["127.0.0.1"]',
            "egress[0].hosts[0]",
            "an IP address is not a host name",
        ),
        (
            HEAD + '[[egress]]\nhosts = ["a.example"]\nports = [0]',
            "egress[0].ports[0]",
            "must be a whole number from 1 to 65535, listed once",
        ),
        (
            HEAD + '[[egress]]\nhosts = ["a.example"]\nports = []',
            "egress[0].ports",
            "names no port",
        ),
        (
            HEAD + '[[egress]]\nhosts = ["a.example"]\nscheme = "ftp"',
            "egress[0].scheme",
            "not one of: tls, http",
        ),
        (
            HEAD + '[[egress]]\nhosts = ["a.example"]\nwho = ["helper"]',
            "egress[0].who",
            "unknown key",
        ),
        (
            HEAD + '[[egress]]\nhosts = ["a.example"]\nmethods = ["GET"]',
            "egress[0].methods",
            "has no meaning in a tls rule",
        ),
        (
            HEAD + '[[egress]]\nhosts = ["a.example"]\nscheme = "http"\nmethods = []',
            "egress[0].methods",
            "names no method",
        ),
        (
            HEAD + '[[egress]]\nhosts = ["a.example"]\nscheme = "http"\nmethods = ["CONNECT"]',
            "egress[0].methods[0]",
            "not a method that is passed on",
        ),
        (
            HEAD + '[[egress]]\nhosts = ["a.example"]\neffect = "deny"\nscheme = "http"',
            "egress[0].scheme",
            "has no meaning in a deny rule",
        ),
        (HEAD + '[preset]\nuse = ["pop"]', "preset.use[0]", "not a preset"),
        (HEAD + '[preset]\nallow = ["pip"]', "preset.allow", "unknown key"),
        (
            HEAD + '[[test]]\nexpect = "deny"',
            "test[0]",
            "must have one of: fetch, push, tunnel, http",
        ),
        (HEAD + '[[test]]\nfetch = "github:a/b"', "test[0].expect", "is missing"),
        (HEAD + '[[test]]\nexpect = "deny"\npush = "github:a/b"', "test[0].push", "no ref"),
        (
            HEAD + '[[test]]\nexpect = "deny"\npush = "github:a/b main"',
            "test[0].push",
            "ref is not two levels below refs/",
        ),
        (
            HEAD + '[[test]]\nexpect = "deny"\nfetch = "github:a/*"',
            "test[0].fetch",
            "not a repository path",
        ),
        (
            HEAD + '[[test]]\nexpect = "deny"\nfetch = "github:a/b"\nchange = "create"',
            "test[0].change",
            "has no meaning for a fetch",
        ),
        (
            HEAD + '[[test]]\nexpect = "deny"\nfetch = "github:a/b"\nwho = ["helper"]',
            "test[0].who",
            "must be text",
        ),
    ],
)
def test_a_bad_document_is_refused_with_the_path_of_the_key(
    text: str, path: str, what: str
) -> None:
    error = refused(text)
    assert (error.path, error.what) == (path, what)


def test_an_unknown_key_gets_the_nearest_known_one_as_a_hint() -> None:
    assert refused(HEAD + RULE + "fetsh = true").hint == "did you mean `fetch`?"


@pytest.mark.parametrize(
    "text", ["version = ", "a = 1\na = 2", "[" * 5000, "\x00", "version = " + "1" * 5000]
)
def test_what_is_not_toml_is_refused_as_a_whole(text: str) -> None:
    error = refused(text)
    assert error.path == ""
    assert error.what.startswith("not TOML")


def test_a_document_beyond_any_use_is_refused_before_it_is_parsed() -> None:
    assert "longer than" in refused("#" * 300_000).what
    rules = (RULE + "fetch = true\n") * 257
    assert refused(HEAD + rules).what == "more than 256 entries"
