"""The charts, driven by the Helm engine against a cluster.

Usage: helm_charts.py CHARTS_DIR NAMESPACE, with KUBECONFIG set. Prints one line per finished part;
exits 1 at the first thing that is not as it should be.
"""

import json
import os
import re
import shutil
import sys
import tempfile

import helm_python as helm
import yaml

from helm_world import NAMES, NAMESPACE, OURS, SECRETS, World

CHARTS = sys.argv[1]
CRDS = os.path.join(CHARTS, "codebutler-crds")
MAIN = os.path.join(CHARTS, "codebutler")
# Kinds of which the components fill what the chart brings.
FILLED = {"Secret", "ConfigMap", "Lease", "EndpointSlice"}


def done(part):
    print(f"helm: {part}", flush=True)


def fails(action, *words):
    """Sees that an action is refused with a sentence that has these words."""
    try:
        action()
    except helm.HelmError as error:
        for word in words:
            assert word in str(error), f"{word!r} is missing in: {error}"
        return
    raise AssertionError(f"nothing said {words}")


def lint():
    for chart in (CRDS, MAIN):
        result = helm.lint(chart)
        assert not result["errors"], result
        assert all(m["severity"] < 2 for m in result["messages"]), result
    done("lint")


def wrong_values():
    chart = helm.Chart.load(MAIN)
    for values, words in [
        ({"gateway": {"replicas": 0}}, ["replicas"]),
        ({"gateway": {"shards": 0}}, ["shards"]),
        ({"gateway": {"slackApi": "slack.com"}}, ["slackApi"]),
        ({"gateway": {"secretAccess": "all"}}, ["secretAccess"]),
        ({"images": {"pullPolicy": "Sometimes"}}, ["pullPolicy"]),
        ({"imagez": {}}, ["imagez", "not allowed"]),
        ({"namespaces": ["Team A"]}, ["namespaces", "pattern"]),
        ({"images": {"architecture": "x86"}}, ["architecture"]),
        ({"agents": {"podSecurityContext": "never"}}, ["podSecurityContext"]),
        ({"agents": {"pods": {"securityContext": {}}}}, ["securityContext", "not allowed"]),
        ({"roles": {"overrides": {"cooder": {}}}}, ["roles.overrides.cooder", "coder"]),
    ]:
        fails(lambda: chart.render(values), *words)
    done("wrong values")


def documents(text):
    return [document for document in yaml.safe_load_all(text) if document]


def described(schema, path=""):
    for name, value in schema.get("properties", {}).items():
        at = f"{path}.{name}"
        assert value.get("description"), f"{at} has no description"
        described(value, at)


def scraped_by_whom_the_values_name(chart):
    def allowed(values):
        rendered = chart.render(values)["codebutler/templates/networkpolicies.yaml"]
        rules = [rule for policy in documents(rendered) for rule in policy["spec"].get("ingress", [])]
        return [rule.get("from") for rule in rules if rule["ports"][0]["port"] == "metrics"]
    peer = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    assert allowed({}) == [[peer], [peer]]
    assert allowed({"networkPolicy": {"metricsFrom": []}}) == []
    other = {"podSelector": {"matchLabels": {"app": "scraper"}}}
    assert allowed({"networkPolicy": {"metricsFrom": [other]}}) == [[other], [other]]


def trusted_authorities_are_mounted(chart):
    text = chart.render({"gateway": {"trustedCA": {"configMap": "company"}}})
    text = text["codebutler/templates/gateway.yaml"]
    for part in ["--trusted-ca=/etc/codebutler/trusted/ca.crt", "name: company", "mountPath: /etc/codebutler/trusted"]:
        assert part in text, part
    assert "trusted" not in chart.render({})["codebutler/templates/gateway.yaml"]


def a_command_in_the_gateways_container_finds_the_histories(chart):
    """`codebutler-operator history` has the container's variables, and not the gateway's arguments."""
    def variables(values):
        objects = documents(chart.render(values)["codebutler/templates/gateway.yaml"])
        (deployment,) = [d for d in objects if d["kind"] == "Deployment"]
        env = deployment["spec"]["template"]["spec"]["containers"][0]["env"]
        return {one["name"]: one.get("value") for one in env}
    url = {"history": {"url": "s3://bucket/folder"}}
    outside = {"gateway": {"egressAllow": ["10.0.0.0/8", "fd00::/8"], "trustedCA": {"configMap": "company"}}}
    found = variables({**url, **outside})
    for name, value in [
        ("HISTORY", "/var/lib/codebutler/history"), ("HISTORY_URL", "s3://bucket/folder"),
        ("EGRESS_ALLOW", "10.0.0.0/8,fd00::/8"), ("TRUSTED_CA", "/etc/codebutler/trusted/ca.crt"),
    ]:
        assert found[f"CODEBUTLER_{name}"] == value, found
    assert "CODEBUTLER_HISTORY_URL" not in variables(outside)


def secrets_are_the_teams_unless_the_values_say_otherwise(chart):
    def found(values):
        objects = documents(chart.render(values)["codebutler/templates/gateway.yaml"])
        wide = [d for d in objects if d["kind"] == "ClusterRoleBinding"]
        own = [d for d in objects if d["metadata"]["name"] == "codebutler-gateway-search"]
        return {d["roleRef"]["name"] for d in wide}, own
    assert found({}) == ({"codebutler-gateway"}, [])
    bound, _ = found({"gateway": {"secretAccess": "cluster"}})
    assert bound == {"codebutler-gateway", SECRETS}, bound
    _, search = found({"gateway": {"search": {"provider": "brave", "secret": "brave"}}})
    assert search[0]["rules"][0]["resourceNames"] == ["brave"], search
    assert [d["kind"] for d in search] == ["Role", "RoleBinding"], search


def flag(text, name):
    """What a component is started with."""
    (deployment,) = [d for d in documents(text) if d["kind"] == "Deployment"]
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    (found,) = [a.removeprefix(f"--{name}=") for a in arguments if a.startswith(f"--{name}=")]
    return found


def pods_are_as_the_values_say(chart):
    controller = "codebutler/templates/controller.yaml"
    def added(values):
        return json.loads(flag(chart.render(values)[controller], "agent-pods"))
    assert added({}) == {}
    assert added({"agents": {"podSecurityContext": None}}) == {"securityContext": {}}
    assert added({"agents": {"podSecurityContext": {"runAsUser": 7}}}) == {"securityContext": {"runAsUser": 7}}
    values = {"images": {"architecture": "arm64"}, "agents": {"pods": {"labels": {"a": "b"}, "nodeSelector": {"pool": "x"}}}}
    assert added(values) == {"labels": {"a": "b"}, "nodeSelector": {"kubernetes.io/arch": "arm64", "pool": "x"}}
    assert flag(chart.render({"images": {"pullPolicy": "Always"}})[controller], "agent-pull-policy") == "Always"
    for name in ["controller", "gateway"]:
        rendered = chart.render({**values, name: {"nodeSelector": {"pool": "system"}}})
        (deployment,) = [d for d in documents(rendered[f"codebutler/templates/{name}.yaml"]) if d["kind"] == "Deployment"]
        spec = deployment["spec"]["template"]["spec"]
        assert spec["nodeSelector"] == {
            "kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64", "pool": "system"}, spec
        assert spec["containers"][0]["startupProbe"]["httpGet"]["path"] == "/healthz", spec
    spread = {"history": {"persistence": {"accessMode": "ReadWriteMany"}}}
    budgets = documents(chart.render(spread)["codebutler/templates/availability.yaml"])
    assert [b["spec"]["unhealthyPodEvictionPolicy"] for b in budgets] == ["AlwaysAllow"] * 2, budgets


def images_come_before_they_are_needed(chart):
    def waiting(values):
        found = documents(chart.render(values)["codebutler/templates/images.yaml"])
        return found and found[0]["spec"]["template"]["spec"]
    assert not waiting({})
    values = {"images": {"registry": "r.example", "pullSecrets": ["pull"], "prePull": {"enabled": True, "also": ["rust:1"]}},
              "agents": {"pods": {"nodeSelector": {"pool": "x"}, "tolerations": [{"key": "agents"}]}}}
    spec = waiting(values)
    controller = chart.render(values)["codebutler/templates/controller.yaml"]
    wanted = [flag(controller, "agent-image"), "rust:1", flag(controller, "workspace-image")]
    assert [c["image"] for c in spec["initContainers"] + spec["containers"]] == wanted, spec
    assert spec["nodeSelector"] == {"kubernetes.io/os": "linux", "pool": "x"}, spec
    assert (spec["tolerations"], spec["imagePullSecrets"]) == ([{"key": "agents"}], [{"name": "pull"}]), spec


def nothing_is_pulled_from_elsewhere(chart):
    """Where nodes reach one registry alone, all that is run is there."""
    values = {"images": {"registry": "registry.internal:5000/team", "prePull": {"enabled": True}}}
    rendered = chart.render(values)
    images = [flag(rendered["codebutler/templates/controller.yaml"], name) for name in ["agent-image", "workspace-image"]]
    # An AgentRole's `model.image` is a model; what its pods pull is looked at below.
    for text in (text for name, text in rendered.items() if not name.endswith("/roles.yaml")):
        images += re.findall(r"^ *(?:- )?image: *\"?([^\"\n]+)", text, re.M)
    assert len(images) >= 6 and all(image.startswith("registry.internal:5000/team/") for image in images), images
    for role in documents(rendered["codebutler/templates/roles.yaml"]):
        assert "image" not in role["spec"].get("workspace", {}), role


def every_alert_has_its_page(chart):
    page = "https://wiki.example.com/runbook"
    values = {"metrics": {"prometheusRule": {"enabled": True, "runbook": page}}}
    (rule,) = documents(chart.render(values)["codebutler/templates/alerts.yaml"])
    with open(os.path.join(MAIN, "RUNBOOK.md")) as file:
        sections = {line[3:].strip() for line in file if line.startswith("## ")}
    alerts = [r for g in rule["spec"]["groups"] for r in g["rules"] if "alert" in r]
    assert sections == {a["alert"] for a in alerts}, sections
    for alert in alerts:
        assert alert["annotations"]["runbook_url"] == f"{page}#{alert['alert'].lower()}", alert
    with open(os.path.join(MAIN, "CHANGELOG.md")) as file:
        assert f"## {chart.metadata['version']}\n" in file.read(), "CHANGELOG.md has nothing on this version"


def deliveries_are_taken_where_the_values_say(chart):
    plain = chart.render({})
    assert "deliveries" not in "".join(plain.values())
    peer = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}}
    for values, peers in [({"enabled": True}, None), ({"enabled": True, "from": [peer]}, [peer])]:
        rendered = chart.render({"deliveries": values})
        assert "--deliveries-listen=[::]:8091" in rendered["codebutler/templates/gateway.yaml"]
        (service,) = documents(rendered["codebutler/templates/deliveries.yaml"])
        (port,) = service["spec"]["ports"]
        deployment = next(d for d in documents(rendered["codebutler/templates/gateway.yaml"]) if d["kind"] == "Deployment")
        ports = deployment["spec"]["template"]["spec"]["containers"][0]["ports"]
        assert {"name": port["targetPort"], "containerPort": 8091} in ports, ports
        policies = documents(rendered["codebutler/templates/networkpolicies.yaml"])
        rules = [rule for p in policies for rule in p["spec"].get("ingress", [])]
        (rule,) = [r for r in rules if r["ports"][0]["port"] == "deliveries"]
        assert rule.get("from") == peers, rule


def pages_are_led_to_as_the_values_say(chart):
    signed = {"enabled": True, "url": "https://butler.example.com:8443", "signIn": "slack", "secret": "pages"}
    own = {"history": {"claim": "histories"}}

    def made(**more):
        rendered = chart.render({**own, "pages": {**signed, **more}})
        objects = documents(rendered["codebutler/templates/pages.yaml"])
        gateway = documents(rendered["codebutler/templates/gateway.yaml"])
        ports = [d for d in gateway if d["kind"] == "Deployment"][0]["spec"]["template"]["spec"]["containers"][0]["ports"]
        assert {"name": "pages", "containerPort": 8090} in ports, ports
        policies = documents(rendered["codebutler/templates/networkpolicies.yaml"])
        assert any(rule["ports"][0]["port"] == "pages" for p in policies for rule in p["spec"].get("ingress", []))
        return {d["kind"]: d for d in objects}

    assert list(made()) == ["Service"]
    nginx = "nginx.ingress.kubernetes.io/"
    ingress = made(ingress={"enabled": True, "className": "nginx", "tlsSecret": "tls",
                            "annotations": {nginx + "proxy-read-timeout": "60", "a": "b"}})["Ingress"]
    # What streams need, unless the values know better.
    assert ingress["metadata"]["annotations"] == {
        nginx + "proxy-buffering": "off", nginx + "proxy-read-timeout": "60", "a": "b"}, ingress
    (rule,) = ingress["spec"]["rules"]
    assert (rule["host"], ingress["spec"]["ingressClassName"]) == ("butler.example.com", "nginx")
    assert ingress["spec"]["tls"] == [{"hosts": ["butler.example.com"], "secretName": "tls"}]
    (path,) = rule["http"]["paths"]
    assert path["backend"] == {"service": {"name": "codebutler-pages", "port": {"name": "http"}}}, path
    plain = made(ingress={"enabled": True})["Ingress"]
    assert plain["metadata"]["annotations"][nginx + "proxy-read-timeout"] == "3600" and "tls" not in plain["spec"]
    parents = [{"name": "public", "namespace": "infra"}]
    both = made(httpRoute={"enabled": True, "parentRefs": parents})
    route, service = both["HTTPRoute"]["spec"], both["Service"]["spec"]
    assert (route["parentRefs"], route["hostnames"]) == (parents, ["butler.example.com"]), route
    assert route["rules"][0]["timeouts"] == {"request": "0s"}, route
    assert route["rules"][0]["backendRefs"] == [{"name": "codebutler-pages", "port": service["ports"][0]["port"]}]
    bare = made(httpRoute={"enabled": True, "parentRefs": parents, "timeouts": None})["HTTPRoute"]
    assert "timeouts" not in bare["spec"]["rules"][0], bare
    for values, words in [
        ({"pages": {"enabled": True, "ingress": {"enabled": True}}}, ["pages.signIn"]),
        ({"pages": {**signed, "url": ""}, **own}, ["pages.url"]),
        ({"pages": {**signed, "secret": ""}, **own}, ["pages.secret"]),
        ({"pages": {**signed, "signIn": "oidc"}, **own}, ["pages.issuer"]),
        ({"pages": signed, "gateway": {"replicas": 2}, "history": {"persistence": {"enabled": False}}},
         ["history.persistence.enabled", "history.url", "history.claim"]),
    ]:
        fails(lambda: chart.render(values), *words)


def what_happened_survives_a_pod(chart):
    """A volume of the chart's own, unless the values name another place."""
    def kept(values):
        rendered = chart.render(values)
        gateway = documents(rendered["codebutler/templates/gateway.yaml"])
        (spec,) = [d["spec"]["template"] for d in gateway if d["kind"] == "Deployment"]
        (volume,) = [v for v in spec["spec"]["volumes"] if v["name"] == "history"]
        budgets = {d["metadata"]["name"] for d in documents(rendered["codebutler/templates/availability.yaml"])}
        return documents(rendered["codebutler/templates/history.yaml"]), volume, spec, budgets

    (claim,), volume, spec, budgets = kept({})
    assert volume == {"name": "history", "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}}, volume
    assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}, claim
    assert claim["spec"] == {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}}, claim
    # Where one node alone can mount it, all replicas go there, and a drain takes them together.
    (near,) = spec["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert near["labelSelector"]["matchLabels"].items() <= spec["metadata"]["labels"].items(), near
    assert "topologySpreadConstraints" not in spec["spec"] and "codebutler-gateway" not in budgets, spec
    own = {"gateway": {"podLabels": {"a": "b"}, "affinity": {"nodeAffinity": {"x": 1}}}}
    _, _, spec, _ = kept(own)
    assert spec["metadata"]["labels"]["a"] == "b" and set(spec["spec"]["affinity"]) == {"nodeAffinity", "podAffinity"}, spec

    shared = {"persistence": {"accessMode": "ReadWriteMany", "storageClass": "files"}}
    (claim,), _, spec, budgets = kept({"history": shared})
    assert (claim["spec"]["accessModes"], claim["spec"]["storageClassName"]) == (["ReadWriteMany"], "files"), claim
    assert "affinity" not in spec["spec"] and "codebutler-gateway" in budgets, spec
    for history, there in [
        ({"claim": "mine"}, {"persistentVolumeClaim": {"claimName": "mine"}}),
        ({"url": "s3://bucket/codebutler"}, {"emptyDir": {"sizeLimit": "10Gi"}}),
        ({"persistence": {"enabled": False}}, {"emptyDir": {"sizeLimit": "10Gi"}}),
    ]:
        claims, volume, spec, budgets = kept({"history": history})
        assert (claims, volume) == ([], {"name": "history", **there}), (history, claims, volume)
        assert "affinity" not in spec["spec"] and "codebutler-gateway" in budgets, spec


def pages_are_there_for_who_may_forward_the_port(chart):
    rendered = chart.render({})
    gateway = rendered["codebutler/templates/gateway.yaml"]
    assert flag(gateway, "pages") == "127.0.0.1:8090", "nobody else reaches them without signing in"
    assert "--pages-url" not in gateway and not rendered["codebutler/templates/pages.yaml"].strip()
    assert "port: pages" not in rendered["codebutler/templates/networkpolicies.yaml"]
    off = chart.render({"pages": {"enabled": False}})["codebutler/templates/gateway.yaml"]
    assert "8090" not in off
    notes = rendered["codebutler/templates/NOTES.txt"]
    for part in ["port-forward", "http://localhost:8090", "pages.signIn"]:
        assert part in notes, part


def notes_put_the_team_where_the_gateway_looks(chart):
    notes = chart.render({"namespaces": ["payments", "shop"]})["codebutler/templates/NOTES.txt"]
    assert "kubectl -n payments apply -f -" in notes and "-n team" not in notes, notes
    assert "create namespace" not in notes and "create rolebinding" not in notes, notes
    named = chart.render({"images": {"registry": "r.example/x"}})["codebutler/templates/NOTES.txt"]
    anywhere = chart.render({})["codebutler/templates/NOTES.txt"]
    empty = "images.registry is empty: nodes look for codebutler-operator:"
    assert empty in anywhere and empty not in named, anywhere
    assert "kubectl create namespace team\n" in anywhere and "kubectl -n team create rolebinding" in anywhere, anywhere


def charts_say_where_they_come_from():
    for path in (CRDS, MAIN):
        metadata = helm.Chart.load(path).metadata
        for field in ["icon", "home", "sources", "maintainers", "keywords", "annotations"]:
            assert metadata.get(field), (path, field)


def labels_are_valid_whatever_is_added_to_the_version():
    """Flux adds the digest of what it has fetched, as in `0.1.0+5ae3f10b7c2d`."""
    valid = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
    for path, version in [(path, version) for path in (CRDS, MAIN)
                          for version in ("0.1.0+5ae3f10b7c2d", "0.1.0-rc.1+" + "5ae3-" * 12)]:
        with tempfile.TemporaryDirectory() as folder:
            copy = shutil.copytree(path, os.path.join(folder, os.path.basename(path)))
            with open(os.path.join(copy, "Chart.yaml")) as file:
                text = re.sub(r"(?m)^version: .*$", f"version: {version}", file.read())
            with open(os.path.join(copy, "Chart.yaml"), "w") as file:
                file.write(text)
            rendered = helm.Chart.load(copy).render({})
        objects = [d for name, text in rendered.items() if name.endswith(".yaml") for d in documents(text)]
        labels = [label for d in objects for label in d["metadata"].get("labels", {}).items()]
        labels += [label for d in objects if d["kind"] == "Deployment"
                   for label in d["spec"]["template"]["metadata"]["labels"].items()]
        charts = {value for name, value in labels if name == "helm.sh/chart"}
        assert len(charts) == 1 and "5ae3" in charts.pop(), charts
        assert all(valid.fullmatch(value) for _, value in labels), labels


def whoever_may_see_a_namespace_sees_threads():
    chart = helm.Chart.load(CRDS)
    roles = {d["metadata"]["name"]: d for d in documents(chart.render({})["codebutler-crds/templates/access.yaml"])}
    to = "rbac.authorization.k8s.io/aggregate-to-"
    for name, whose in [("codebutler-view", {"view", "edit", "admin"}), ("codebutler-edit", {"edit", "admin"})]:
        labels = roles[name]["metadata"]["labels"]
        assert {label.removeprefix(to) for label in labels if label.startswith(to)} == whose, labels
        assert sorted(roles[name]["rules"][0]["resources"]) == NAMES, roles[name]
    assert not chart.render({"aggregateRoles": False})["codebutler-crds/templates/access.yaml"].strip()


def each_shard_has_objects_of_its_own(chart):
    """And an installation with one shard has what it had before there were any."""
    def found(values):
        rendered = chart.render(values)
        objects = [d for name in ("controller", "gateway")
                   for d in documents(rendered[f"codebutler/templates/{name}.yaml"])]
        rules = [rule for d in objects if d["kind"] == "Role" for rule in d["rules"]]
        names = {kind: {d["metadata"]["name"] for d in objects if d["kind"] == kind} for kind in FILLED}
        rights = {(verb, name) for rule in rules for name in rule.get("resourceNames", [])
                  if {"leases", "endpointslices"} & set(rule["resources"]) for verb in rule["verbs"]}
        (service,) = [d for d in objects if d["kind"] == "Service"]
        flags = [a for d in objects if d["kind"] == "Deployment"
                 for a in d["spec"]["template"]["spec"]["containers"][0]["args"] if "shards" in a]
        return names, rights, {p["name"]: (p["port"], p["targetPort"]) for p in service["spec"]["ports"]}, flags
    names, rights, ports, flags = found({})
    assert (ports, flags) == ({"agents": (8443, 8443)}, []), (ports, flags)
    more, added, ports, flags = found({"gateway": {"shards": 2, "replicas": 3}})
    second = "codebutler-gateway-1"
    assert more["Lease"] - names["Lease"] == {second}, more
    assert more["EndpointSlice"] - names["EndpointSlice"] == {second, second + "-ipv6"}, more
    assert (more["Secret"], more["ConfigMap"]) == (names["Secret"], names["ConfigMap"]), more
    # Those of the first one's, and nothing more: the gateway may create neither.
    own = {(verb, second + name.removeprefix("codebutler-gateway")) for verb, name in rights
           if name.startswith("codebutler-gateway")}
    assert added - rights == own and rights < added, added
    assert ports == {"agents": (8443, 8443), "agents-1": (8444, 8443)}, ports
    assert flags == ["--gateway-shards=2", "--shards=2"], flags
    fails(lambda: found({"gateway": {"shards": 3, "replicas": 3}}), "stand by", "gateway.replicas to 4")


def nothing_is_created_by_who_fills_it(chart):
    """What a taken over component could create would be its way to another account, or to another Service."""
    rendered = chart.render({})
    objects = [d for name in ("controller", "gateway") for d in documents(rendered[f"codebutler/templates/{name}.yaml"])]
    filled = {(d["kind"], d["metadata"]["name"]): d for d in objects if d["kind"] in FILLED}
    assert {name for _, name in filled} == {
        "codebutler-gateway-tls", "codebutler-gateway-ca", "codebutler-gateway", "codebutler-gateway-ipv6",
        "codebutler-controller"}, filled
    for document in filled.values():
        # What a release says of a field, an upgrade would put back.
        assert not {"data", "spec", "endpoints", "ports", "type"} & set(document), document
    gateway = [r for d in objects if d["kind"].endswith("Role") and "gateway" in d["metadata"]["name"] for r in d["rules"]]
    makes = {resource for rule in gateway if "create" in rule["verbs"] for resource in rule["resources"]}
    # With the last one nothing can be created: OpenShift's admission asks for it before addresses of pods are written.
    assert makes == {"threads", "events", "tokenreviews", "endpointslices/restricted"}, makes


def render_everything():
    chart = helm.Chart.load(MAIN)
    described(chart.schema)
    rendered = chart.render({
        "images": {"registry": "registry.example.com/", "pullSecrets": ["pull", "other"],
                   "operator": {"repository": "op", "digest": "sha256:" + "0" * 64}},
        "gateway": {"extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
                    "nodeSelector": {"pool": "system"}, "tolerations": [{"operator": "Exists"}],
                    "extraVolumes": [{"name": "ca", "emptyDir": {}}],
                    "extraVolumeMounts": [{"name": "ca", "mountPath": "/ca"}],
                    "podLabels": {"a": "b"}, "podAnnotations": {"c": "d"},
                    "serviceAccountAnnotations": {"e": "f"}, "priorityClassName": "high",
                    "affinity": {"nodeAffinity": {}}},
        "metrics": {"serviceMonitor": {"enabled": True, "labels": {"release": "kps"}},
                    "prometheusRule": {"enabled": True, "labels": {"release": "kps"}},
                    "dashboards": {"enabled": True, "namespace": "monitoring",
                                   "annotations": {"folder": "Team"}}},
        "commonLabels": {"team": "platform"},
    })
    text = rendered["codebutler/templates/gateway.yaml"]
    for part in ["registry.example.com/op@sha256:0", "HTTPS_PROXY", "name: pull", "name: other",
                 "pool: system", "mountPath: /ca", "e: f", "team: platform", "a: b", "c: d"]:
        assert part in text, part
    monitor = rendered["codebutler/templates/metrics.yaml"]
    for part in ["kind: ServiceMonitor", "release: kps", "clusterIP: None", "port: metrics"]:
        assert part in monitor, part
    scraped_by_whom_the_values_name(chart)
    trusted_authorities_are_mounted(chart)
    a_command_in_the_gateways_container_finds_the_histories(chart)
    secrets_are_the_teams_unless_the_values_say_otherwise(chart)
    pods_are_as_the_values_say(chart)
    images_come_before_they_are_needed(chart)
    nothing_is_pulled_from_elsewhere(chart)
    each_shard_has_objects_of_its_own(chart)
    nothing_is_created_by_who_fills_it(chart)
    labels_are_valid_whatever_is_added_to_the_version()
    whoever_may_see_a_namespace_sees_threads()
    rule = rendered["codebutler/templates/alerts.yaml"]
    for part in ["kind: PrometheusRule", "release: kps", "{{ $labels.repo }}", "record: codebutler:"]:
        assert part in rule, part
    assert "runbook_url" not in rule
    every_alert_has_its_page(chart)
    deliveries_are_taken_where_the_values_say(chart)
    pages_are_led_to_as_the_values_say(chart)
    what_happened_survives_a_pod(chart)
    pages_are_there_for_who_may_forward_the_port(chart)
    notes_put_the_team_where_the_gateway_looks(chart)
    charts_say_where_they_come_from()
    dashboards = documents(rendered["codebutler/templates/dashboards.yaml"])
    assert [d["metadata"]["name"] for d in dashboards] == [
        "codebutler-dashboard-cost", "codebutler-dashboard-operations"], dashboards
    for dashboard in dashboards:
        metadata = dashboard["metadata"]
        assert metadata["labels"]["grafana_dashboard"] == "1", metadata
        assert (metadata["namespace"], metadata["annotations"]) == ("monitoring", {"folder": "Team"})
        name, text = next(iter(dashboard["data"].items()))
        with open(os.path.join(MAIN, "files/dashboards", name.removeprefix("codebutler-"))) as file:
            assert json.loads(text) == json.load(file), name
    # OpenShift chooses users itself.
    free = chart.render({"podSecurityContext": dict.fromkeys(["runAsUser", "runAsGroup", "fsGroup"])})
    for name in ["controller", "gateway"]:
        text = free["codebutler/templates/" + name + ".yaml"]
        assert "runAsUser" not in text and "runAsNonRoot: true" in text, text
    # Nothing of it unless it is asked for: a cluster without those resources takes the chart too.
    plain = chart.render({})
    for name in ["alerts", "dashboards"]:
        assert not plain["codebutler/templates/" + name + ".yaml"].strip(), name
    assert "ServiceMonitor" not in plain["codebutler/templates/metrics.yaml"]
    # Some namespaces, this one among them or not: no rights beyond them but the review of tokens.
    for listed in (["a", "b"], ["a", "default"]):
        scoped = chart.render({"namespaces": listed})
        for component in ("controller", "gateway"):
            text = scoped["codebutler/templates/" + component + ".yaml"]
            assert "--namespaces=" + ",".join(listed) in text, text
            roles = [d for d in documents(text) if d["kind"].endswith("Role")]
            cluster = [d for d in roles if d["kind"] == "ClusterRole"]
            used = [r["resources"] for d in cluster for r in d["rules"]]
            assert used == ([["tokenreviews"]] if component == "gateway" else []), cluster
            places = {d["metadata"]["namespace"] for d in roles if d["kind"] == "Role"}
            assert set(listed) <= places, places
            shared = [d for d in roles if d["metadata"]["name"].endswith("-shared")]
            assert len(shared) == (0 if "default" in listed else 1), shared
            bound = {d["metadata"]["name"] for d in documents(text) if d["kind"].endswith("Binding")}
            assert bound == {d["metadata"]["name"] for d in roles}, bound
    done("render")


def life():
    world = World()
    world.adopt()
    world.forget_rights()
    kube = helm.Config(kubeconfig_path=os.environ["KUBECONFIG"], namespace=NAMESPACE)
    if "threads.codebutler.dev" not in world.defined():
        fails(lambda: kube.install(MAIN, "codebutler"), "codebutler-crds first")
        done("missing definitions")
    kube.install(CRDS, "codebutler-crds", wait="watcher", timeout=60)
    assert {f"{name}.codebutler.dev" for name in NAMES} <= world.defined()
    done("definitions")

    if not world.has_default_class():
        fails(lambda: kube.install(MAIN, "codebutler"), "no default StorageClass", "history.persistence")
        world.make_default_class()
        # What a cluster has is asked for once by each.
        kube = helm.Config(kubeconfig_path=os.environ["KUBECONFIG"], namespace=NAMESPACE)
    kube.install(MAIN, "codebutler")
    assert world.role("coder")["spec"]["role"] == "coder"
    container = world.deployments()["codebutler-controller"].spec.template.spec.containers[0]
    assert "--agent-image=codebutler-agent:0.1.0" in container.args, container.args
    assert world.cluster_roles() == OURS
    world.fill()
    done("install")

    other = helm.Config(kubeconfig_path=os.environ["KUBECONFIG"], namespace=f"{NAMESPACE}-2")
    fails(lambda: other.install(MAIN, "second", create_namespace=True),
          "installed already", "codebutler", NAMESPACE)
    done("installed twice")

    kube.upgrade(MAIN, "codebutler", {
        "roles": {"overrides": {"coder": {"model": {"default": "some/model"}}}},
        "controller": {"replicas": 1},
        "images": {"prePull": {"enabled": True, "also": ["debian:12"]}}})
    assert world.role("coder")["spec"]["model"]["default"] == "some/model"
    assert world.waiting_images() == {"codebutler-images"}
    assert world.deployments()["codebutler-controller"].spec.replicas == 1
    assert world.users() == {"codebutler-controller": 65532, "codebutler-gateway": 65532}
    # A cluster that chooses users itself.
    with world.openshift():
        # What a cluster has is asked for once by each.
        other = helm.Config(kubeconfig_path=os.environ["KUBECONFIG"], namespace=NAMESPACE)
        other.upgrade(MAIN, "codebutler", {})
        assert world.users() == {"codebutler-controller": None, "codebutler-gateway": None}, world.users()
        other.upgrade(MAIN, "codebutler", {"podSecurityContext": {"runAsUser": 4000}})
        assert world.users() == {"codebutler-controller": 4000, "codebutler-gateway": 4000}
    world.is_filled()
    done("upgrade")

    kube.upgrade(MAIN, "codebutler", {
        "roles": {"overrides": {"coder": {"model": {"default": "some/model"}}}}})
    assert not world.waiting_images()
    kube.upgrade(MAIN, "codebutler", {}, reuse_values=True)
    assert world.role("coder")["spec"]["model"]["default"] == "some/model"
    kube.rollback("codebutler", version=1)
    assert world.role("coder")["spec"]["model"]["default"] != "some/model"
    world.is_filled()
    done("rollback")

    # What comes back goes on with what was filled, and what an earlier version created is left as it is.
    kube.uninstall("codebutler")
    world.is_filled(uninstalled=True)
    kube.install(MAIN, "codebutler")
    world.is_filled(uninstalled=True)
    kube.uninstall("codebutler")
    world.forget_filled()
    world.created_before()
    for action in (kube.install, kube.upgrade):
        action(MAIN, "codebutler")
        secret = world.core.read_namespaced_secret("codebutler-gateway-tls", NAMESPACE)
        assert secret.type == "kubernetes.io/tls" and len(secret.data) == 2, secret
        assert not secret.metadata.annotations, secret.metadata
    kube.uninstall("codebutler")
    world.core.read_namespaced_secret("codebutler-gateway-tls", NAMESPACE)
    assert world.cluster_roles() == set(), world.cluster_roles()
    assert not world.deployments(), list(world.deployments())
    assert world.claims() == {"codebutler-history"}, "what happened outlives the release"
    kube.uninstall("codebutler-crds")
    assert {f"{name}.codebutler.dev" for name in NAMES} <= world.defined()
    done("uninstall")


lint()
wrong_values()
render_everything()
life()
