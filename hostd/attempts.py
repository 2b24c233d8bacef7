"""What probes try, from inside a sandbox: an attempt that works says what it got.

They run in forked children of the launcher with the uid, the filters and the namespaces that a
command would get, so they need no program of the sandbox's; and nothing can be imported any more.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hostd import attempts_files, attempts_git, attempts_network, attempts_processes
from hostd.refused import Refused

Attempt = Callable[..., str]
_WHOLE = 200

ATTEMPTS: Mapping[str, Attempt] = {
    **attempts_network.ATTEMPTS,
    **attempts_processes.ATTEMPTS,
    **attempts_files.ATTEMPTS,
    **attempts_git.ATTEMPTS,
}


def attempt(name: str, *target: Any) -> tuple[bool, str]:
    """Whether it worked, and what came of it in a few words."""
    try:
        return True, ATTEMPTS[name](*target)[:_WHOLE]
    except Refused as refusal:
        return False, str(refusal)[:_WHOLE]
    except TimeoutError:
        return False, "ETIMEDOUT"
    except OSError as problem:
        return False, errno.errorcode.get(problem.errno or 0, str(problem))[:_WHOLE]


def report(attempts: Sequence[Sequence[Any]], descriptor: int) -> None:
    """One line of JSON for each: what was tried last is known also when it kills the process."""
    for name, *target in attempts:
        line = json.dumps(attempt(name, *target)).encode() + b"\n"
        os.write(descriptor, line)
