"""Drives the API server with the official Python client: list, watch, patch, status, apply, delete."""

import os
import threading

from kubernetes import client, config, watch
from kubernetes.client.exceptions import ApiException

config.load_kube_config(os.environ["KUBECONFIG_FILE"])
namespace = os.environ["NAMESPACE"]
core = client.CoreV1Api()
custom = client.CustomObjectsApi()
where = ("codebutler.dev", "v1alpha1", namespace, "threads")
kind = {"apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread"}


def thread(name, **spec):
    return {**kind, "metadata": {"name": name}, "spec": {"repo": "shop", **spec}}


def refused(call, code, *texts):
    try:
        call()
    except ApiException as error:
        assert error.status == code, error
        for text in texts:
            assert text in error.body, error.body
        return
    raise AssertionError(f"not refused: {texts}")


assert client.VersionApi().get_code().major == "1"
groups = {group.name for group in client.ApisApi().get_api_versions().groups}
assert "codebutler.dev" in groups, groups

# A watch that began before sees everything, in order.
start = custom.list_namespaced_custom_object(*where)["metadata"]["resourceVersion"]
seen = []


def look():
    stream = watch.Watch().stream(
        custom.list_namespaced_custom_object, *where, resource_version=start, timeout_seconds=60
    )
    for event in stream:
        seen.append((event["type"], event["object"]["metadata"]["name"]))
        if event["type"] == "DELETED":
            break


watcher = threading.Thread(target=look)
watcher.start()

slack = {"channel": "C0123", "ts": "1700000000.000100"}
custom.create_namespaced_custom_object(*where, thread("a", slack=slack))
refused(lambda: custom.create_namespaced_custom_object(*where, thread("a", prompt="p")), 409, "AlreadyExists")
refused(lambda: custom.create_namespaced_custom_object(*where, thread("b")), 422, "exactly one of")
both = thread("b", slack=slack, prompt="p")
refused(lambda: custom.create_namespaced_custom_object(*where, both), 422, "exactly one of")
refused(lambda: custom.create_namespaced_custom_object(*where, thread("x" * 51, prompt="p")), 422, "at most 50")
refused(lambda: custom.create_namespaced_custom_object(*where, thread("b", prompt="")), 422, "spec.prompt")
wrong = {"spec": {"prompt": "p", "slack": None}}
refused(lambda: custom.patch_namespaced_custom_object(*where, "a", wrong), 422, "stays with its")

# Status is a part of its own: a write to one leaves the other alone.
status = {"status": {"phase": "pm", "cost": "0.42"}, "spec": {"state": "Closed"}}
found = custom.patch_namespaced_custom_object_status(*where, "a", status)
assert (found["status"]["phase"], found["spec"]["state"]) == ("pm", "Active"), found
found["spec"]["state"] = "Closed"
found["status"] = {}
found = custom.replace_namespaced_custom_object(*where, "a", found)
assert (found["status"]["phase"], found["spec"]["state"]) == ("pm", "Closed"), found
stale = {**found, "metadata": {**found["metadata"], "resourceVersion": "1"}}
refused(lambda: custom.replace_namespaced_custom_object(*where, "a", stale), 409, "Conflict")

# Server-side apply, and a second manager that disagrees.
def apply(body, manager, force=None):
    name = body["metadata"]["name"]
    custom.patch_namespaced_custom_object(
        *where, name, body, field_manager=manager, force=force,
        _content_type="application/apply-patch+yaml",
    )
    # The client drops the body of a 201.
    return custom.get_namespaced_custom_object(*where, name)


applied = apply(thread("c", prompt="please", state="Active"), "one")
assert {m["manager"] for m in applied["metadata"]["managedFields"]} == {"one"}, applied
other = thread("c", prompt="please", state="Closed")
refused(lambda: apply(other, "two"), 409, 'conflict with \\"one\\"', ".spec.state")
assert apply(other, "two", force=True)["spec"]["state"] == "Closed"

page = custom.list_namespaced_custom_object(*where, limit=1)
rest = custom.list_namespaced_custom_object(*where, _continue=page["metadata"]["continue"])
names = [item["metadata"]["name"] for item in page["items"] + rest["items"]]
assert names == ["a", "c"], names

# Typed objects.
secret = client.V1Secret(metadata=client.V1ObjectMeta(name="s"), string_data={"key": "value"})
core.create_namespaced_secret(namespace, secret)
assert core.read_namespaced_secret("s", namespace).data == {"key": "dmFsdWU="}
core.patch_namespaced_secret("s", namespace, {"metadata": {"labels": {"app": "x"}}})
assert len(core.list_namespaced_secret(namespace, label_selector="app=x").items) == 1
core.delete_namespaced_secret("s", namespace)
refused(lambda: core.read_namespaced_secret("s", namespace), 404, "NotFound")

# A finalizer holds what is deleted.
custom.patch_namespaced_custom_object(*where, "c", {"metadata": {"finalizers": ["example.org/x"]}})
custom.delete_namespaced_custom_object(*where, "c")
assert custom.get_namespaced_custom_object(*where, "c")["metadata"]["deletionTimestamp"]
custom.patch_namespaced_custom_object(*where, "c", {"metadata": {"finalizers": None}})
refused(lambda: custom.get_namespaced_custom_object(*where, "c"), 404, "NotFound")
watcher.join(60)
assert not watcher.is_alive()
assert seen[0] == ("ADDED", "a") and seen[-1] == ("DELETED", "c"), seen
assert ("MODIFIED", "a") in seen and ("ADDED", "c") in seen, seen
