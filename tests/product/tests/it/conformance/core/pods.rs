//! Pods.

use serde_json::{Value, json};

use super::super::behaviours;
use super::super::lab::{Lab, pod};

behaviours! { "core kinds",
    pod_defaults => "pods: defaults, phase and quality of service",
    pod_gates => "pods: scheduling gates hold a pod back, which its status says",
    pod_required => "pods: what is missing or double is named",
    pod_enums => "pods: closed lists of values",
    pod_immutable => "pods: the spec can't change but for images and tolerations",
    pod_status => "pods: status and metadata by the status subresource",
    pod_end => "pods: a container that nothing restarts stays ended",
    pod_account => "pods: the ServiceAccount must exist",
    pod_resources => "pods: requests within limits; quantities that are none",
    pod_binding => "pods: bound to a node once",
    pod_probes => "pods: probes, env, mounts and volumes are checked",
    quantities => "quantities are stored in canonical form",
    times => "times are stored in UTC and whole seconds",
}

fn with(field: &str, value: Value) -> Value {
    let mut wanted = pod("p");
    wanted["spec"][field] = value;
    wanted
}

async fn pod_defaults(lab: Lab) {
    let made = lab.post("pods", pod("p")).await.ok(201).clone();
    let spec = &made["spec"];
    assert_eq!(spec["restartPolicy"], "Always");
    assert_eq!(spec["dnsPolicy"], "ClusterFirst");
    assert_eq!(spec["terminationGracePeriodSeconds"], 30);
    assert_eq!(spec["serviceAccountName"], "default");
    assert_eq!(spec["enableServiceLinks"], true);
    assert_eq!(spec["containers"][0]["imagePullPolicy"], "IfNotPresent");
    assert_eq!(spec["containers"][0]["terminationMessagePath"], "/dev/termination-log");
    assert_eq!(made["status"]["phase"], "Pending");
    assert_eq!(made["status"]["qosClass"], "BestEffort");
    assert_eq!(made["metadata"]["generation"], 1);
    let tolerations = spec["tolerations"].as_array().unwrap();
    assert!(tolerations.iter().any(|t| t["key"] == "node.kubernetes.io/not-ready"));
    let mut latest = pod("q");
    latest["spec"]["containers"][0]["image"] = "image".into();
    let made = lab.post("pods", latest).await;
    assert_eq!(made.ok(201)["spec"]["containers"][0]["imagePullPolicy"], "Always");
}

async fn pod_gates(lab: Lab) {
    let gates = json!([{"name": "example.org/queue"}]);
    let made = lab.post("pods", with("schedulingGates", gates)).await.ok(201).clone();
    let scheduled = &made["status"]["conditions"][0];
    assert_eq!(scheduled["type"], "PodScheduled");
    assert_eq!(
        (&scheduled["status"], &scheduled["reason"]),
        (&json!("False"), &json!("SchedulingGated"))
    );
    let said = "Scheduling is blocked due to non-empty scheduling gates";
    assert_eq!(scheduled["message"], said);
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    lab.post("pods/p/binding", binding).await.refused(
        409,
        "Conflict",
        &["pod p has non-empty .spec.schedulingGates"],
    );
    let free =
        lab.merge("pods/p", json!({"spec": {"schedulingGates": null}})).await.ok(200).clone();
    assert!(free["spec"]["schedulingGates"].is_null(), "{free}");
    let plain = lab.post("pods", pod("q")).await.ok(201).clone();
    assert!(plain["status"]["conditions"].is_null(), "{plain}");
}

async fn pod_required(lab: Lab) {
    let reply = lab.post("pods", with("containers", json!([]))).await;
    reply
        .refused(422, "Invalid", &["Pod \"p\" is invalid: spec.containers: Required value"])
        .about("p", "", "Pod")
        .cause("spec.containers", "FieldValueRequired");
    let containers =
        json!([{"name": "a", "image": "i:1"}, {"name": "a"}, {"name": "A b", "image": "i:1"}]);
    lab.post("pods", with("containers", containers))
        .await
        .refused(
            422,
            "Invalid",
            &[
                "spec.containers[1].name: Duplicate value: \"a\"",
                "spec.containers[1].image: Required value",
            ],
        )
        .cause("spec.containers[1].name", "FieldValueDuplicate")
        .cause("spec.containers[1].image", "FieldValueRequired")
        .cause("spec.containers[2].name", "FieldValueInvalid");
}

async fn pod_enums(lab: Lab) {
    lab.post("pods", with("restartPolicy", json!("Sometimes")))
        .await
        .refused(422, "Invalid", &["spec.restartPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", "])
        .cause("spec.restartPolicy", "FieldValueNotSupported");
    lab.post("pods", with("dnsPolicy", json!("Mine"))).await.refused(
        422,
        "Invalid",
        &["spec.dnsPolicy: Unsupported value: \"Mine\""],
    );
    lab.post("pods", with("dnsPolicy", json!("None"))).await.refused(
        422,
        "Invalid",
        &["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"],
    );
    let mut empty = with("dnsPolicy", json!("None"));
    empty["spec"]["dnsConfig"] = json!({"searches": ["example.org"]});
    lab.post("pods", empty).await.refused(422, "Invalid", &["spec.dnsConfig.nameservers: Required value: must provide at least one DNS nameserver when `dnsPolicy` is None"]);
}

async fn pod_immutable(lab: Lab) {
    lab.post("pods", pod("p")).await.ok(201);
    let image = json!({"spec": {"containers": [{"name": "main", "image": "image:2"}]}});
    lab.strategic("pods/p", image).await.ok(200);
    let tolerations = json!({"spec": {"tolerations": [{"key": "a", "operator": "Exists"}]}});
    lab.strategic("pods/p", tolerations).await;
    lab.merge("pods/p", json!({"spec": {"restartPolicy": "Never"}}))
        .await
        .refused(
            422,
            "Invalid",
            &[
                "Pod \"p\" is invalid: spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
            ],
        )
        .cause("spec", "FieldValueForbidden");
    lab.merge("pods/p", json!({"spec": {"nodeName": "n"}})).await.refused(
        422,
        "Invalid",
        &["spec: Forbidden"],
    );
}

async fn pod_status(lab: Lab) {
    lab.post("pods", pod("p")).await.ok(201);
    let both = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Never"}, "status": {"phase": "Running"}});
    let after = lab.merge("pods/p/status", both).await.ok(200).clone();
    assert_eq!(after["status"]["phase"], "Running");
    assert_eq!(after["spec"]["restartPolicy"], "Always");
    let after = lab.merge("pods/p", json!({"status": {"phase": "Failed"}})).await;
    assert_eq!(after.ok(200)["status"]["phase"], "Running");
}

async fn pod_end(lab: Lab) {
    let state = |state: Value| {
        json!({"status": {"containerStatuses": [{
            "name": "main", "image": "image:1", "imageID": "", "ready": false, "restartCount": 0,
            "state": state,
        }]}})
    };
    let ended = state(json!({"terminated": {"exitCode": 1}}));
    let again = state(json!({"terminated": null, "running": {}}));
    for policy in ["Never", "OnFailure", "Always"] {
        let mut wanted = with("restartPolicy", json!(policy));
        wanted["metadata"]["name"] = policy.to_lowercase().into();
        lab.post("pods", wanted).await.ok(201);
        let path = format!("pods/{}/status", policy.to_lowercase());
        lab.strategic(&path, ended.clone()).await.ok(200);
        let reply = lab.strategic(&path, again.clone()).await;
        if policy != "Never" {
            reply.ok(200);
            continue;
        }
        reply
            .refused(
                422,
                "Invalid",
                &["status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"],
            )
            .cause("status.containerStatuses[0].state", "FieldValueForbidden");
    }
}

async fn pod_account(lab: Lab) {
    let message = format!(
        "pods \"p\" is forbidden: error looking up service account {}/nobody: serviceaccount \"nobody\" not found",
        lab.namespace
    );
    lab.post("pods", with("serviceAccountName", json!("nobody")))
        .await
        .says(403, "Forbidden", &message)
        .about("p", "", "pods");
    let mut wanted = pod("p");
    wanted["spec"].as_object_mut().unwrap().remove("automountServiceAccountToken");
    let made = lab.post("pods", wanted).await.ok(201).clone();
    let mount = &made["spec"]["containers"][0]["volumeMounts"][0];
    assert_eq!(mount["mountPath"], "/var/run/secrets/kubernetes.io/serviceaccount");
    let source = &made["spec"]["volumes"][0]["projected"]["sources"][0]["serviceAccountToken"];
    assert_eq!(source["expirationSeconds"], 3607);
}

async fn pod_resources(lab: Lab) {
    let resources = |value: Value| {
        with("containers", json!([{"name": "main", "image": "i:1", "resources": value}]))
    };
    lab.post("pods", resources(json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})))
        .await
        .refused(422, "Invalid", &["spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1"])
        .cause("spec.containers[0].resources.requests", "FieldValueInvalid");
    lab.post("pods", resources(json!({"limits": {"memory": "-1"}}))).await.refused(
        422,
        "Invalid",
        &["must be greater than or equal to 0"],
    );
    lab.post("pods", resources(json!({"limits": {"memory": "lots"}}))).await.refused(
        400,
        "BadRequest",
        &["quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"],
    );
    let made = lab
        .post("pods", resources(json!({"limits": {"cpu": 1, "memory": "1Gi"}})))
        .await
        .ok(201)
        .clone();
    // Requests are the limits where they are left out.
    assert_eq!(
        made["spec"]["containers"][0]["resources"]["requests"],
        json!({"cpu": "1", "memory": "1Gi"})
    );
    assert_eq!(made["status"]["qosClass"], "Guaranteed");
}

async fn pod_binding(lab: Lab) {
    lab.post("pods", pod("p")).await.ok(201);
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    lab.post("pods/p/binding", binding.clone()).await.ok(201);
    let bound = lab.get("pods/p").await.ok(200).clone();
    assert_eq!(bound["spec"]["nodeName"], "n");
    let conditions = bound["status"]["conditions"].as_array().unwrap();
    assert!(conditions.iter().any(|c| c["type"] == "PodScheduled" && c["status"] == "True"));
    let reply = lab.post("pods/p/binding", binding).await;
    reply.refused(409, "Conflict", &["pod p is already assigned to node \"n\""]);
    lab.delete("pods/p", json!({"gracePeriodSeconds": 0})).await.ok(200);
}

async fn pod_probes(lab: Lab) {
    let one = |extra: Value| {
        let mut container = json!({"name": "main", "image": "i:1"});
        for (key, value) in extra.as_object().unwrap() {
            container[key] = value.clone();
        }
        with("containers", json!([container]))
    };
    lab.post("pods", one(json!({"volumeMounts": [{"name": "v", "mountPath": "/v"}]})))
        .await
        .refused(422, "Invalid", &["spec.containers[0].volumeMounts[0].name: Not found: \"v\""])
        .cause("spec.containers[0].volumeMounts[0].name", "FieldValueNotFound");
    lab.post("pods", one(json!({"env": [{"name": ""}]}))).await.refused(
        422,
        "Invalid",
        &["spec.containers[0].env[0].name: Required value"],
    );
    lab.post("pods", one(json!({"livenessProbe": {"httpGet": {"port": 0}}})))
        .await
        .refused(422, "Invalid", &["spec.containers[0].livenessProbe.httpGet.port: Invalid value: 0: must be between 1 and 65535, inclusive"]);
    lab.post("pods", one(json!({"ports": [{"containerPort": 70000}]})))
        .await
        .refused(422, "Invalid", &["spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive"]);
    let two = json!([{"name": "v", "emptyDir": {}, "configMap": {"name": "c"}}]);
    lab.post("pods", with("volumes", two)).await.refused(
        422,
        "Invalid",
        &["may not specify more than 1 volume type"],
    );
}

async fn quantities(lab: Lab) {
    for (index, (written, stored)) in
        [("0.5", "500m"), ("1000m", "1"), ("1.5", "1500m"), ("100m", "100m"), ("0.1", "100m")]
            .into_iter()
            .enumerate()
    {
        let mut wanted = pod(&format!("cpu{index}"));
        wanted["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": written}});
        let made = lab.post("pods", wanted).await;
        assert_eq!(
            made.ok(201)["spec"]["containers"][0]["resources"]["limits"]["cpu"],
            stored,
            "{written}"
        );
    }
    for (index, (written, stored)) in [
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("2000Mi", "2000Mi"),
        ("1000k", "1M"),
        ("1e3", "1e3"),
        ("1048576", "1048576"),
        ("1000000", "1M"),
        ("2Gi", "2Gi"),
        ("0.5Mi", "512Ki"),
        ("512", "512"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut wanted = pod(&format!("mem{index}"));
        wanted["spec"]["containers"][0]["resources"] = json!({"limits": {"memory": written}});
        let made = lab.post("pods", wanted).await;
        assert_eq!(
            made.ok(201)["spec"]["containers"][0]["resources"]["limits"]["memory"],
            stored,
            "{written}"
        );
    }
}

async fn times(lab: Lab) {
    lab.post("pods", pod("p")).await.ok(201);
    let patch = json!({"status": {"startTime": "2026-01-02T04:04:05.7+01:00"}});
    let after = lab.merge("pods/p/status", patch).await;
    assert_eq!(after.ok(200)["status"]["startTime"], "2026-01-02T03:04:05Z");
    let patch = json!({"status": {"startTime": "yesterday"}});
    lab.merge("pods/p/status", patch).await.refused(
        422,
        "Invalid",
        &["parsing time \"yesterday\""],
    );
}
