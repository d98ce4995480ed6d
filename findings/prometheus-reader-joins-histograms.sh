#!/usr/bin/env bash
# A reader of Prometheus' text format for JavaScript (npm parse-prometheus-text-format 1.1.1) makes one histogram of all those that differ by a
# label alone: what is left has the buckets of the last one, no label, no sum and no count. The same goes for summaries with quantiles. Counters and
# gauges keep their labels. The Python client reads each sample with its own. Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund --ignore-scripts parse-prometheus-text-format@1.1.1 >/dev/null
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check prometheus_client==0.26.0
cat >metrics <<'METRICS'
# TYPE answers_total counter
answers_total{role="coder"} 2
answers_total{role="tester"} 20
# TYPE wait_seconds histogram
wait_seconds_bucket{role="coder",le="1"} 1
wait_seconds_bucket{role="coder",le="+Inf"} 2
wait_seconds_sum{role="coder"} 3
wait_seconds_count{role="coder"} 2
wait_seconds_bucket{role="tester",le="1"} 10
wait_seconds_bucket{role="tester",le="+Inf"} 20
wait_seconds_sum{role="tester"} 30
wait_seconds_count{role="tester"} 20
METRICS
cat >read.mjs <<'JS'
import assert from "node:assert";
import { readFileSync } from "node:fs";
import reader from "parse-prometheus-text-format";
const [counter, histogram] = (reader.default ?? reader)(readFileSync("metrics", "utf8"));
console.log("parse-prometheus-text-format 1.1.1", JSON.stringify([counter.metrics, histogram.metrics]));
assert.equal(counter.metrics.length, 2);
assert.deepEqual(histogram.metrics, [{ buckets: { 1: "10", "+Inf": "20" } }]);
JS
node read.mjs
venv/bin/python - <<'PYTHON'
from importlib.metadata import version

from prometheus_client.parser import text_string_to_metric_families

_, histogram = text_string_to_metric_families(open("metrics").read())
counts = {sample.labels["role"]: sample.value for sample in histogram.samples if sample.name.endswith("_count")}
print("prometheus_client", version("prometheus_client"), counts)
assert counts == {"coder": 2, "tester": 20}, counts
PYTHON
