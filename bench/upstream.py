"""The git server at the end of every way: nginx with TLS before git-http-backend.

Beside real repositories there are fake ones whose answers are files, so that what is measured is
the way to them: `fake/small.git` (a small advertisement), `fake/download.git` (a long answer),
`fake/upload.git` (a push that is thrown away), `fake/stall.git` (an answer that stops) and
`fake/broken.git` (the server's own failure).
"""

from __future__ import annotations

import base64
import secrets
import sys
from pathlib import Path

from attrs import frozen

from bench.authority import Authority
from bench.nginx import beginning
from bench.processes import Programs, free_port

USER = "bench"
_ADVERTISEMENT = "application/x-git-upload-pack-advertisement"
_RESULT = "application/x-git-upload-pack-result"
_PACKET = b"fff0\x01" + bytes(range(256)) * 255 + bytes(235)  # 65520 bytes, as git sends them


@frozen
class Upstream:
    port: int
    password: str
    repositories: Path
    authority: Authority

    @property
    def authorization(self) -> str:
        pair = f"{USER}:{self.password}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"


def start_upstream(programs: Programs, authority: Authority, directory: Path, raw: int) -> Upstream:
    repositories = directory / "repositories"
    repositories.mkdir(parents=True)
    files = directory / "files"
    files.mkdir()
    (files / "refs").write_bytes(_advertisement(40))
    write_answer(files / "download", raw)
    upstream = Upstream(free_port(), secrets.token_hex(16), repositories, authority)
    take, stall, socket = free_port(), free_port(), directory / "fcgi.sock"
    sink = str(Path(__file__).with_name("sink.py"))
    programs.start("sink", [sys.executable, "-I", sink, str(take), str(stall)], stall)
    programs.start("fcgiwrap", ["fcgiwrap", "-c", "8", "-s", f"unix:{socket}"])
    config = directory / "nginx.conf"
    config.write_text(_config(upstream, directory, take, stall))
    command = ["nginx", "-p", str(directory), "-c", str(config), "-g", "daemon off;"]
    programs.start("upstream", command, upstream.port)
    return upstream


def write_answer(path: Path, size: int) -> None:
    """What upload-pack sends with side-band-64k: a pack in packets, then a flush."""
    with path.open("wb") as file:
        for _ in range(size // len(_PACKET)):
            file.write(_PACKET)
        file.write(b"0000")


def _advertisement(refs: int) -> bytes:
    lines = [b"# service=git-upload-pack\n", None]
    lines += [b"%040x refs/heads/branch-%d\n" % (number, number) for number in range(refs)]
    lines.append(None)
    return b"".join(b"0000" if x is None else b"%04x%b" % (len(x) + 4, x) for x in lines)


def _config(upstream: Upstream, directory: Path, take: int, stall: int) -> str:
    authority, files = upstream.authority, directory / "files"
    return f"""
{beginning(directory)}
  default_type application/octet-stream;
  client_max_body_size 0;
  keepalive_requests 10000000;
  keepalive_timeout 600;
  output_buffers 4 128k;
  server {{
    listen 127.0.0.1:{upstream.port} ssl backlog=4096;
    ssl_certificate {authority.certificate("server")};
    ssl_certificate_key {authority.key("server")};
    ssl_protocols TLSv1.3;
    if ($http_authorization != "{upstream.authorization}") {{ return 401; }}
    location ^~ /fake/broken.git/ {{ return 500; }}
    location = /fake/small.git/info/refs {{
      alias {files}/refs;
      types {{ }}
      default_type {_ADVERTISEMENT};
    }}
    location = /fake/download.git/git-upload-pack {{
      alias {files}/download;
      types {{ }}
      default_type {_RESULT};
      error_page 405 =200 $uri;
    }}
    location = /fake/upload.git/git-receive-pack {{
      proxy_pass http://127.0.0.1:{take};
      proxy_http_version 1.1;
      proxy_request_buffering off;
    }}
    location = /fake/stall.git/git-upload-pack {{
      proxy_pass http://127.0.0.1:{stall};
      proxy_http_version 1.1;
      proxy_buffering off;
    }}
    location ~ \\.git/(info/refs|git-upload-pack|git-receive-pack)$ {{
      fastcgi_pass unix:{directory}/fcgi.sock;
      fastcgi_request_buffering off;
      fastcgi_buffers 32 64k;
      fastcgi_buffer_size 64k;
      fastcgi_max_temp_file_size 0;
      fastcgi_read_timeout 600;
      fastcgi_param SCRIPT_FILENAME /usr/lib/git-core/git-http-backend;
      fastcgi_param GIT_PROJECT_ROOT {upstream.repositories};
      fastcgi_param GIT_HTTP_EXPORT_ALL 1;
      fastcgi_param HOME {directory};
      fastcgi_param REMOTE_USER {USER};
      fastcgi_param PATH_INFO $uri;
      fastcgi_param QUERY_STRING $query_string;
      fastcgi_param REQUEST_METHOD $request_method;
      fastcgi_param CONTENT_TYPE $content_type;
      fastcgi_param CONTENT_LENGTH $content_length;
      fastcgi_param HTTP_CONTENT_ENCODING $http_content_encoding;
      fastcgi_param GIT_PROTOCOL $http_git_protocol;
    }}
  }}
}}
"""
