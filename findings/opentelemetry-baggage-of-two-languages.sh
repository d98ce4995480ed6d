#!/usr/bin/env bash
# OpenTelemetry's libraries for two languages read each other's baggage (W3C) as something else. Python (PyPI opentelemetry-api 1.45.2) writes a blank as `+`, as
# forms do, and JavaScript (npm @opentelemetry/core 2.12.1) keeps that `+`: `data science` arrives as `data+science`. The other way round, a `+` that W3C
# allows as it is, as in `C++` or in a time zone, is a blank to Python, and `C++` arrives as `C`. Within one language nothing is lost, so a test of one
# service passes. Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund --ignore-scripts @opentelemetry/api@1.9.1 @opentelemetry/core@2.12.1 >/dev/null
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check opentelemetry-api==1.45.2
cat >carry.py <<'PYTHON'
import sys
from importlib.metadata import version

from opentelemetry.baggage import get_baggage, set_baggage
from opentelemetry.baggage.propagation import W3CBaggagePropagator

baggage = W3CBaggagePropagator()
if sys.argv[1] == "write":
    carrier = {}
    baggage.inject(carrier, set_baggage("team", sys.argv[2]))
    print(carrier["baggage"])
else:
    print(get_baggage("team", baggage.extract({"baggage": sys.argv[2]})))
PYTHON
cat >carry.cjs <<'JS'
const { ROOT_CONTEXT, defaultTextMapGetter, defaultTextMapSetter, propagation } = require("@opentelemetry/api");
const { W3CBaggagePropagator } = require("@opentelemetry/core");
const [way, text] = process.argv.slice(2);
const baggage = new W3CBaggagePropagator();
if (way === "write") {
  const carrier = {};
  const context = propagation.setBaggage(ROOT_CONTEXT, propagation.createBaggage({ team: { value: text } }));
  baggage.inject(context, carrier, defaultTextMapSetter);
  console.log(carrier.baggage);
} else {
  const context = baggage.extract(ROOT_CONTEXT, { baggage: text }, defaultTextMapGetter);
  console.log(propagation.getBaggage(context).getEntry("team").value);
}
JS
python() { venv/bin/python carry.py "$@"; }
script() { node carry.cjs "$@"; }
seen() { printf '%-40s %s\n' "$1" "$2"; [ "$2" = "$3" ]; }
seen 'Python writes' "$(python write 'data science')" team=data+science
seen 'JavaScript reads that' "$(script read team=data+science)" data+science
seen 'Python reads that' "$(python read team=data+science)" 'data science'
seen 'Python reads team=C++' "$(python read team=C++)" C
seen 'JavaScript reads team=C++' "$(script read team=C++)" C++
seen 'JavaScript writes' "$(script write 'data science')" team=data%20science
