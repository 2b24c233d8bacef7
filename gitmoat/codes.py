"""The one table of stable error codes: what a refusal says, what its owner can do about it, and how
each protocol answers it.

`text` may be shown to a sandbox: no host path, no name of another repository, no upstream text.
"""

from collections.abc import Mapping
from types import MappingProxyType

from attrs import frozen


@frozen
class Code:
    """`git`, `proxy`, `control`: the HTTP status for git, a client of the proxy, and a host.

    `always`: it says nothing about one operation, so git's POST gets the status too, not a 200.
    `proxy_error`: RFC 9209, section 2.3.
    """

    id: str
    text: str
    fix: str
    # Never 403: on a POST git hides its body and prints "Everything up-to-date".
    git: int = 502
    always: bool = False
    proxy: int = 403
    proxy_error: str = "http_request_denied"
    control: int = 400


_LOG = "read the end of var/log/gitmoat/hostd.log"

# fmt: off
_TABLE = (
    # G1xx: the repository
    Code("G101", "this repository is not available here", "add it to a [[git]] rule with the right `who`; if it is in one, the git server says not found: `cred test`", git=404, always=True),
    Code("G102", "Git LFS is not supported here", "keep large files out of LFS, or set GIT_LFS_SKIP_SMUDGE=1 to clone without them", git=404),
    Code("G103", "not a git smart HTTP request", "use git 2.30 or newer over the rewritten URL; dumb HTTP and archives are not served", git=404),
    Code("G104", "malformed request", "use an unmodified git client; the audit record says what was wrong", git=400, always=True),
    Code("G105", "fetching from this repository is not allowed", "set `fetch = true` in a [[git]] rule that names the repository", git=404),
    # G2xx: refs
    Code("G201", "pushing to this ref is not allowed", "push to a ref that is allowed, or widen `push` in the policy's [[git]] rule"),
    Code("G202", "deleting this ref is not allowed", "set `push.delete = true` in a [[git]] rule that covers the ref"),
    Code("G203", "malformed push", "use an unmodified git client; the reason says what was not understood", git=400, always=True),
    Code("G204", "push options are not allowed", "push without -o, or set `push.options = true` in a [[git]] rule that covers the ref"),
    Code("G205", "signed pushes are not supported", "push with --no-signed; signed commits and tags pass as they are"),
    # G3xx: size and rate
    Code("G301", "the push is too large", "push less at once, or raise `limits.push_max` in the policy"),
    Code("G302", "the fetch is too large", "fetch less (--depth, --filter), or raise `limits.fetch_max` in the policy"),
    Code("G303", "too many git requests; try again later", "wait, or raise `limits.git_requests_per_minute` or `limits.git_concurrency`", git=429),
    Code("G304", "the push changes too many refs", "push fewer refs at once, or raise `limits.push_refs` in the policy"),
    Code("G305", "this session has transferred all the bytes it may, and has ended", "raise `limits.session_max` in the policy, then start the sandbox again", git=429),
    Code("G306", "the transfer was slower than the least rate", "send or read faster, or lower `limits.minimum_rate` in broker.toml"),
    # H1xx: the helper and who is at the other end
    Code("H101", "this user may not use the credential socket", "only the git gate may; let the command use git itself with `who` or `run --agent`"),
    Code("H102", "the caller could not be verified", "retry; if it persists, the caller had exited or runs outside the sandbox's cgroup"),
    Code("H103", "malformed credential request", "use git's own credential protocol with protocol, host and path (useHttpPath)"),
    Code("H104", "the request token is missing or wrong", "let git ask the credential helper again; tokens last minutes and fit one repository"),
    Code("H105", "no credential for this repository", "add the repository to a [[git]] rule whose `who` lists helper"),
    Code("H106", "too many credential requests; try again later", "wait a minute; git asks once per operation, so something asks in a loop"),
    # S1xx: the session
    Code("S101", "this session has ended", "`hostctl session renew S`; after a revocation or a used-up quota save its files with `hostctl cp`", git=401, always=True, proxy=403, control=410),
    Code("S102", "this session is not active yet", "wait until the sandbox has started; `hostctl inspect` shows its state", git=503, always=True, proxy=503),
    Code("S103", "the grant was refused", "check that the host is enrolled (`hostctl host ls`); the broker's audit has the reason", control=403),
    Code("S104", "the grant was used before", "a counter went backwards: was the host's state restored from a copy? enrol it again", control=409),
    Code("S105", "this session cannot last that long", "ask for less: `session.max_ttl` of the policy is the most at a time", control=409),
    Code("S106", "the broker does not know a key of the policy", "install this version of Gitmoat where the broker is, brokers before hosts, or take the key out of the policy", control=403),
    Code("S107", "the policy is above the broker's ceiling for this host", "narrow the policy, or widen [host.NAME] in broker.toml where the broker is", control=403),
    Code("S108", "the broker's clock is earlier than it was", "set it right; if it was wrong before and is right now, `hostctl broker accept-clock`", control=403),
    # E1xx: egress and DNS
    Code("E101", "this host is not on the sandbox's list", "add the host to an [[egress]] rule of the policy"),
    Code("E102", "this port of the host is not on the sandbox's list", "add the port to `ports` of the [[egress]] rule that names the host"),
    Code("E103", "this is not a host name", "ask for the host by its name; addresses are not reached in any spelling"),
    Code("E104", "a git server is reached with git, not through the proxy", "use git with the server's usual URLs; to open the host itself, name it in [[egress]]"),
    Code("E105", "the connection does not begin with TLS for this name", "send a ClientHello with the name as SNI and without ECH; plain HTTP needs an http rule"),
    Code("E106", "the host's name resolves to an address that is not public", "if the host is in your own network, set `allow_private = true` in its [[egress]] rule", proxy_error="destination_ip_prohibited"),
    Code("E107", "the host cannot be reached", "check the name, the broker's resolver and its network", proxy=502, proxy_error="destination_unavailable"),
    Code("E108", "too many connections; try again later", "wait, or raise `limits.egress_connections` or `limits.egress_per_minute`", proxy=429, proxy_error="connection_limit_reached"),
    Code("E109", "the sandbox has transferred as many bytes as it may", "raise `limits.egress_max` in the policy, then `hostctl reload`"),
    Code("E110", "this host may not be reached by this protocol or method", "use https for a tls rule; for plain HTTP see `scheme` and `methods` of the rule"),
    Code("E111", "malformed proxy request", "use CONNECT host:port, or an absolute http URL, of an unmodified client", proxy=400, proxy_error="http_request_error"),
    Code("E112", "DNS over HTTPS is not passed on", "use the resolver of the sandbox; it answers for every name on the list"),
    # P1xx: the policy file
    Code("P101", "the policy is invalid", "correct the key named in the message"),
    Code("P102", "the policy cannot be read", "check its name, owner (root) and mode (0644)"),
    Code("P103", "a policy test does not hold", "correct the rule or the [[test]] it fails"),
    Code("P104", "a wildcard covers hosts that strangers can register", "name the hosts, or set `allow_shared = true` in the [[egress]] rule if that is meant"),
    Code("P105", "a preset names no host on this machine", "configure the package manager as root, or name the hosts in an [[egress]] rule"),
    # U1xx: the upstream
    Code("U101", "the git server cannot be reached", "check the upstream's url and the broker's network"),
    Code("U102", "the git server did not accept our credential", "rotate the upstream's credential or widen its permissions"),
    Code("U103", "the git server answered with a redirect, which is not followed", "set the upstream's url to the target of the redirect, if you trust it"),
    Code("U104", "the git server gave an unusable answer", "the broker's log has the status; check that the url is a git smart HTTP server"),
    Code("U105", "no credential is available for the git server", "check the upstream's provider and the file or vault entry it reads"),
    Code("U106", "the git server's certificate is not trusted", "`hostctl upstream rm`, then add it again with --ca-file, the authority that signed its certificate"),
    Code("U107", "no upstream is configured for this URL", "`hostctl upstream ls` shows them; `hostctl upstream add` makes one"),
    Code("U108", "the git server is asked too often; try again later", "wait; `limits.credential_requests_per_minute` in broker.toml is our own share of it", git=429),
    Code("U109", "the git server does not let our credential do this", "widen the credential's permissions at the git server, or take the rule out of the policy"),
    Code("U110", "the git server has an error of its own; try again later", "the broker's log has the status; look at the git server"),
    Code("U111", "the git server has moved this repository", "use its new name, which the audit has, and allow that; if only .git differs, set git_suffix"),
    # B1xx: the broker
    Code("B101", "the broker cannot be reached", "start it (`hostctl up`); listen.address in broker.toml and broker.address in hostd.toml must be the same", proxy=502, proxy_error="proxy_internal_error"),
    Code("B102", "the broker's key is not the pinned one", "if the key was rotated on purpose, pin the new one in hostd.toml"),
    Code("B103", "the audit journal cannot be written, so nothing is allowed", "free disk space or correct the journal's owner and mode; no restart is needed", git=503, proxy=503, control=503),
    Code("B104", "the broker's configuration is invalid", "correct the key named in the message"),
    Code("B105", "an audit journal is damaged or was changed", "keep a copy and find out who wrote to it; the records before the named line are intact"),
    Code("B106", "the broker is busy; try again later", "wait, or raise `limits` in broker.toml; `hostctl ls --watch` shows which sandboxes are busy", git=503),
    Code("B107", "the broker does not know this host", "`hostctl host enrol` here prints what to type where the broker is"),
    # N1xx: network namespace and nftables
    Code("N101", "the network namespace could not be made", _LOG),
    Code("N102", "the nftables rules could not be loaded", "install nftables, then try again"),
    Code("N103", "a listener could not be made in the sandbox", _LOG),
    Code("N104", "hostd's configuration is invalid", "correct the key named; see hostd.toml"),
    Code("N201", "traffic could leave the sandbox", "use no sandbox on this host; report this"),
    Code("N203", "a sidecar port is open to the wrong uid, or closed to the right one", "report this"),
    Code("N204", "a sidecar port could be taken by the sandbox", "report this"),
    Code("N205", "the sandbox's system-call filter is not in force", "report this"),
    Code("N206", "a setting of the sandbox's network is wrong", "report this"),
    Code("N207", "the sandbox's network was changed from outside, so it was stopped", "find out who changed it, then `hostctl start`"),
    Code("N208", "something of the host can be read or written from the sandbox", "stop the sandbox; report this"),
    Code("N209", "a token, repository or ref is open to the wrong user", "revoke; report this"),
    Code("N210", "a control is not enforced", "stop the sandbox; `hostctl verify` names the control"),
    Code("N211", "a report does not match its signature", "ask for the report again, and for the public key of the host that made it"),
    # R1xx: the runtime
    Code("R101", "the runtime could not start the sandbox", _LOG),
    Code("R102", "a program that is needed is missing", "install the package it names"),
    Code("R103", "there is no such sandbox", "`hostctl ls` lists the sandboxes"),
    Code("R104", "a sandbox of this name exists", "choose another --name or remove the old one"),
    Code("R105", "the git gate could not do this", "read what git said; `hostctl explain` knows the code and the request id in it"),
    Code("R106", "the sandbox is not running", "`hostctl start S`; `hostctl ls` shows its state"),
    Code("R107", "the command could not be started", "check its name and PATH; /usr/local and /opt are seen only where `runtime.show` of hostd.toml names them"),
    Code("R108", "a command is running in the sandbox", "wait for it, or `hostctl rm --force`"),
    Code("R109", "this file system has no idmapped mounts", "copy the files in and out with `hostctl cp`"),
    Code("R110", "this directory cannot be a work directory", "choose another directory"),
    Code("R111", "this directory is in use by another sandbox", "stop that one, or choose another directory"),
    Code("R112", "this cannot be copied", "correct what the message names, then copy again"),
    Code("R113", "Docker does not answer", "start Docker, or use --runtime bwrap"),
    Code("R114", "Docker does not have this image", "docker pull IMAGE"),
    Code("R115", "the container is not sealed", "start it with the options that are named"),
    Code("R116", "there is no such container", "`docker ps` lists the containers"),
    Code("R117", "a command does not start in the sandbox in time", "look in the sandbox for what stops processes or keeps the program's file busy; or `hostctl stop S`"),
    Code("R118", "the sandbox may hold work that was pushed nowhere", "`hostctl rescue S` saves it; `hostctl rm --force S` removes it unseen"),
    # C1xx: control sockets
    Code("C101", "the control socket is not safe to use", "its directory must be ours, not writable by others, and free of symlinks"),
    Code("C102", "not permitted", "run hostctl as root"),
    Code("C103", "the daemon is not running", "start it with `hostctl up`"),
    Code("C104", "the address is in use", "stop what listens there, or set another as listen.address in broker.toml and broker.address in hostd.toml"),
    Code("C105", "the request is not understood", "use the hostctl of the same version"),
    Code("C106", "the daemon does not answer in time", "see its log in var/log/gitmoat"),
    Code("C107", "something failed that should not", "-vv shows where; please report it"),
    Code("C109", "something of this name exists already", "choose another name"),
    Code("C110", "nothing of this name exists", "`ls` of the same command lists what there is"),
    Code("C111", "something else needs it", "change or remove that first"),
)
# fmt: on

CODES: Mapping[str, Code] = MappingProxyType({code.id: code for code in _TABLE})
