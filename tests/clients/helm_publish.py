""".ci/charts publishes to a registry of this script's own, and what comes back from there is the charts.

Usage: helm_publish.py, in the environment of the Helm engine.
"""

import os
import subprocess
import sys
import tempfile

import helm_python as helm
import registry

TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
remote = f"oci://{registry.start()}/platform/charts"

with tempfile.TemporaryDirectory() as folder:
    # Its name on people's command lines.
    shim = os.path.join(folder, "helm")
    with open(shim, "w") as file:
        cli = os.path.join(os.path.dirname(os.path.abspath(__file__)), "helm_cli.py")
        file.write(f'#!/bin/sh\nexec "{sys.executable}" -B "{cli}" "$@"\n')
    os.chmod(shim, 0o755)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "PLAIN_HTTP": "1"}
    script = os.path.join(TOP, ".ci/charts")
    wrong = subprocess.run([script, "registry.example.com"], env=environment, capture_output=True, text=True)
    assert wrong.returncode == 2 and "oci://HOST/PATH" in wrong.stderr, wrong
    subprocess.run([script, remote, "7.8.9"], env=environment, check=True)

    assert {name for name, _ in registry.MANIFESTS} == {"platform/charts/codebutler-crds", "platform/charts/codebutler"}
    for name in ["codebutler-crds", "codebutler"]:
        pulled = helm.pull(f"{remote}/{name}", version="7.8.9", destination=folder, plain_http=True)
        archive = pulled if isinstance(pulled, str) and pulled.endswith(".tgz") else os.path.join(folder, f"{name}-7.8.9.tgz")
        there, here = helm.Chart.load(archive), helm.Chart.load(os.path.join(TOP, "charts", name))
        assert there.metadata["version"] == "7.8.9", there.metadata
        rendered, expected = there.render({}), here.render({})
        version = here.metadata["version"]
        for path, text in expected.items():
            assert rendered[path].replace("7.8.9", version) == text, path
