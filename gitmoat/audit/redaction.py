"""Words that look like a credential do not get into a journal, wherever they came from.

No field of an event holds a secret. But an upstream may repeat what it was told, and a program
what it read; whoever puts a token there must not find it in a file that others read. Names are
not looked at here: `gitmoat.audit.texts` says why.
"""

from __future__ import annotations

import re

SHOWN = "[redacted]"
LONGEST = 1024

_SHAPES = re.compile(
    r"""
      (?:gh[oprsu]|ghu)_[A-Za-z0-9]{8,255}          # GitHub
    | github_pat_[A-Za-z0-9_]{8,255}
    | gl[a-z]{2,5}-[A-Za-z0-9_\-.]{8,255}           # GitLab
    | xox[a-z]-[A-Za-z0-9-]{8,255}                  # Slack
    | (?:AKIA|ASIA)[0-9A-Z]{16}                     # AWS
    | (?:npm|pypi|hf|sk|rk|pk)[_-][A-Za-z0-9_-]{16,255}
    | eyJ[A-Za-z0-9_-]{8,600}\.[A-Za-z0-9_-]{8,600}(?:\.[A-Za-z0-9_-]{0,400})?  # JWT
    | (?i:basic|bearer|token)[ :=]{1,3}[A-Za-z0-9+/=_.~-]{8,900}
    | (?i:password|passwd|secret|api[_-]?key)[ ]?[:=][ ]?[^\s&;,]{4,255}
    | -----BEGIN[ ][A-Z ]{0,40}PRIVATE[ ]KEY-----.*
    | (?<=://)[^/\s@]{1,255}@(?=[^/\s@])            # user information of a URL
    """,
    re.VERBOSE | re.DOTALL,
)


def redacted(text: str) -> str:
    """The text without what has the shape of a credential."""
    return _SHAPES.sub(lambda found: SHOWN + "@" * found[0].endswith("@"), text)
