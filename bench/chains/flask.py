"""Two Flask applications behind gunicorn that stream: what one writes in an afternoon."""

from __future__ import annotations

import json

from bench.chains.way import Setting, Way
from bench.processes import free_port

NAME = "flask"
# Its settings are in a file beside it, because the credential is among them.
_APP = r"""
import json, pathlib
import flask, requests
from requests.adapters import HTTPAdapter

app = flask.Flask(__name__)
settings = json.loads(pathlib.Path(__file__).with_suffix(".json").read_text())
session = requests.Session()
session.trust_env = False
session.verify = settings["ca"]
session.cert = settings["cert"] and tuple(settings["cert"])
session.mount("https://", HTTPAdapter(pool_connections=4, pool_maxsize=256))
NOT_PASSED = {"connection", "keep-alive", "transfer-encoding", "host", "content-length"}

def body():
    while piece := flask.request.stream.read(128 * 1024):
        yield piece

@app.route("/<path:path>", methods=["GET", "POST"])
def relay(path):
    headers = {k: v for k, v in flask.request.headers if k.lower() not in NOT_PASSED}
    headers.update(settings["headers"])
    if flask.request.method == "POST":
        headers["Connection"] = "close"  # a kept one may be gone, and a stream is sent only once
    answer = session.request(
        flask.request.method, settings["onwards"] + flask.request.full_path.rstrip("?"),
        headers=headers, data=body() if flask.request.method == "POST" else None, stream=True,
        allow_redirects=False,
    )
    kept = [(k, v) for k, v in answer.headers.items() if k.lower() not in NOT_PASSED]
    pieces = answer.raw.stream(128 * 1024, decode_content=False)
    return flask.Response(pieces, answer.status_code, kept)
"""


def start(setting: Setting) -> Way:
    first, second = free_port(), free_port()
    authority, directory = setting.authority, setting.directory
    shown = [str(authority.certificate("client")), str(authority.key("client"))]
    common: dict[str, object] = {"ca": str(authority.ca), "cert": None, "headers": {}}
    secret = {"Authorization": setting.upstream.authorization}
    onwards = f"https://localhost:{setting.upstream.port}"
    tls = ["--certfile", str(authority.certificate("server")), "--cert-reqs", "2"]
    tls += ["--keyfile", str(authority.key("server")), "--ca-certs", str(authority.ca)]
    hops = {}
    for name, about, port, words in (
        ("hop2", {"onwards": onwards, "headers": secret}, second, tls),
        ("hop1", {"onwards": f"https://localhost:{second}", "cert": shown}, first, []),
    ):
        (directory / f"{name}.py").write_text(_APP)
        (directory / f"{name}.json").write_text(json.dumps(common | about))
        command = [str(setting.python), "-m", "gunicorn", "--chdir", str(directory)]
        command += [
            "-b",
            f"127.0.0.1:{port}",
            "-w",
            "2",
            "-k",
            "gthread",
            "--threads",
            "100",
            "--no-control-socket",
        ]
        command += ["--keep-alive", "600", "--timeout", "600", *words, f"{name}:app"]
        hops[name] = setting.programs.start(f"flask-{name}", command, port)
    hops = {"hop1": hops["hop1"], "hop2": hops["hop2"]}
    return Way(NAME, f"http://127.0.0.1:{first}", hops, slow=True)
