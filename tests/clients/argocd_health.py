"""What Argo CD makes of CodeButler's objects with charts/examples/argocd/health.yaml, by its own Lua.

Exits 1 at the first object whose health is another one than it should be.
"""

import os

import lupa
import yaml

FILE = os.path.join(os.path.dirname(__file__), "../../charts/examples/argocd/health.yaml")
with open(FILE) as file:
    SCRIPTS = yaml.safe_load(file)["data"]
READY = {"type": "Ready", "status": "True", "reason": "Ready", "message": "messages are answered"}


def health(script, obj):
    lua = lupa.LuaRuntime()
    lua.globals()["obj"] = lua.table_from(obj, recursive=True)
    answer = lua.execute(script)
    return answer["status"], answer["message"]


def condition(type, status, reason="Because", message="so it is"):
    return {"type": type, "status": status, "reason": reason, "message": message}


def at(observed, *conditions):
    return {"metadata": {"generation": 2}, "status": {"observedGeneration": observed, "conditions": list(conditions)}}


kinds = {"Repo", "AgentRole", "Thread"}
assert {name.rpartition("_")[2] for name in SCRIPTS} == kinds, SCRIPTS
for script in SCRIPTS.values():
    for obj, wanted in [
        ({"metadata": {"generation": 1}}, "Progressing"),
        (at(1, READY), "Progressing"),
        (at(2, READY), "Healthy"),
        (at(2, condition("Ready", "False"), condition("Reconciling", "True")), "Progressing"),
        (at(2, condition("Ready", "False"), condition("Stalled", "True", message="mend it")), "Degraded"),
        (at(2, condition("Ready", "False", "Suspended")), "Suspended"),
        ({**at(2, READY), "metadata": {"generation": 2, "deletionTimestamp": "2026-01-01T00:00:00Z"}}, "Progressing"),
    ]:
        status, message = health(script, obj)
        assert status == wanted and message, (obj, status, message)
    assert health(script, at(2, condition("Ready", "False"), condition("Stalled", "True", message="mend it")))[1] == "mend it"
