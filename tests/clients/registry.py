"""A registry of a script's own, on a loopback port."""

import hashlib
import http.server
import re
import threading
import uuid

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
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        data = b""
        while length := int(self.rfile.readline().split(b";")[0], 16):
            data += self.rfile.read(length)
            self.rfile.readline()
        self.rfile.readline()
        return data

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


def start():
    """`HOST:PORT` of one that lives as long as the script."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"127.0.0.1:{server.server_port}"
