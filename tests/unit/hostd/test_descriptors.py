"""hostd has descriptors for hundreds of sandboxes, whatever it was started with."""

import resource
import subprocess
import sys

SCRIPT = """
import resource
from hostd.__main__ import raise_descriptor_limit
resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
raise_descriptor_limit()
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_the_limit_is_raised_as_far_as_it_may_be() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, check=True)
    soft, hard = map(int, done.stdout.split())
    assert soft == hard >= resource.getrlimit(resource.RLIMIT_NOFILE)[1]
