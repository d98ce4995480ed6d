#!/usr/bin/env bash
# The two official programs for Jsonnet give one program two results where it reads YAML (`std.parseYaml`). To the one in Go (PyPI gojsonnet 0.22.0) `yes` is true, a
# file's mode 0644 is 420 and `~` is null, as kubectl reads them. To the one in C++ (PyPI jsonnet 0.22.0) all three are texts, `!!str 5` is the number 5,
# and an alias is not followed: the text is `*image`, so that a manifest has that for its image. Nothing is said. Both are called
# `jsonnet` where they are installed. Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check jsonnet==0.22.0 gojsonnet==0.22.0
cat >values.yaml <<'YAML'
image: &image carts:7
sidecar: *image
debug: yes
mode: 0644
proxy: ~
port: !!str 5
replicas: 2
YAML
venv/bin/python - <<'PYTHON'
import json
from importlib.metadata import version

import _gojsonnet
import _jsonnet

read = "std.parseYaml(importstr 'values.yaml')"
cpp, go = (json.loads(module.evaluate_snippet("values.jsonnet", read)) for module in (_jsonnet, _gojsonnet))
print("C++", version("jsonnet"), cpp)
print("Go", version("gojsonnet"), go)
same = {"image": "carts:7", "replicas": 2}
assert cpp == same | {"sidecar": "*image", "debug": "yes", "mode": "0644", "proxy": "~", "port": 5}, cpp
assert go == same | {"sidecar": "carts:7", "debug": True, "mode": 420, "proxy": None, "port": "5"}, go
PYTHON
