"""Scans manifests with checkov, as a platform team's pipeline does.

Usage: manifest_scan.py FOLDER, with one file for each group of objects. Exits 1 at anything that is found and not
in the list below, at an entry of the list that excuses nothing, and at a file that was not read.
"""

import json
import os
import subprocess
import sys

import yaml

FOLDER = sys.argv[1]
COMPONENTS = {"Deployment.codebutler-controller", "Deployment.codebutler-gateway"}
AGENT = {"Pod.agent"}
# What is found and stays, by check: where, and why.
ACCEPTED = {
    "CKV_K8S_9": (AGENT, "Nobody connects to an agent, so nobody waits until it is ready: it has no Service and no port."),
    "CKV_K8S_11": (COMPONENTS | AGENT, "A CPU limit slows what runs alone on a node. Memory is limited; requests share the processor."),
    "CKV_K8S_15": (COMPONENTS | AGENT, "Images are those of a version or a digest: asking for them again at each start makes the registry a part of it."),
    "CKV_K8S_38": (COMPONENTS, "Both talk to the API server: that is what their token is for. Agent pods have none of it."),
    "CKV_K8S_43": (COMPONENTS | AGENT, "Whoever builds the images has their digests: `images.*.digest` takes them."),
}


def read_objects():
    for name in sorted(os.listdir(FOLDER)):
        with open(os.path.join(FOLDER, name)) as file:
            yield from (document for document in yaml.safe_load_all(file) if document)


def scan():
    command = [os.path.join(os.path.dirname(sys.executable), "checkov"), "--framework", "kubernetes", "--compact",
               "--quiet", "--skip-download", "--soft-fail", "--output", "json", "--directory", FOLDER]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def place(resource):
    """`Kind.name`, whatever the namespace; agent pods are named after their threads."""
    kind, *_, name = resource.split(".")
    return "Pod.agent" if kind == "Pod" else f"{kind}.{name}"


expected = sum(1 for _ in read_objects())
report = scan()
# A file that it can't parse is left out without a word.
summary = report.get("summary", report)
assert summary["resource_count"] >= expected and not summary["parsing_errors"], (expected, summary)
wrong, used = [], set()
for failed in report["results"]["failed_checks"]:
    check, where = failed["check_id"], place(failed["resource"])
    if where in ACCEPTED.get(check, ((), ""))[0]:
        used.add((check, where))
    else:
        wrong.append(f"{check} {failed['check_name']}: {where}")
for check, (places, _) in ACCEPTED.items():
    wrong += [f"{check} excuses nothing at {where}: take it out" for where in sorted(places) if (check, where) not in used]
assert not wrong, "\n".join(wrong)
print(f"scan: {summary['passed']} passed, {summary['failed']} accepted")
