"""No decision depends on the words of a message: what steers is a type, a cause, a code, a number.

Words are for people and are reworded; whoever compared them would then decide otherwise, silently.
"""

import ast
from collections.abc import Iterator

import pytest

from tests.stage.sources import ROOT, product_files

# Names of what is said, and of the exceptions and failures that say it. A `message` may also be a
# mapping, of which keys are asked; only looking into it as a text is a decision on words.
WORDS = {"why", "what", "reason", "detail", "error", "strerror"}
ERRORS = {"error", "problem", "failure", "malformed", "exception", "caught", "reason"}
LOOKS = {"startswith", "endswith", "find", "index", "count", "partition", "removeprefix"}
SEARCHES = {"search", "match", "fullmatch", "get"}

# (file, expression): why it may look at what is called so.
EXCEPTIONS = {
    (
        "broker/upstream/dialler.py",
        "error.args[0]",
    ): "OpenSSL's: pyOpenSSL gives its texts and no numbers",
    ("broker/kinds/push_commands.py", "_CODES.get(refused.why, 'G203')"): "an enumeration, Refusal",
    (
        "broker/sessions/sessions.py",
        "reason in _GIVEN_BACK",
    ): "the key under which an end is stored",
    (
        "broker/sessions/sessions.py",
        "reason in _RENEWABLE",
    ): "the key under which an end is stored",
    (
        "broker/sessions/sessions.py",
        "over.reason == _RENEWED",
    ): "the key under which an end is stored",
    (
        "gitmoat/wire/http/formatting.py",
        "_PHRASE.fullmatch(reason)",
    ): "whether a status line may hold it",
    (
        "hostd/broker_link/broker_client.py",
        "words in reason.getErrorMessage()",
    ): "OpenSSL's: pyOpenSSL gives its texts and no numbers",
    (
        "hostctl/arguments.py",
        "message.startswith('unrecognized arguments')",
    ): "argparse has no other",
    (
        "hostctl/commands/cp.py",
        "'No such file' in error",
    ): "tar's, in the sandbox: some exit with 1",
    (
        "hostctl/commands/cp.py",
        "'unrecognized option' in error",
    ): "tar's, in the sandbox: also exit 1",
    (
        "hostctl/commands/explain.py",
        "event.get('req') == args.what",
    ): "what the user named: a request's id",
    (
        "gitmoat/net/http/incoming.py",
        "reason in self._reasons",
    ): "who holds it up, any hashable object",
    (
        "gitmoat/net/transport/descriptor.py",
        "reason in self._reasons",
    ): "who holds it up, any hashable object",
}


def last_name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def is_words(node: ast.expr) -> bool:
    match node:
        case ast.Name() | ast.Attribute():
            return last_name(node) in WORDS
        case ast.Subscript(value=ast.Attribute(value=error, attr="args")):
            return last_name(error) in ERRORS or last_name(error) == "value"
        case ast.Call(func=ast.Name(id="str" | "repr"), args=[said]):
            return last_name(said) in ERRORS | {"value"} or is_words(said)
        case ast.Call(func=ast.Attribute(attr="getErrorMessage")):
            return True
        case ast.Call(func=ast.Attribute(value=said, attr="lower" | "strip" | "casefold")):
            return is_words(said)
        case _:
            return False


def is_nothing(node: ast.expr) -> bool:
    """Whether there are words at all may be asked."""
    return isinstance(node, ast.Constant) and not node.value


def steers(node: ast.AST) -> bool:
    match node:
        case ast.Compare(left=left, ops=ops, comparators=others):
            equal = any(isinstance(op, ast.Eq | ast.NotEq | ast.In | ast.NotIn) for op in ops)
            said = any(is_words(each) for each in (left, *others))
            return equal and said and not any(is_nothing(each) for each in (left, *others))
        case ast.Call(func=ast.Attribute(value=said, attr=name), args=arguments):
            looked_into = name in LOOKS and (is_words(said) or last_name(said) == "message")
            asked = arguments[:1] if name == "get" else arguments  # what follows is a default
            return looked_into or (name in SEARCHES and any(map(is_words, asked)))
        case ast.Subscript(slice=key):
            return is_words(key) or is_words(node)
        case ast.Match(subject=subject, cases=cases):
            literal = any(isinstance(part, ast.MatchValue) for case in cases
                          for part in ast.walk(case.pattern))  # fmt: skip
            return literal and is_words(subject)
        case _:
            return False


def decisions(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if steers(node):
            shown = node.subject if isinstance(node, ast.Match) else node
            yield ast.unparse(shown)


def found() -> set[tuple[str, str]]:
    return {
        (str(file.relative_to(ROOT)), each)
        for file in product_files()
        for each in decisions(file.read_text(encoding="utf-8"))
    }


def test_nothing_decides_by_words() -> None:
    assert found() - EXCEPTIONS.keys() == set()


def test_every_exception_is_still_there() -> None:
    assert EXCEPTIONS.keys() - found() == set()


@pytest.mark.parametrize(
    "planted",
    [
        "if why == STOPPED: pass",
        "if why != 'idle': pass",
        "if 'DNS' in why: pass",
        "if outcome.why in CODES: pass",
        "if why.startswith(_LOST): pass",
        "if problem.why.startswith('FileNotFoundError'): pass",
        "if malformed.what.lower() == 'too large': pass",
        "if str(problem) != NOT_TAKEN: pass",
        "if str(failure.value) == 'gone': pass",
        "if error.args[0] == 'gone': pass",
        "if any('gone' in each for each in error.args[0]): pass",
        "if message.startswith('gone'): pass",
        "if 'gone' in failure.getErrorMessage(): pass",
        "if re.search('gone', error.strerror): pass",
        "code = _OURS[why]",
        "code = _OURS.get(reason)",
        "match ended.why:\n case 'idle': pass",
    ],
)
def test_a_planted_one_is_found(planted: str) -> None:
    assert list(decisions(planted))


@pytest.mark.parametrize(
    "planted",
    [
        "if why.cause is Cause.IDLE: pass",
        "if cause in _LOST: pass",
        "if error.errno == ENOENT: pass",
        "if isinstance(problem, NotStarted): pass",
        "if why is not None: pass",
        "if problem.why == '': pass",
        "log.info('{why}', why=why.text)",
    ],
)
def test_what_looks_at_no_words_is_left_alone(planted: str) -> None:
    assert not list(decisions(planted))
