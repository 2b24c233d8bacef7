"""Containers that the tests start themselves, with and without the options that were printed."""

from __future__ import annotations

import json
import shlex
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from attrs import frozen

from tests.docker.engines import TestEngine, image
from tests.stage.boxes import Box
from tests.stage.command import Ran
from tests.stage.gitmoat import Gitmoat
from tests.stage.repositories import ALLOWED


@frozen
class Prepared:
    """A network that waits for a container."""

    stage: Gitmoat
    engine: TestEngine
    name: str
    options: list[str]

    @property
    def box(self) -> Box:
        return Box(self.stage, self.name)

    def start(self, *words: str, without: str = "", more: tuple[str, ...] = ()) -> str:
        """`without`: the value of an option that is left out."""
        options = list(self.options)
        if without:
            place = options.index(without)
            first = place - 1 if options[place - 1].startswith("--") else place
            del options[first : place + 1]
        command = words or ("/bin/sleep", "600")
        return self.engine.docker(
            *("run", "-d", *options, *more, "--entrypoint", command[0], image("busybox")),
            *command[1:],
        )

    def attach(self, container: str, *words: str) -> Ran:
        scope = ("--agent", "--repo", self.stage.url(ALLOWED), "--push", "agent/**")
        return self.stage.hostctl("attach", container, *(words or scope))

    def state(self) -> str:
        listed = self.stage.hostctl("ls").out.splitlines()
        return next((line.split()[2] for line in listed if self.name in line), "gone")


@contextmanager
def preparing(stage: Gitmoat, engine: TestEngine) -> Iterator[Prepared]:
    name = f"at-{uuid.uuid4().hex[:8]}"
    printed = stage.hostctl("attach", "--prepare", name).expect_success("prepare")
    structured = json.loads(stage.hostctl("--json", "ls").out)
    assert name in str(structured)
    made = Prepared(stage, engine, name, shlex.split(printed.replace("\\\n", " ")))
    before = set(engine.docker("ps", "-aq").split())
    try:
        yield made
    finally:
        for container in set(engine.docker("ps", "-aq").split()) - before:
            engine.try_docker("rm", "-f", container)
        stage.hostctl("rm", "--force", name)
