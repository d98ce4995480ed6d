#!/usr/bin/env bash
# A client of Kubernetes for Python (PyPI lightkube 1.0.1, `parse_quantity`) refuses the amounts in which metrics.k8s.io says what a pod uses of the CPU, such
# as `4763587n` or `250u`, and `1E3`, which is a thousand to Kubernetes. It rounds `1.5m` up, as Kubernetes does. So all that works on limits and
# requests fails on what `kubectl top` shows. The official client (kubernetes 37.0.2) reads them all. Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check lightkube==1.0.1 kubernetes==37.0.2
venv/bin/python - <<'PYTHON'
from decimal import Decimal
from importlib.metadata import version

from kubernetes.utils.quantity import parse_quantity as official
from lightkube.utils.quantity import parse_quantity

print({name: version(name) for name in ("lightkube", "kubernetes")})
for text, value in {"4763587n": "0.004763587", "250u": "0.00025", "1E3": "1000"}.items():
    assert official(text) == Decimal(value), official(text)
    try:
        raise SystemExit(f"read: {parse_quantity(text)}")
    except ValueError as error:
        print(text, error)
        assert "Invalid unit suffix" in str(error)
assert (parse_quantity("250m"), parse_quantity("1.5m"), parse_quantity("1e3")) == (Decimal("0.25"), Decimal("0.002"), 1000)
PYTHON
