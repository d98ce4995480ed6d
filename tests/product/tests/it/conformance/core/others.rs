//! All others: services, deployments, bindings, leases, events, namespaces, policies.

use serde_json::{Value, json};

use super::super::behaviours;
use super::super::lab::{Lab, uid};

behaviours! { "core kinds",
    services => "services: an address that stays; ports that are named",
    deployments => "deployments: the selector matches and stays",
    role_refs => "bindings: roleRef can't change",
    leases => "leases: durations above 0, times in microseconds",
    events => "events: both APIs, their namespace, their time",
    namespaces => "namespaces: label, phase, finalizer of their own",
    network_policies => "network policies: policy types by default, protocol",
}

async fn services(lab: Lab) {
    let wanted = json!({"metadata": {"name": "s"}, "spec": {"selector": {"a": "b"}, "ports": [{"port": 80}]}});
    let made = lab.post("services", wanted).await.ok(201).clone();
    let address = made["spec"]["clusterIP"].as_str().unwrap().to_owned();
    assert_eq!(made["spec"]["clusterIPs"], json!([address]));
    assert_eq!(made["spec"]["ports"][0]["targetPort"], 80);
    assert_eq!(made["spec"]["type"], "ClusterIP");
    let after =
        lab.merge("services/s", json!({"spec": {"clusterIP": null, "selector": {"a": "c"}}})).await;
    assert_eq!(after.ok(200)["spec"]["clusterIP"], address.as_str());
    lab.merge("services/s", json!({"spec": {"ports": [{"port": 1}, {"port": 2}]}})).await.refused(
        422,
        "Invalid",
        &["spec.ports[0].name: Required value", "spec.ports[1].name: Required value"],
    );
}

async fn deployments(lab: Lab) {
    let wanted = |labels: Value| {
        json!({"metadata": {"name": "d"}, "spec": {
            "replicas": 0, "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "i:1"}]}},
        }})
    };
    lab.post("deployments", wanted(json!({"a": "c"}))).await.refused(
        422,
        "Invalid",
        &[
            "spec.template.metadata.labels: Invalid value: ",
            "`selector` does not match template `labels`",
        ],
    );
    let made = lab.post("deployments", wanted(json!({"a": "b"}))).await.ok(201).clone();
    assert_eq!(made["spec"]["strategy"]["rollingUpdate"]["maxSurge"], "25%");
    let patch = json!({"spec": {"selector": {"matchLabels": {"x": "y"}}, "template": {"metadata": {"labels": {"x": "y"}}}}});
    lab.merge("deployments/d", patch).await.refused(
        422,
        "Invalid",
        &["spec.selector: Invalid value: ", "field is immutable"],
    );
    let scale = lab.get("deployments/d/scale").await.ok(200).clone();
    assert_eq!((&scale["kind"], &scale["apiVersion"]), (&json!("Scale"), &json!("autoscaling/v1")));
    let after = lab.merge("deployments/d/scale", json!({"spec": {"replicas": 2}})).await;
    assert_eq!(after.ok(200)["spec"]["replicas"], 2);
    assert_eq!(lab.get("deployments/d").await.ok(200)["spec"]["replicas"], 2);
}

async fn role_refs(lab: Lab) {
    let wanted = json!({
        "metadata": {"name": "b"}, "subjects": [{"kind": "ServiceAccount", "name": "default"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
    });
    lab.post("rolebindings", wanted.clone()).await.ok(201);
    lab.merge("rolebindings/b", json!({"roleRef": {"name": "other"}}))
        .await
        .refused(422, "Invalid", &["roleRef: Invalid value: ", "cannot change roleRef"])
        .cause("roleRef", "FieldValueInvalid");
    let mut bad = wanted;
    bad["metadata"]["name"] = "c".into();
    bad["roleRef"]["kind"] = "Thing".into();
    lab.post("rolebindings", bad).await.refused(422, "Invalid", &["roleRef.kind: Unsupported value: \"Thing\": supported values: \"Role\", \"ClusterRole\""]);
}

async fn leases(lab: Lab) {
    let lease = |spec: Value| json!({"metadata": {"name": "l"}, "spec": spec});
    lab.post("leases", lease(json!({"leaseDurationSeconds": 0})))
        .await
        .says(422, "Invalid", "Lease.coordination.k8s.io \"l\" is invalid: spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0")
        .cause("spec.leaseDurationSeconds", "FieldValueInvalid");
    lab.post("leases", lease(json!({"renewTime": "2026-01-02T03:04:05Z"}))).await.refused(
        400,
        "BadRequest",
        &["Lease in version \"v1\" cannot be handled as a Lease: parsing time "],
    );
    let made = lab.post("leases", lease(json!({"renewTime": "2026-01-02T03:04:05.600000Z"}))).await;
    assert_eq!(made.ok(201)["spec"]["renewTime"], "2026-01-02T03:04:05.600000Z");
    lab.merge("leases/l", json!({"metadata": {"resourceVersion": "1"}})).await.refused(
        409,
        "Conflict",
        &[],
    );
    let unconditional = lab.put("leases/l", lease(json!({}))).await;
    unconditional.refused(
        422,
        "Invalid",
        &["leases.coordination.k8s.io \"l\" is invalid: metadata.resourceVersion"],
    );
}

async fn events(lab: Lab) {
    let regarding = json!({"kind": "Pod", "name": "p", "namespace": lab.namespace, "uid": "u"});
    let path = format!("/apis/events.k8s.io/v1/namespaces/{}/events", lab.namespace);
    let event = |name: &str| {
        json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": name},
            "eventTime": "2026-01-02T03:04:05.000006Z", "type": "Normal", "reason": "Started",
            "action": "Start", "note": "it starts", "reportingController": "codebutler.dev/test",
            "reportingInstance": "one", "regarding": regarding,
        })
    };
    lab.post(&path, event("e")).await.ok(201);
    let seen = lab.get("events/e").await.ok(200).clone();
    assert_eq!(seen["message"], "it starts");
    assert_eq!(seen["involvedObject"]["name"], "p");
    let mut timeless = event("f");
    timeless.as_object_mut().unwrap().remove("eventTime");
    lab.post(&path, timeless).await.refused(422, "Invalid", &["eventTime: Required value"]);
    let mut loud = event("g");
    loud["type"] = "Loud".into();
    lab.post(&path, loud).await.refused(
        422,
        "Invalid",
        &["type: Invalid value: \"\": has invalid value: Loud"],
    );
    let core = json!({"metadata": {"name": "h"}, "involvedObject": {"namespace": "other", "name": "p", "kind": "Pod"}});
    lab.post("events", core).await.refused(
        422,
        "Invalid",
        &["involvedObject.namespace: Invalid value: \"other\": does not match event.namespace"],
    );
    let selected = lab.get("events?fieldSelector=involvedObject.name=p,reason=Started").await;
    assert_eq!(selected.ok(200)["items"].as_array().unwrap().len(), 1);
}

async fn namespaces(lab: Lab) {
    let found = lab.get(&format!("namespaces/{}", lab.namespace)).await.ok(200).clone();
    assert_eq!(found["metadata"]["labels"]["kubernetes.io/metadata.name"], lab.namespace);
    assert_eq!(found["status"]["phase"], "Active");
    assert_eq!(found["spec"]["finalizers"], json!(["kubernetes"]));
    assert!(!uid(&found).is_empty());
    let reply = lab.delete("namespaces/default", Value::Null).await;
    reply.says(
        403,
        "Forbidden",
        "namespaces \"default\" is forbidden: this namespace may not be deleted",
    );
}

async fn network_policies(lab: Lab) {
    let policy = json!({"metadata": {"name": "n"}, "spec": {"podSelector": {}, "egress": [{"ports": [{"port": 443}]}]}});
    let made = lab.post("networkpolicies", policy).await.ok(201).clone();
    assert_eq!(made["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
    assert_eq!(made["spec"]["egress"][0]["ports"][0]["protocol"], "TCP");
    assert_eq!(made["metadata"]["generation"], 1);
}
