"""Points in time as people read them."""

from __future__ import annotations

import time
from datetime import datetime


def until(moment: object, now: float | None = None) -> str:
    """`in 7h59m` for a point in time to come (seconds since 1970); `-` when there is none."""
    if not isinstance(moment, int | float) or isinstance(moment, bool):
        return str(moment) if moment else "-"
    left = int(moment - (time.time() if now is None else now))
    if left <= 0:
        return "ended"
    return f"in {span(left)}"


def ago(moment: object, now: float | None = None) -> str:
    """`3m12s ago` for a point in time that has passed."""
    if not isinstance(moment, int | float) or isinstance(moment, bool):
        return str(moment) if moment else "-"
    return f"{span(max(0, int((time.time() if now is None else now) - moment)))} ago"


def span(seconds: int) -> str:
    days, rest = divmod(seconds, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, secs = divmod(rest, 60)
    if days:
        return f"{days}d{hours}h"
    if hours:
        return f"{hours}h{minutes:02}m"
    return f"{minutes}m{secs:02}s" if minutes else f"{secs}s"


def moment_text(moment: object) -> str:
    """A journal's time stamp in UTC, to the second."""
    if not isinstance(moment, int | float) or isinstance(moment, bool):
        return str(moment or "-")
    try:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))
    except (OverflowError, ValueError, OSError):
        return str(moment)


def seconds_of(stamp: object) -> float:
    """A journal's time stamp as seconds since 1970; 0 for one that cannot be parsed."""
    try:
        return datetime.fromisoformat(str(stamp)).timestamp()
    except ValueError:
        return 0.0
