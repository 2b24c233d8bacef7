"""What probes try, from inside a sandbox: an attempt returns what it got, or raises.

Attempts run in forked children of the launcher, with the uid, filters and namespaces of a command.
So they need no program in the sandbox; and they can import nothing.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hostd.verify.attempts import file_system, git_ports, network, processes
from hostd.verify.attempts.refused import Refused
from hostd.verify.probes import NO_ANSWER

Attempt = Callable[..., str]
_WHOLE = 200

ATTEMPTS: Mapping[str, Attempt] = {
    **network.ATTEMPTS,
    **processes.ATTEMPTS,
    **file_system.ATTEMPTS,
    **git_ports.ATTEMPTS,
}


def attempt(name: str, *target: Any) -> tuple[bool, str]:
    """Whether the attempt worked, and its result in a few words."""
    try:
        return True, ATTEMPTS[name](*target)[:_WHOLE]
    except Refused as refusal:
        return False, str(refusal)[:_WHOLE]
    except TimeoutError:
        return False, NO_ANSWER
    except OSError as problem:
        return False, errno.errorcode.get(problem.errno or 0, str(problem))[:_WHOLE]


def report(attempts: Sequence[Sequence[Any]], descriptor: int) -> None:
    """Writes a line of JSON for each at once: the next attempt may kill the process."""
    for name, *target in attempts:
        line = json.dumps(attempt(name, *target)).encode() + b"\n"
        os.write(descriptor, line)
