#!/usr/bin/env bash
# `OTEL_EXPORTER_OTLP_TIMEOUT` is milliseconds by OpenTelemetry's specification, and to its exporter for JavaScript (npm
# @opentelemetry/exporter-trace-otlp-http 0.223.1). To the one for Python (PyPI opentelemetry-exporter-otlp-proto-http 1.45.2) it is seconds: with 1000, set
# once for all pods, an export in JavaScript ends after a second, and one in Python would wait for a quarter of an hour. With 10, as fits Python, one in
# JavaScript has 10 ms. Seen with a collector that answers after three seconds. Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund --ignore-scripts @opentelemetry/api@1.9.1 @opentelemetry/exporter-trace-otlp-http@0.223.1 >/dev/null
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check opentelemetry-sdk==1.45.2 opentelemetry-exporter-otlp-proto-http==1.45.2
cat >export.cjs <<'JS'
const { OTLPTraceExporter } = require("@opentelemetry/exporter-trace-otlp-http");
const start = Date.now();
new OTLPTraceExporter().export([], ({ code, error }) => {
  console.log(JSON.stringify({ failed: code !== 0, seconds: (Date.now() - start) / 1000, error: error?.message }));
  process.exit(0);
});
JS
cat >export.py <<'PYTHON'
import json
import os
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version


class SlowCollector(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        time.sleep(3)
        try:
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()
        except OSError:
            pass  # The client has gone.

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), SlowCollector)
threading.Thread(target=server.serve_forever, daemon=True).start()
os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://127.0.0.1:{server.server_port}"
os.environ["OTEL_EXPORTER_OTLP_TIMEOUT"] = "1000"

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import SpanExportResult

start = time.monotonic()
result = OTLPSpanExporter().export([])
waited = time.monotonic() - start
print("Python", version("opentelemetry-exporter-otlp-proto-http"), result, f"after {waited:.1f} s")
assert result is SpanExportResult.SUCCESS and waited >= 3, (result, waited)
script = json.loads(subprocess.run(["node", "export.cjs"], capture_output=True, text=True, check=True).stdout.splitlines()[-1])
print("JavaScript 0.223.1", script)
assert script["failed"] and 0.9 <= script["seconds"] < 3, script
PYTHON
venv/bin/python export.py
