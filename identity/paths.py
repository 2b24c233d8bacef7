"""Where things are, below one root directory."""

from __future__ import annotations

TYPE_CHECKING = False  # typing and pathlib are imported late: hostctl must start fast
if TYPE_CHECKING:
    from pathlib import Path


class Paths:
    """Every path of the product below `root` (GITMOAT_ROOT, default `/`)."""

    __slots__ = ("_root",)

    def __init__(self, root: str | Path = "/") -> None:
        self._root = str(root)

    def __repr__(self) -> str:
        return f"Paths({self._root!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Paths) and other._root == self._root

    def __hash__(self) -> int:
        return hash(self._root)

    def _below(self, *parts: str) -> Path:
        from pathlib import Path

        return Path(self._root, *parts)

    @property
    def root(self) -> Path:
        return self._below()

    # etc: written by root
    @property
    def etc(self) -> Path:
        return self._below("etc", "gitmoat")

    @property
    def broker_toml(self) -> Path:
        return self.etc / "broker.toml"

    @property
    def broker_d(self) -> Path:
        return self.etc / "broker.d"

    @property
    def hostd_toml(self) -> Path:
        return self.etc / "hostd.toml"

    @property
    def seccomp(self) -> Path:
        """The system-call filter in Docker's words, for containers that others start."""
        return self.etc / "seccomp.json"

    @property
    def policies(self) -> Path:
        return self.etc / "policies"

    # var/lib: one directory per trust domain
    @property
    def state(self) -> Path:
        return self._below("var", "lib", "gitmoat")

    @property
    def broker_state(self) -> Path:
        return self.state / "broker"

    @property
    def broker_key(self) -> Path:
        return self.broker_state / "broker.key"

    @property
    def broker_key_next(self) -> Path:
        return self.broker_state / "broker.key.next"

    @property
    def broker_store(self) -> Path:
        return self.broker_state / "store.sqlite"

    @property
    def broker_vault(self) -> Path:
        return self.broker_state / "vault"

    @property
    def broker_audit(self) -> Path:
        return self.broker_state / "audit" / "audit.ndjson"

    @property
    def hostd_state(self) -> Path:
        return self.state / "hostd"

    @property
    def host_key(self) -> Path:
        return self.hostd_state / "host.key"

    @property
    def host_key_next(self) -> Path:
        return self.host_key.with_name(f"{self.host_key.name}.next")

    @property
    def hostd_audit(self) -> Path:
        return self.hostd_state / "audit.ndjson"

    # run: sockets, gone with a reboot
    @property
    def run(self) -> Path:
        return self._below("run", "gitmoat")

    @property
    def hostd_socket(self) -> Path:
        return self.run / "hostd.sock"

    @property
    def broker_admin_socket(self) -> Path:
        return self.run / "broker-admin.sock"

    @property
    def broker_metrics_socket(self) -> Path:
        return self.run / "broker-metrics.sock"

    @property
    def sandboxes_run(self) -> Path:
        return self.run / "sb"

    @property
    def control_dir(self) -> Path:
        return self.run / "ctl"

    @property
    def workdir_mounts(self) -> Path:
        return self.run / "wd"

    # var/log
    @property
    def log_dir(self) -> Path:
        return self._below("var", "log", "gitmoat")

    @property
    def broker_log(self) -> Path:
        return self.log_dir / "broker.log"

    @property
    def hostd_log(self) -> Path:
        return self.log_dir / "hostd.log"

    def sandbox_log(self, sandbox: str) -> Path:
        """What the detached command of a sandbox printed; older output in `.log.1`."""
        return self.log_dir / f"sandbox-{sandbox}.log"
