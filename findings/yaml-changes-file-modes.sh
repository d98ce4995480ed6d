#!/usr/bin/env bash
# The usual editor of YAML that keeps comments (npm yaml 2.9.1, `parseDocument` and `toString`) writes numbers anew in lines that nobody touched: a
# file's mode `0644`, to it a decimal number as in YAML 1.2, becomes `644`. To Helm, which reads YAML as kubectl does, the first is 420 and the second
# 644, that is 01204: a file whose owner may write it and not read it. Neither an error nor a warning is given. Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund --ignore-scripts yaml@2.9.1 >/dev/null
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check helm-python-sdk==0.2.2
cat >before.yaml <<'YAML'
replicas: 1
volume:
  secret:
    defaultMode: 0644
YAML
cat >edit.mjs <<'JS'
import assert from "node:assert";
import { readFileSync, writeFileSync } from "node:fs";
import { parseDocument } from "yaml";
const document = parseDocument(readFileSync("before.yaml", "utf8"));
assert.deepEqual([document.errors, document.warnings], [[], []]);
document.set("replicas", 2);
writeFileSync("after.yaml", document.toString());
JS
node edit.mjs
diff before.yaml after.yaml && exit 1
venv/bin/python - <<'PYTHON'
import helm_python

modes = [helm_python.values_from_yaml(open(name).read())["volume"]["secret"]["defaultMode"] for name in ("before.yaml", "after.yaml")]
print("Helm, before and after:", modes)
assert modes == [0o644, 0o1204], modes
PYTHON
[ "$(grep -v replicas after.yaml | tr -d '\n ')" = 'volume:secret:defaultMode:644' ]
