"""Two nginx that stream in both directions, and keep their connections unless told not to."""

from __future__ import annotations

from pathlib import Path

from bench.chains.way import Setting, Way
from bench.nginx import beginning
from bench.processes import free_port

NAME = "nginx"
# It keeps connections to an upstream for everybody, ours serve one session and one credential each:
# in our place it would make one for each request. What the first hop keeps is one sandbox's anyway.
FIRST_KEPT = "nginx, first hop kept"
# As its configuration is unless somebody thinks of it.
NONE_KEPT = "nginx, none kept"
_KEEPS = {NAME: ("hop1", "hop2"), FIRST_KEPT: ("hop1",), NONE_KEPT: ()}
_KEEP = """
    keepalive 256;
    keepalive_requests 10000000;"""


def start(setting: Setting, name: str = NAME) -> Way:
    first, second = free_port(), free_port()
    directory, authority = setting.directory, setting.authority
    hop2 = f"""
    listen 127.0.0.1:{second} ssl backlog=4096;
    ssl_certificate {authority.certificate("server")};
    ssl_certificate_key {authority.key("server")};
    ssl_protocols TLSv1.3;
    ssl_client_certificate {authority.ca};
    ssl_verify_client on;
    location / {{
      proxy_set_header Authorization "{setting.upstream.authorization}";
      {_onwards(setting)}
    }}"""
    hop1 = f"""
    listen 127.0.0.1:{first} backlog=4096;
    location / {{
      proxy_ssl_certificate {authority.certificate("client")};
      proxy_ssl_certificate_key {authority.key("client")};
      {_onwards(setting)}
    }}"""
    hops = {}
    for hop, server, onwards, port in (
        ("hop2", hop2, setting.upstream.port, second),
        ("hop1", hop1, second, first),
    ):
        place = directory / hop
        place.mkdir()
        config = place / "nginx.conf"
        keep = _KEEP if hop in _KEEPS[name] else ""
        config.write_text(_config(place, server, onwards, keep))
        command = ["nginx", "-p", str(place), "-c", str(config), "-g", "daemon off;"]
        hops[hop] = setting.programs.start(f"{directory.name}-{hop}", command, port)
    return Way(name, f"http://127.0.0.1:{first}", {"hop1": hops["hop1"], "hop2": hops["hop2"]})


def _onwards(setting: Setting) -> str:
    return f"""proxy_pass https://next;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_ssl_protocols TLSv1.3;
      proxy_ssl_verify on;
      proxy_ssl_name localhost;
      proxy_ssl_trusted_certificate {setting.authority.ca};
      proxy_request_buffering off;
      proxy_buffer_size 64k;
      proxy_buffers 16 64k;
      proxy_max_temp_file_size 0;
      proxy_read_timeout 600;"""


def _config(place: Path, server: str, onwards: int, keep: str) -> str:
    return f"""
{beginning(place)}
  client_max_body_size 0;
  client_body_buffer_size 128k;
  keepalive_requests 10000000;
  keepalive_timeout 600;
  upstream next {{
    server 127.0.0.1:{onwards};{keep}
  }}
  server {{{server}
  }}
}}
"""
