"""Installs or uninstalls the product's chart, as its users do.

Usage: helm_run.py CHARTS_DIR NAMESPACE install VALUES_JSON | uninstall, with KUBECONFIG set.
"""

import json
import os
import sys

import helm_python as helm

charts, namespace, action = sys.argv[1:4]
kube = helm.Config(kubeconfig_path=os.environ["KUBECONFIG"], namespace=namespace)
if action == "install":
    kube.install(os.path.join(charts, "codebutler"), "codebutler", json.loads(sys.argv[4]))
else:
    kube.uninstall("codebutler")
