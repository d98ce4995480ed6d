#!/usr/bin/env bash
# The official Kubernetes client for JavaScript (npm @kubernetes/client-node 1.4.0, loadYaml) writes a date that a manifest has without quotes anew: the
# label `release: 2026-01-01` becomes `2026-01-01T00:00:00.000Z`, which no label may be, and an annotation or a field of a custom resource silently
# becomes another text. Helm, which reads YAML as kubectl does, and the Python client keep it as it is written. Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund --ignore-scripts @kubernetes/client-node@1.4.0 >/dev/null
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check helm-python-sdk==0.2.2 kubernetes==37.0.2
cat >manifest.yaml <<'YAML'
apiVersion: v1
kind: ConfigMap
metadata:
  name: carts
  labels: {release: 2026-01-01}
  annotations: {reviewed: 2026-01-01T09:00:00+02:00}
YAML
cat >read.mjs <<'JS'
import assert from "node:assert";
import { readFileSync } from "node:fs";
import { loadYaml } from "@kubernetes/client-node";
const { labels, annotations } = JSON.parse(JSON.stringify(loadYaml(readFileSync("manifest.yaml", "utf8")))).metadata;
console.log("client-node 1.4.0", labels, annotations);
assert.deepEqual([labels.release, annotations.reviewed], ["2026-01-01T00:00:00.000Z", "2026-01-01T07:00:00.000Z"]);
JS
node read.mjs
venv/bin/python - <<'PYTHON'
from importlib.metadata import version

import helm_python
import yaml
from kubernetes import client

text = open("manifest.yaml").read()
helm = helm_python.values_from_yaml(text)["metadata"]
python = client.ApiClient().sanitize_for_serialization(yaml.safe_load(text))["metadata"]
print("Helm", helm["labels"], helm["annotations"], "Python client", version("kubernetes"), python["labels"], python["annotations"])
for read in (helm, python):
    assert (read["labels"]["release"], read["annotations"]["reviewed"]) == ("2026-01-01", "2026-01-01T09:00:00+02:00"), read
PYTHON
