"""What root may ask the broker on the admin socket."""

from __future__ import annotations

import base64
import binascii
import os
import time
from collections.abc import Callable
from typing import assert_never

from attrs import define
from twisted.internet.defer import Deferred

from broker.api.admin_socket import Fields, Operation
from broker.api.host_operations import HOST_REMOVED
from broker.api.overview import problems, session_row, upstream_states
from broker.config.settings import AppProvider, FileProvider, HelperProvider, VaultProvider
from broker.context import Context
from broker.credentials.credential_check import CredentialCheck
from broker.credentials.own_key import OwnKey
from broker.credentials.providers.credential import parse_password
from broker.credentials.vault import Vault, check_entry
from broker.exchange.recording import record_first
from broker.sessions.clocks import WallClock
from broker.sessions.sessions import Session
from gitmoat.audit.events import AdminOperation, ConfigLoaded, CredentialStored
from gitmoat.fault import Fault
from gitmoat.version import VERSION
from netpolicy.format.writing import policy_to_mapping

_REASON_LIMIT = 200
_NO_SESSION = "no session has this id, nor a sandbox of this id or name"
_NO_LIVING = f"{_NO_SESSION}, or it has ended"


@define(eq=False)
class AdminOperations:
    _context: Context
    _vault: Vault
    _address: str
    _key: OwnKey
    _clock: WallClock
    _stop: Callable[[], None]
    _ending: Callable[[], bool]

    def table(self) -> dict[str, Operation]:
        return {
            "status": self.status,
            "reload": self.reload,
            "shutdown": self.shutdown,
            "cred-add": self.cred_add,
            "cred-ls": self.cred_ls,
            "cred-rm": self.cred_rm,
            "cred-test": self.cred_test,
            "session-ls": self.session_ls,
            "session-show": self.session_show,
            "session-revoke": self.session_revoke,
            "key-switch": self.key_switch,
            "clock-accept": self.clock_accept,
            "audit-head": self.audit_head,
            "top": self.top,
        }

    def status(self, fields: Fields, uid: int) -> Fields:
        return {
            "pid": os.getpid(),
            "version": VERSION,
            "address": self._address,
            "key": self._key.text,
            "key_since": self._key.since(),
            "clock_behind": self._clock.behind(),
            "healthy": not (wrong := problems(self._context)),
            "problems": wrong,
            "ending": self._ending(),
            "keeps_space": self._context.journal.keeps_space(),
            "uid": os.getuid(),
            "sessions": len(self._context.sessions.living()),
            "upstreams": sorted(self._context.routes.now.by_upstream),
        }

    def reload(self, fields: Fields, uid: int) -> Deferred[Fields]:
        return Deferred.fromCoroutine(self._reload())

    async def _reload(self) -> Fields:
        routes = self._context.routes.reload()
        await self._end_orphans()
        self._record(ConfigLoaded(reason="reload"))
        return {
            "upstreams": sorted(routes.by_upstream),
            "providers": sorted(routes.providers),
            "hosts": sorted(routes.hosts.values()),
        }

    def _end_orphans(self) -> Deferred[None]:
        """Sessions of a host that is enrolled no longer."""
        hosts = frozenset(self._context.routes.now.hosts.values())
        living = self._context.sessions.living()
        orphans = [session for session in living if session.stored.host not in hosts]
        return self._context.grants.revoke(orphans, HOST_REMOVED)

    def shutdown(self, fields: Fields, uid: int) -> Fields:
        self._record(AdminOperation(op="shutdown", decision="allow", peer_uid=uid))
        self._stop()
        return {}

    def _record(self, event: AdminOperation | ConfigLoaded | CredentialStored) -> None:
        record_first(self._context.journal, event)

    def cred_add(self, fields: Fields, uid: int) -> Fields:
        name, username = _text(fields, "name"), _text(fields, "username")
        try:
            raw = base64.b64decode(_text(fields, "secret_b64"), validate=True)
        except binascii.Error:
            raise _not_understood("secret_b64 is not base64") from None
        password = parse_password(raw)
        if password is None:
            fix = "give the token alone, without spaces or line breaks inside"
            raise Fault("U105", "this credential cannot be kept", "it is not one line", fix)
        check_entry(name, username)
        self._record(CredentialStored(name=name, peer_uid=uid))
        return {"name": name, "replaced": self._vault.add(name, username, password)}

    def cred_ls(self, fields: Fields, uid: int) -> Fields:
        """Providers in force, and vault entries without one; never a value."""
        items: list[Fields] = []
        providers = self._context.routes.now.config.providers
        for name, provider in sorted(providers.items()):
            match provider:
                case FileProvider(username=username, password_file=path):
                    items.append(_item(name, "file", username, file=str(path)))
                case VaultProvider():
                    items.append(_item(name, "vault", self._vault.username(name)))
                case HelperProvider(user=user, command=command):
                    items.append(
                        _item(name, "git-credential", "", user=user, command=list(command))
                    )
                case AppProvider():
                    about = f"{provider.app_id}/{provider.installation_id}"
                    file = str(provider.private_key_file)
                    items.append(_item(name, "github-app", "", file=file, installation=about))
                case _:
                    assert_never(provider)
        unused = [name for name in self._vault.names() if name not in providers]
        items += [_item(name, "vault", self._vault.username(name)) for name in unused]
        return {"items": items}

    def cred_rm(self, fields: Fields, uid: int) -> Fields:
        """Out of the vault; a provider that still names it has no credential from now on."""
        name = _text(fields, "name")
        check_entry(name, "any")
        self._record(AdminOperation(op="cred-rm", decision="allow", peer_uid=uid, reason=name))
        return {"name": name, "removed": self._vault.remove(name)}

    def cred_test(self, fields: Fields, uid: int) -> Deferred[Fields]:
        name, place = _text(fields, "name"), _text(fields, "repo")
        routes = self._context.routes.now
        if name not in routes.providers:
            fix = "`hostctl cred ls` lists them"
            raise Fault("C110", f"there is no credential {name!r}", "", fix)
        self._record(AdminOperation(op="cred-test", decision="allow", peer_uid=uid, reason=name))
        return Deferred.fromCoroutine(
            CredentialCheck(routes, self._context.dialler, name).run(place)
        )

    def session_ls(self, fields: Fields, uid: int) -> Fields:
        sessions = self._context.sessions.everyone()
        return {"items": [self._summary(session) for session in sessions]}

    def _summary(self, session: Session) -> Fields:
        stored = session.stored
        left = stored.deadline - self._context.now()
        return {
            "session": stored.id,
            "sandbox": stored.sandbox,
            "name": stored.name,
            "host": stored.host,
            "state": stored.state.value,
            "reason": stored.reason,
            "expires": int(time.time() + left),
        }

    def session_show(self, fields: Fields, uid: int) -> Fields:
        found = self._one(_text(fields, "session"))
        stored = found.stored
        place = {"pid": stored.pid, "netns": stored.netns, "cgroup": stored.cgroup}
        return {
            **self._summary(found),
            "runtime": stored.runtime,
            "container": stored.container,
            "epoch": stored.epoch,
            "place": place,
            "ttl": stored.ttl,
            "issued": stored.issued,
            "policy": policy_to_mapping(found.policy),
        }

    def _one(self, text: str) -> Session:
        exact = self._context.sessions.by_id(text)
        sessions = self._context.sessions
        found = [exact] if exact is not None else sessions.named(text) or sessions.ended(text)
        if not found:
            fix = "`hostctl ls --fleet` lists them"
            raise Fault("R103", f"there is no session {text!r}", _NO_SESSION, fix)
        return found[-1]

    def session_revoke(self, fields: Fields, uid: int) -> Deferred[Fields]:
        """By session id, sandbox id or sandbox name, or all; ended ones do not count."""
        reason = fields.get("reason") or "by the admin"
        if not isinstance(reason, str):
            raise _not_understood("reason is not text")
        chosen = self._chosen(fields)
        told: Fields = {"revoked": [session.id for session in chosen]}
        ended = self._context.grants.revoke(chosen, reason[:_REASON_LIMIT], uid)
        return ended.addCallback(lambda _: told)

    def _chosen(self, fields: Fields) -> list[Session]:
        if fields.get("all") is True or fields.get("session") == "all":
            return self._context.sessions.living()
        text = _text(fields, "session" if "session" in fields else "sandbox")
        found = self._context.sessions.named(text)
        if not found:
            fix = "`hostctl ls --fleet` lists them"
            raise Fault("R103", f"there is no living session {text!r}", _NO_LIVING, fix)
        return found

    def key_switch(self, fields: Fields, uid: int) -> Fields:
        """Hosts must have pinned the next key before; grants for the old one are still taken."""
        self._record(AdminOperation(op="broker rotate-key", decision="allow", peer_uid=uid))
        self._key.switch()
        return {"key": self._key.text}

    def clock_accept(self, fields: Fields, uid: int) -> Deferred[Fields]:
        return Deferred.fromCoroutine(self._clock_accept(uid))

    async def _clock_accept(self, uid: int) -> Fields:
        behind = self._clock.behind()
        reason = f"{behind} s earlier than it was"
        self._record(
            AdminOperation(op="clock-accept", decision="allow", peer_uid=uid, reason=reason)
        )
        await self._clock.accept()
        return {"behind": behind}

    def top(self, fields: Fields, uid: int) -> Fields:
        context = self._context
        return {
            "items": [session_row(context, session) for session in context.sessions.living()],
            "operations": {
                "running": context.admission.running,
                "waiting": context.admission.waiting,
            },
            "upstreams": upstream_states(context),
        }

    def audit_head(self, fields: Fields, uid: int) -> Fields:
        seq, head = self._context.journal.head()
        return {"seq": seq, "hash": head}


def _item(name: str, kind: str, username: str, **about: object) -> Fields:
    return {"name": name, "type": kind, "username": username, **about}


def _text(fields: Fields, key: str) -> str:
    value = fields.get(key)
    if not isinstance(value, str) or not value:
        raise _not_understood(f"{key} is missing")
    return value


def _not_understood(why: str) -> Fault:
    return Fault("C105", "the request is not understood", why, "use this version's hostctl")
