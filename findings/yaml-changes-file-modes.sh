#!/usr/bin/env bash
# The usual editor of YAML that keeps comments (npm yaml 2.9.1, `parseDocument` and `toString`) writes numbers of lines that nobody touched anew: a
# file's mode `0644`, to it a decimal number as in YAML 1.2, becomes `644`. To Helm, which reads YAML as kubectl does, the first is 420 and the second
# 644, that is 01204: a file whose owner may write it and not read it. A short commit hash without quotes, `1234e567`, becomes `.inf`: to Helm it was
# a text, and now it refuses the whole file. Neither an error nor a warning is given. Exits non-zero if that changes.
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
image:
  tag: 1234e567
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


def read(text):
    try:
        return helm_python.values_from_yaml(text)
    except helm_python.errors.HelmValuesError as error:
        return str(error)


before, after = open("before.yaml").read(), open("after.yaml").read()
whole, without_tag = read(after), read(after.split("image:")[0])
values = read(before)
print("Helm before:", values, "after:", whole, "without the tag:", without_tag)
assert values["volume"]["secret"]["defaultMode"] == 0o644 and values["image"]["tag"] == "1234e567"
assert without_tag["volume"]["secret"]["defaultMode"] == 0o1204
assert "unsupported value: +Inf" in whole
PYTHON
[ "$(grep -v replicas after.yaml | tr -d '\n ')" = 'volume:secret:defaultMode:644image:tag:.inf' ]
