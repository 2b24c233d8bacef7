"""Where things are, below one root directory."""

from __future__ import annotations

from pathlib import Path


class Paths:
    """Every path of the product below `root` (GITMOAT_ROOT, default `/`)."""

    def __init__(self, root: str | Path = "/") -> None:
        self.root = Path(root)

        # Written by root.
        self.etc = self.root / "etc" / "gitmoat"
        self.broker_toml = self.etc / "broker.toml"
        self.broker_d = self.etc / "broker.d"
        self.hostd_toml = self.etc / "hostd.toml"
        self.policies = self.etc / "policies"
        # The system-call filter in Docker's words, for containers that others start.
        self.seccomp = self.etc / "seccomp.json"

        # One directory per trust domain.
        self.state = self.root / "var" / "lib" / "gitmoat"
        self.broker_state = self.state / "broker"
        self.broker_key = self.broker_state / "broker.key"
        self.broker_key_next = self.broker_state / "broker.key.next"
        self.broker_store = self.broker_state / "store.sqlite"
        self.broker_vault = self.broker_state / "vault"
        self.broker_audit = self.broker_state / "audit" / "audit.ndjson"
        self.hostd_state = self.state / "hostd"
        self.host_key = self.hostd_state / "host.key"
        self.host_key_next = self.hostd_state / "host.key.next"
        self.hostd_audit = self.hostd_state / "audit.ndjson"

        # Sockets and mounts, gone with a reboot.
        self.run = self.root / "run" / "gitmoat"
        self.hostd_socket = self.run / "hostd.sock"
        self.broker_admin_socket = self.run / "broker-admin.sock"
        self.broker_metrics_socket = self.run / "broker-metrics.sock"
        self.sandboxes_run = self.run / "sb"
        self.control_dir = self.run / "ctl"
        self.workdir_mounts = self.run / "wd"

        self.log_dir = self.root / "var" / "log" / "gitmoat"
        self.broker_log = self.log_dir / "broker.log"
        self.hostd_log = self.log_dir / "hostd.log"

    def __repr__(self) -> str:
        return f"Paths({str(self.root)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Paths) and other.root == self.root

    def __hash__(self) -> int:
        return hash(self.root)

    def sandbox_log(self, sandbox: str) -> Path:
        """What the detached command of a sandbox printed; older output in `.log.1`."""
        return self.log_dir / f"sandbox-{sandbox}.log"
