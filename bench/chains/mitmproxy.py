"""Two mitmdump in reverse mode that stream."""

from __future__ import annotations

from bench.chains.way import Setting, Way
from bench.processes import free_port

NAME = "mitmproxy"


def start(setting: Setting) -> Way:
    first, second = free_port(), free_port()
    authority, directory = setting.authority, setting.directory
    header = directory / "authorization"
    header.write_text(setting.upstream.authorization)
    hop2 = [
        *("--certs", f"*={authority.both('server')}", "--set", "request_client_cert=true"),
        *("--modify-headers", f"/~q/Authorization/@{header}"),
    ]
    hop1 = ["--set", f"client_certs={authority.both('client')}"]
    program = str(setting.python.with_name("mitmdump"))
    hops = {}
    for name, words, port, onwards in (
        ("hop2", hop2, second, setting.upstream.port),
        ("hop1", hop1, first, second),
    ):
        command = [program, "-q", "--listen-host", "127.0.0.1", "--listen-port", str(port)]
        command += ["--mode", f"reverse:https://localhost:{onwards}", "--set", "http2=false"]
        command += ["--set", f"confdir={directory / name}", "--set", "stream_large_bodies=1"]
        command += ["--set", f"ssl_verify_upstream_trusted_ca={authority.ca}", *words]
        hops[name] = setting.programs.start(f"mitmproxy-{name}", command, port)
    hops = {"hop1": hops["hop1"], "hop2": hops["hop2"]}
    return Way(NAME, f"http://127.0.0.1:{first}", hops, slow=True)
