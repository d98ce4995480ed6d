""".ci/charts publishes to a registry of this script's own, and what comes back from there is the charts.

Usage: helm_publish.py, in the environment of the Helm engine.
"""

import hashlib
import http.server
import os
import re
import subprocess
import sys
import tempfile
import threading
import uuid

import helm_python as helm

TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
BLOBS, MANIFESTS, UPLOADS = {}, {}, {}


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


class Registry(http.server.BaseHTTPRequestHandler):
    """As much of the OCI distribution specification as a push and a pull need."""

    protocol_version = "HTTP/1.1"

    def answer(self, code, body=b"", **headers):
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def do_GET(self):
        path = self.path.partition("?")[0]
        if path == "/v2/":
            return self.answer(200)
        if found := re.fullmatch(r"/v2/(.+)/blobs/(sha256:.+)", path):
            data = BLOBS.get(found[2])
            return self.answer(404) if data is None else self.answer(200, data, Docker_Content_Digest=found[2])
        if found := re.fullmatch(r"/v2/(.+)/manifests/(.+)", path):
            kind, data = MANIFESTS.get((found[1], found[2]), (None, None))
            if data is None:
                return self.answer(404)
            return self.answer(200, data, Content_Type=kind, Docker_Content_Digest=digest(data))
        if found := re.fullmatch(r"/v2/(.+)/tags/list", path):
            tags = [tag for name, tag in MANIFESTS if name == found[1] and not tag.startswith("sha256:")]
            return self.answer(200, ('{"tags": ["' + '","'.join(tags) + '"]}').encode())
        self.answer(404)

    do_HEAD = do_GET

    def do_POST(self):
        self.body()
        upload = uuid.uuid4().hex
        UPLOADS[upload] = b""
        name = re.match(r"/v2/(.+)/blobs/uploads/", self.path)[1]
        self.answer(202, Location=f"/v2/{name}/blobs/uploads/{upload}")

    def do_PATCH(self):
        UPLOADS[self.path.rpartition("/")[2].partition("?")[0]] += self.body()
        self.answer(202, Location=self.path)

    def do_PUT(self):
        data, path = self.body(), self.path.partition("?")[0]
        if found := re.fullmatch(r"/v2/(.+)/manifests/(.+)", path):
            for reference in (found[2], digest(data)):
                MANIFESTS[found[1], reference] = (self.headers["Content-Type"], data)
            return self.answer(201, Docker_Content_Digest=digest(data))
        data = UPLOADS.pop(path.rpartition("/")[2]) + data
        BLOBS[digest(data)] = data
        self.answer(201, Docker_Content_Digest=digest(data))

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry)
threading.Thread(target=server.serve_forever, daemon=True).start()
remote = f"oci://127.0.0.1:{server.server_port}/platform/charts"

with tempfile.TemporaryDirectory() as folder:
    # Its name on people's command lines.
    shim = os.path.join(folder, "helm")
    with open(shim, "w") as file:
        cli = os.path.join(os.path.dirname(os.path.abspath(__file__)), "helm_cli.py")
        file.write(f'#!/bin/sh\nexec "{sys.executable}" -B "{cli}" "$@"\n')
    os.chmod(shim, 0o755)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "PLAIN_HTTP": "1"}
    script = os.path.join(TOP, ".ci/charts")
    wrong = subprocess.run([script, "registry.example.com"], env=environment, capture_output=True, text=True)
    assert wrong.returncode == 2 and "oci://HOST/PATH" in wrong.stderr, wrong
    subprocess.run([script, remote, "7.8.9"], env=environment, check=True)

    assert {name for name, _ in MANIFESTS} == {"platform/charts/codebutler-crds", "platform/charts/codebutler"}
    for name in ["codebutler-crds", "codebutler"]:
        pulled = helm.pull(f"{remote}/{name}", version="7.8.9", destination=folder, plain_http=True)
        archive = pulled if isinstance(pulled, str) and pulled.endswith(".tgz") else os.path.join(folder, f"{name}-7.8.9.tgz")
        there, here = helm.Chart.load(archive), helm.Chart.load(os.path.join(TOP, "charts", name))
        assert there.metadata["version"] == "7.8.9", there.metadata
        rendered, expected = there.render({}), here.render({})
        version = here.metadata["version"]
        for path, text in expected.items():
            assert rendered[path].replace("7.8.9", version) == text, path
