"""Docker Engine, called in threads: the one module that imports its client library.

Every call has a time limit; it does what its name says or fails with what the admin can do. A
Docker that hangs delays only the operations that wait for its answer.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from attrs import field, frozen
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.threadpool import ThreadPool

from hostd.docker import pause
from hostd.failures import Failed

_log = Logger()
_THREADS = 4
_ANSWERS_WITHIN = 60
_KNOWS_ITSELF_WITHIN = 10
_SILENCE = 5.0  # after a call without an answer the next ones fail at once for so long
_PAUSE_IMAGE = "gitmoat/pause"
_OLDEST_API = (1, 41)  # Docker 20.10
LABEL = "gitmoat.instance"
_SMALL = 64 << 10
_PLAIN = 0o777  # Go's FileMode of a regular file without set-uid bits has no others

Answer = TypeVar("Answer")
Client = Any  # docker.APIClient, whose published types are of an older version


@frozen(kw_only=True)
class Limits:
    memory: int
    pids: int
    cpus: float | None = None


@frozen(kw_only=True)
class Bind:
    """`source` is a path that only root can change."""

    source: str
    target: str
    read_only: bool = True


@frozen(kw_only=True)
class ContainerSpec:
    """What is different between our containers; `_create` has what all of them have."""

    name: str
    image: str
    program: str
    uid: int
    network: str
    seccomp: Mapping[str, Any]
    limits: Limits
    instance: str
    hostname: str | None = None
    environment: Mapping[str, str] = field(factory=dict)
    binds: Sequence[Bind] = ()
    tmpfs: Mapping[str, str] = field(factory=dict)
    sysctls: Mapping[str, str] = field(factory=dict)
    dns: Sequence[str] = ()


class Engine:
    """A Docker Engine behind its Unix socket."""

    def __init__(self, reactor: Any, socket: str) -> None:
        self.socket = socket
        self._reactor = reactor
        self._pool = ThreadPool(0, _THREADS, "docker")
        self._version = "auto"
        self._started = False
        self._silent_until = 0.0

    def stop(self) -> None:
        if self._started:
            self._pool.stop()

    async def pause_image(self) -> str:
        """The image of the pause; it is imported once and never pulled."""
        name = f"{_PAUSE_IMAGE}:{pause.tag()}"

        def make(client: Client) -> str:
            from docker.errors import ImageNotFound

            try:
                client.inspect_image(name)
            except ImageNotFound:
                client.import_image_from_data(pause.image(), _PAUSE_IMAGE, pause.tag())
            return name

        return await self._ask(make)

    async def info(self) -> dict[str, Any]:
        """The first call of every start; its short time limit finds a Docker that hangs."""
        self._silent_until = 0.0
        return await self._ask(lambda client: dict(client.info()), _KNOWS_ITSELF_WITHIN)

    async def image(self, name: str) -> dict[str, Any]:
        def look(client: Client) -> dict[str, Any]:
            from docker.errors import ImageNotFound

            try:
                return dict(client.inspect_image(name))
            except ImageNotFound:
                raise Failed(
                    "R114",
                    f"Docker has no image {name} here",
                    why="hostd does not pull images",
                    fix=f"docker pull {name}",
                    exit_code=125,
                ) from None

        return await self._ask(look)

    async def small_file(self, spec: ContainerSpec, path: str) -> bytes:
        """A file of an image, as a container shows it that is never started and is removed at
        once; nothing if it has none, or not a regular and small one."""

        def look(client: Client) -> bytes:
            made = _create(client, spec)
            try:
                return _small_file(client, made, path)
            finally:
                client.remove_container(made, force=True, v=True)

        return await self._ask(look)

    async def create(self, spec: ContainerSpec) -> str:
        return await self._ask(lambda client: _create(client, spec))

    async def start(self, container: str) -> dict[str, Any]:
        """Starts it, and returns what Docker then says of it."""

        def begin(client: Client) -> dict[str, Any]:
            client.start(container)
            return dict(client.inspect_container(container))

        return await self._ask(begin)

    async def inspect(self, container: str) -> dict[str, Any]:
        """Raises Failed with R116 if there is none."""
        return await self._ask(lambda client: dict(client.inspect_container(container)))

    async def volume(self, name: str) -> dict[str, Any]:
        return await self._ask(lambda client: dict(client.inspect_volume(name)))

    async def containers(self) -> list[dict[str, Any]]:
        """All containers, running or not, in the short form."""
        return await self._ask(lambda client: [dict(each) for each in client.containers(all=True)])

    async def remove(self, container: str) -> None:
        """By name or id; a container that does not exist counts as removed."""

        def remove(client: Client) -> None:
            from docker.errors import APIError, NotFound

            try:
                client.remove_container(container, force=True, v=True)
            except NotFound:
                pass
            except APIError as problem:
                if problem.status_code != 409:  # "removal is already in progress"
                    raise

        await self._ask(remove)

    async def _ask(
        self, question: Callable[[Client], Answer], within: int = _ANSWERS_WITHIN
    ) -> Answer:
        if self._reactor.seconds() < self._silent_until:
            raise unreachable(self.socket, TimeoutError("it did not answer just now"))
        if not self._started:
            self._started = True
            self._pool.start()
        try:
            answer: Answer = await deferToThreadPool(
                self._reactor, self._pool, self._answer, question, within
            )
        except Failed as problem:
            if problem.code == "R113":
                self._silent_until = self._reactor.seconds() + _SILENCE
            raise
        return answer

    def _answer(self, question: Callable[[Client], Answer], within: int) -> Answer:
        """Runs in a thread, with a new client each time: connections to a restarted Docker would
        be stale."""
        import docker
        from docker.errors import APIError, DockerException, NotFound
        from requests.exceptions import RequestException

        try:
            client = docker.APIClient(
                base_url=f"unix://{self.socket}", version=self._version, timeout=within
            )
            try:
                self._keep_version(client)
                return question(client)
            finally:
                client.close()
        except NotFound as problem:
            raise Failed("R116", "Docker has no such container", why=_words(problem)) from None
        except APIError as problem:
            raise Failed("R101", "Docker could not do this", why=_words(problem)) from None
        except (DockerException, RequestException, OSError) as problem:
            raise unreachable(self.socket, problem) from None

    def _keep_version(self, client: Client) -> None:
        """Negotiated once; an engine older than the checks of `sealed` is refused."""
        version = str(client.api_version)
        if tuple(map(int, version.split("."))) < _OLDEST_API:
            raise Failed(
                "R113",
                "this Docker Engine is too old",
                why=f"it speaks API {version}",
                fix="install Docker 20.10 or newer",
                exit_code=125,
            )
        self._version = version


def unreachable(socket: str, problem: Exception) -> Failed:
    _log.warn("docker at {socket}: {why}", socket=socket, why=str(problem))
    return Failed(
        "R113",
        "Docker does not answer",
        why=f"{type(problem).__name__} at {socket}",
        fix="start Docker, or name its socket as docker.socket in hostd.toml; without --image "
        "none is needed",
        exit_code=125,
    )


def _words(problem: Any) -> str:
    text = str(problem.explanation or problem)
    return "".join(c if c.isprintable() else " " for c in text)[:300]


def _small_file(client: Client, container: str, path: str) -> bytes:
    from docker.errors import NotFound

    try:
        pieces, about = client.get_archive(container, path)
    except NotFound:
        return b""
    if about["size"] > _SMALL or about["mode"] & ~_PLAIN:
        return b""
    data = b""
    for piece in pieces:
        data += piece
        if len(data) > 2 * _SMALL:  # with what tar adds to it
            return b""
    try:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            member = archive.next()
            file = None if member is None else archive.extractfile(member)
            return b"" if file is None else file.read(_SMALL)
    except tarfile.TarError:
        return b""


def _create(client: Client, spec: ContainerSpec) -> str:
    cpus = spec.limits.cpus
    host_config = client.create_host_config(
        network_mode=spec.network,
        cap_drop=["ALL"],
        security_opt=["no-new-privileges", f"seccomp={json.dumps(spec.seccomp)}"],
        read_only=True,
        ipc_mode="private",
        cgroupns="private",
        mem_limit=spec.limits.memory,
        pids_limit=spec.limits.pids,
        nano_cpus=None if cpus is None else int(cpus * 1e9),
        mounts=[_mount(each) for each in spec.binds],
        tmpfs=dict(spec.tmpfs),
        sysctls=dict(spec.sysctls),
        dns=list(spec.dns),
        log_config={"Type": "none", "Config": {}},
        restart_policy={"Name": "no"},
    )
    made = client.create_container(
        spec.image,
        entrypoint=[spec.program],
        command=[],
        name=spec.name,
        user=f"{spec.uid}:{spec.uid}",
        hostname=spec.hostname,
        environment=dict(spec.environment),
        working_dir="/",
        labels={LABEL: spec.instance},
        stop_signal="SIGKILL",  # process 1 gets no signal without a handler (pid_namespaces(7))
        healthcheck={"test": ["NONE"]},  # else Docker would run the image's own
        host_config=host_config,
    )
    return str(made["Id"])


def _mount(bind: Bind) -> dict[str, Any]:
    """A mount and not a bind: Docker makes a bind's missing source, and splits it at colons."""
    return {
        "Type": "bind",
        "Source": bind.source,
        "Target": bind.target,
        "ReadOnly": bind.read_only,
    }
