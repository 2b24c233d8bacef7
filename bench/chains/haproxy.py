"""Two haproxy, with connections kept and shared."""

from __future__ import annotations

from bench.chains.way import Setting, Way
from bench.processes import free_port

NAME = "haproxy"
_COMMON = """
global
  maxconn 4096
defaults
  mode http
  option http-keep-alive
  http-reuse always
  timeout connect 5s
  timeout client 600s
  timeout server 600s
  timeout http-keep-alive 600s
"""


def start(setting: Setting) -> Way:
    first, second = free_port(), free_port()
    authority = setting.authority
    verify = f"ssl verify required ca-file {authority.ca} verifyhost localhost sni str(localhost)"
    hop2 = f"""
frontend in
  bind 127.0.0.1:{second} ssl crt {authority.both("server")} ca-file {authority.ca} verify required
  http-request set-header Authorization "{setting.upstream.authorization}"
  default_backend out
backend out
  server next 127.0.0.1:{setting.upstream.port} {verify}
"""
    hop1 = f"""
frontend in
  bind 127.0.0.1:{first}
  default_backend out
backend out
  server next 127.0.0.1:{second} {verify} crt {authority.both("client")}
"""
    hops = {}
    for name, text, port in (("hop2", hop2, second), ("hop1", hop1, first)):
        config = setting.directory / f"{name}.cfg"
        config.write_text(_COMMON + text)
        command = ["haproxy", "-db", "-f", str(config)]
        hops[name] = setting.programs.start(f"haproxy-{name}", command, port)
    return Way(NAME, f"http://127.0.0.1:{first}", {"hop1": hops["hop1"], "hop2": hops["hop2"]})
