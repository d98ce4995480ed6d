#!/usr/bin/env bash
# The YAML library whose purpose is to keep a file as it is (PyPI ruamel.yaml 0.19.1, `YAML()`, which reads and writes "round trip") makes `.inf` of a short
# commit hash such as `1234e567` or `7e654321`, and another number of `0e12345` and of long decimals, in lines that nobody touched: it takes them for
# floats, and writes what the float has kept. To PyYAML, whose rules are older, such a hash is a text before and infinity afterwards: a file with tags
# of images, of which a bot changes one, names another image for the rest. Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check ruamel.yaml==0.19.1 PyYAML==6.0.4
venv/bin/python - <<'PYTHON'
import io
from importlib.metadata import version

import yaml
from ruamel.yaml import YAML

before = """\
replicas: 1
image:
  tag: 1234e567  # built from main
  debug: 7e654321
  base: 0e12345
  price: 123456789.123456789123
"""
document = YAML().load(before)
document["replicas"] = 2
out = io.StringIO()
YAML().dump(document, out)
print(f"ruamel.yaml {version('ruamel.yaml')}\n{out.getvalue()}")
print(f"PyYAML {version('PyYAML')}", yaml.safe_load(before)["image"])
assert out.getvalue() == """\
replicas: 2
image:
  tag: .inf      # built from main
  debug: .inf
  base: 0e00000
  price: 123456789.123456791043
""", out.getvalue()
assert [yaml.safe_load(before)["image"][key] for key in ("tag", "debug", "base")] == ["1234e567", "7e654321", "0e12345"]
assert yaml.safe_load(out.getvalue())["image"]["tag"] == float("inf")
PYTHON
