//! The built-in kinds that CodeButler makes or reads.

use serde_json::{Value, json};

use super::behaviours;
use super::lab::{Lab, map, pod, uid};

behaviours! { "core kinds",
    pod_defaults => "pods: defaults, phase and quality of service",
    pod_required => "pods: what is missing or double is named",
    pod_enums => "pods: closed lists of values",
    pod_immutable => "pods: the spec can't change but for images and tolerations",
    pod_status => "pods: status and metadata by the status subresource",
    pod_account => "pods: the ServiceAccount must exist",
    pod_resources => "pods: requests within limits; quantities that are none",
    pod_binding => "pods: bound to a node once",
    pod_probes => "pods: probes, env, mounts and volumes are checked",
    quantities => "quantities are stored in canonical form",
    claim_required => "claims: access modes and a positive size",
    claim_immutable => "claims: the spec can't change; unbound ones can't grow",
    claim_shrink => "claims: bound ones don't shrink below their capacity",
    secret_strings => "secrets: stringData wins over data and is never shown",
    secret_type => "secrets: Opaque by default; the type can't change",
    secret_base64 => "secrets: data is base64",
    immutable_maps => "ConfigMaps and Secrets: immutable means that",
    map_keys => "ConfigMaps: keys; one key in data and binaryData",
    map_size => "ConfigMaps: at most 1 MiB",
    services => "services: an address that stays; ports that are named",
    deployments => "deployments: the selector matches and stays",
    role_refs => "bindings: roleRef can't change",
    leases => "leases: durations above 0, times in microseconds",
    times => "times are stored in UTC and whole seconds",
    events => "events: both APIs, their namespace, their time",
    namespaces => "namespaces: label, phase, finalizer of their own",
    network_policies => "network policies: policy types by default, protocol",
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

fn with(field: &str, value: Value) -> Value {
    let mut wanted = pod("p");
    wanted["spec"][field] = value;
    wanted
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
    lab.post("pods", with("dnsPolicy", json!("None")))
        .await
        .refused(422, "Invalid", &["spec.dnsConfig.nameservers: Required value: must provide at least one DNS nameserver when `dnsPolicy` is None"]);
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

fn claim(spec: Value) -> Value {
    json!({"metadata": {"name": "c"}, "spec": spec})
}

fn good_claim() -> Value {
    claim(json!({
        "accessModes": ["ReadWriteOnce"], "storageClassName": "none",
        "resources": {"requests": {"storage": "1Gi"}},
    }))
}

async fn claim_required(lab: Lab) {
    lab.post("persistentvolumeclaims", claim(json!({"storageClassName": "none"})))
        .await
        .refused(
            422,
            "Invalid",
            &[
                "spec.accessModes: Required value: at least 1 access mode is required",
                "spec.resources[storage]: Required value",
            ],
        )
        .about("c", "", "PersistentVolumeClaim");
    let mut wanted = good_claim();
    wanted["spec"]["resources"]["requests"]["storage"] = "0".into();
    lab.post("persistentvolumeclaims", wanted).await.refused(
        422,
        "Invalid",
        &["spec.resources[storage]: Invalid value: \"0\": must be greater than zero"],
    );
    let mut wanted = good_claim();
    wanted["spec"]["accessModes"] = json!(["ReadMostly"]);
    lab.post("persistentvolumeclaims", wanted).await.refused(
        422,
        "Invalid",
        &["Unsupported value: \"ReadMostly\""],
    );
    let made = lab.post("persistentvolumeclaims", good_claim()).await.ok(201).clone();
    assert_eq!(made["status"]["phase"], "Pending");
    assert_eq!(made["spec"]["volumeMode"], "Filesystem");
    assert_eq!(made["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
}

async fn claim_immutable(lab: Lab) {
    lab.post("persistentvolumeclaims", good_claim()).await.ok(201);
    let sentence = "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
    for patch in [
        json!({"spec": {"accessModes": ["ReadWriteMany"]}}),
        json!({"spec": {"storageClassName": "other"}}),
    ] {
        lab.merge("persistentvolumeclaims/c", patch)
            .await
            .refused(422, "Invalid", &[sentence])
            .cause("spec", "FieldValueForbidden");
    }
    let grow = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
    let reply = lab.merge("persistentvolumeclaims/c", grow).await;
    assert!(matches!(reply.code, 403 | 422), "{}", reply.text);
    lab.merge("persistentvolumeclaims/c", json!({"metadata": {"labels": {"a": "b"}}}))
        .await
        .ok(200);
}

async fn claim_shrink(lab: Lab) {
    lab.post("persistentvolumeclaims", good_claim()).await.ok(201);
    let bound = json!({"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}});
    lab.merge("persistentvolumeclaims/c/status", bound).await.ok(200);
    let size = |size: &str| json!({"spec": {"resources": {"requests": {"storage": size}}}});
    lab.merge("persistentvolumeclaims/c", size("512Mi")).await.refused(
        422,
        "Invalid",
        &["spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"],
    );
    // The class does not say that its volumes can grow.
    lab.merge("persistentvolumeclaims/c", size("2Gi")).await.says(
        403,
        "Forbidden",
        "persistentvolumeclaims \"c\" is forbidden: only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
    );
}

async fn secret_strings(lab: Lab) {
    let wanted = json!({"metadata": {"name": "s"}, "data": {"a": "MQ==", "b": "Mg=="}, "stringData": {"a": "x"}});
    let made = lab.post("secrets", wanted).await.ok(201).clone();
    assert_eq!(made["data"], json!({"a": "eA==", "b": "Mg=="}));
    assert_eq!(made.get("stringData"), None);
    let after = lab.merge("secrets/s", json!({"stringData": {"b": "y"}})).await;
    assert_eq!(after.ok(200)["data"]["b"], "eQ==");
}

async fn secret_type(lab: Lab) {
    let made = lab.post("secrets", json!({"metadata": {"name": "s"}})).await;
    assert_eq!(made.ok(201)["type"], "Opaque");
    lab.merge("secrets/s", json!({"type": "example.org/other"}))
        .await
        .says(422, "Invalid", "Secret \"s\" is invalid: type: Invalid value: \"example.org/other\": field is immutable")
        .cause("type", "FieldValueInvalid");
    let wanted = json!({"metadata": {"name": "t"}, "type": "kubernetes.io/tls"});
    lab.post("secrets", wanted).await.refused(
        422,
        "Invalid",
        &["data[tls.crt]: Required value", "data[tls.key]: Required value"],
    );
}

async fn secret_base64(lab: Lab) {
    let wanted = json!({"metadata": {"name": "s"}, "data": {"a": "not base64!"}});
    lab.post("secrets", wanted).await.refused(
        400,
        "BadRequest",
        &["Secret in version \"v1\" cannot be handled as a Secret: illegal base64 data at input byte 3"],
    );
}

async fn immutable_maps(lab: Lab) {
    let mut wanted = map("m");
    wanted["immutable"] = true.into();
    lab.post("configmaps", wanted).await.ok(201);
    lab.merge("configmaps/m", json!({"data": {"a": "2"}}))
        .await
        .says(422, "Invalid", "ConfigMap \"m\" is invalid: data: Forbidden: field is immutable when `immutable` is set")
        .cause("data", "FieldValueForbidden");
    lab.merge("configmaps/m", json!({"immutable": false})).await.refused(
        422,
        "Invalid",
        &["immutable: Forbidden: field is immutable when `immutable` is set"],
    );
    lab.merge("configmaps/m", json!({"metadata": {"labels": {"a": "b"}}})).await.ok(200);
    lab.post("secrets", json!({"metadata": {"name": "s"}, "immutable": true})).await.ok(201);
    lab.merge("secrets/s", json!({"stringData": {"a": "2"}})).await.refused(
        422,
        "Invalid",
        &["data: Forbidden: field is immutable when `immutable` is set"],
    );
}

async fn map_keys(lab: Lab) {
    let wanted = json!({"metadata": {"name": "m"}, "data": {"a b": "1"}});
    lab.post("configmaps", wanted)
        .await
        .refused(422, "Invalid", &["data[a b]: Invalid value: \"a b\": a valid config key must consist of alphanumeric characters, '-', '_' or '.'"])
        .cause("data[a b]", "FieldValueInvalid");
    let wanted =
        json!({"metadata": {"name": "m"}, "data": {"a": "1"}, "binaryData": {"a": "MQ=="}});
    lab.post("configmaps", wanted).await.refused(
        422,
        "Invalid",
        &["data[a]: Invalid value: \"a\": duplicate of key present in binaryData"],
    );
}

async fn map_size(lab: Lab) {
    let wanted = json!({"metadata": {"name": "m"}, "data": {"a": "x".repeat(1_048_577)}});
    lab.post("configmaps", wanted).await.refused(
        422,
        "Invalid",
        &["Too long: may not be more than 1048576 bytes"],
    );
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
