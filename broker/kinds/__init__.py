"""The kinds of requests that sessions may make, each in a module of its own.

Trusted with: the decision, and the words of an answer. Never holds: anything between two calls.
Hears: the head of a request, and what its body begins with. Speaks to: `exchange`, which acts.
"""

from broker.exchange.kind import Kind
from broker.kinds.git import Git
from broker.kinds.http import PlainHttp
from broker.kinds.push import GitPush
from broker.kinds.tunnel import TlsTunnel

# Of a request, the first that knows it says what it is.
KINDS: tuple[type[Kind], ...] = (Git, GitPush, PlainHttp, TlsTunnel)
