//! Deletion and what holds it up.

use serde_json::{Value, json};

use super::behaviours;
use super::lab::{Lab, map, pod, thread, uid, version};

behaviours! { "deletion",
    answered => "answered with a Status naming the object, or with the object",
    gone => "deleting what is not there: 404",
    finalizers => "finalizers hold an object; none can be added; the last one ends it",
    accepted => "a deletion that waits, asked not to orphan: 202",
    generation => "a held object's generation counts up, its grace is 0",
    uid_precondition => "a uid precondition: 409 with both uids",
    version_precondition => "a resourceVersion precondition: 409 with both versions",
    met_preconditions => "preconditions that hold",
    unknown_policy => "another propagationPolicy: 422",
    both_policies => "orphanDependents with propagationPolicy: 422",
    foreground => "foreground deletion adds its finalizer",
    orphan => "orphaning adds its finalizer",
    unscheduled => "a pod without a node goes at once",
    graceful => "a pod on a node terminates with its grace; shorter wins, longer does not",
    forced => "grace 0 removes a pod at once",
    negative => "a negative grace counts as one second",
    finished => "a finished pod has no grace",
    collection => "a collection by selector",
    namespace_holds => "a terminating namespace takes nothing new",
    namespace_finalize => "a namespace ends when its own finalizer is taken away",
    twice => "deleting what is terminating changes nothing",
    frozen => "deletionTimestamp can't be taken back",
}

async fn answered(lab: Lab) {
    let made = lab.post("configmaps", map("m")).await.ok(201).clone();
    let status = lab.delete("configmaps/m", Value::Null).await.ok(200).clone();
    assert_eq!((&status["kind"], &status["status"]), (&json!("Status"), &json!("Success")));
    let details = json!({"name": "m", "kind": "configmaps", "uid": uid(&made)});
    assert_eq!(status["details"], details);
    lab.post("threads", thread("t")).await.ok(201);
    let status = lab.delete("threads/t", Value::Null).await.ok(200).clone();
    assert_eq!(status["details"]["group"], "codebutler.dev");
    lab.post("serviceaccounts", json!({"metadata": {"name": "s"}})).await.ok(201);
    assert_eq!(
        lab.delete("serviceaccounts/s", Value::Null).await.ok(200)["kind"],
        "ServiceAccount"
    );
}

async fn gone(lab: Lab) {
    let reply = lab.delete("configmaps/m", Value::Null).await;
    reply.says(404, "NotFound", "configmaps \"m\" not found").about("m", "", "configmaps");
}

fn held(name: &str) -> Value {
    let mut wanted = map(name);
    wanted["metadata"]["finalizers"] = json!(["example.org/hold"]);
    wanted
}

async fn finalizers(lab: Lab) {
    lab.post("configmaps", held("m")).await.ok(201);
    let waiting = lab.delete("configmaps/m", Value::Null).await.ok(200).clone();
    assert_eq!(waiting["kind"], "ConfigMap");
    assert!(waiting["metadata"]["deletionTimestamp"].is_string());
    let more = json!({"metadata": {"finalizers": ["example.org/hold", "example.org/more"]}});
    lab.merge("configmaps/m", more)
        .await
        .says(
            422,
            "Invalid",
            "ConfigMap \"m\" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"example.org/more\"}",
        )
        .cause("metadata.finalizers", "FieldValueForbidden");
    lab.merge("configmaps/m", json!({"data": {"a": "2"}})).await.ok(200);
    lab.merge("configmaps/m", json!({"metadata": {"finalizers": null}})).await.ok(200);
    lab.get("configmaps/m").await.refused(404, "NotFound", &[]);
}

async fn accepted(lab: Lab) {
    lab.post("configmaps", held("m")).await.ok(201);
    lab.delete("configmaps/m", json!({"orphanDependents": false})).await.ok(202);
    lab.post("configmaps", map("n")).await.ok(201);
    lab.delete("configmaps/n", json!({"orphanDependents": false})).await.ok(200);
}

async fn generation(lab: Lab) {
    let mut wanted = thread("t");
    wanted["metadata"]["finalizers"] = json!(["example.org/hold"]);
    lab.post("threads", wanted).await.ok(201);
    let waiting = lab.delete("threads/t", Value::Null).await.ok(200).clone();
    assert_eq!(waiting["metadata"]["generation"], 2);
    assert_eq!(waiting["metadata"]["deletionGracePeriodSeconds"], 0);
    lab.merge("threads/t", json!({"metadata": {"finalizers": null}})).await.ok(200);
}

async fn uid_precondition(lab: Lab) {
    let made = lab.post("configmaps", map("m")).await.ok(201).clone();
    let reply = lab.delete("configmaps/m", json!({"preconditions": {"uid": "other"}})).await;
    let message = format!(
        "Operation cannot be fulfilled on ConfigMap \"m\": the UID in the precondition (other) does not match the UID in record ({}). The object might have been deleted and then recreated",
        uid(&made)
    );
    reply.says(409, "Conflict", &message).about("m", "", "ConfigMap");
    lab.get("configmaps/m").await.ok(200);
}

async fn version_precondition(lab: Lab) {
    let made = lab.post("configmaps", map("m")).await.ok(201).clone();
    let options = json!({"preconditions": {"resourceVersion": "1"}});
    let message = format!(
        "Operation cannot be fulfilled on ConfigMap \"m\": the ResourceVersion in the precondition (1) does not match the ResourceVersion in record ({}). The object might have been modified",
        version(&made)
    );
    lab.delete("configmaps/m", options).await.says(409, "Conflict", &message);
}

async fn met_preconditions(lab: Lab) {
    let made = lab.post("configmaps", map("m")).await.ok(201).clone();
    let options = json!({"preconditions": {"uid": uid(&made), "resourceVersion": version(&made)}});
    assert_eq!(lab.delete("configmaps/m", options).await.ok(200)["status"], "Success");
}

async fn unknown_policy(lab: Lab) {
    lab.post("configmaps", map("m")).await.ok(201);
    lab.delete("configmaps/m", json!({"propagationPolicy": "Sideways"}))
        .await
        .refused(
            422,
            "Invalid",
            &[
                "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: \"Sideways\"",
            ],
        )
        .cause("propagationPolicy", "FieldValueNotSupported");
}

async fn both_policies(lab: Lab) {
    lab.post("configmaps", map("m")).await.ok(201);
    let options = json!({"propagationPolicy": "Background", "orphanDependents": false});
    let part = "orphanDependents and deletionPropagation cannot be both set";
    lab.delete("configmaps/m", options).await.refused(422, "Invalid", &[part]);
}

async fn propagated(lab: &Lab, policy: &str, finalizer: &str) {
    lab.post("configmaps", map("m")).await.ok(201);
    let waiting = lab.delete("configmaps/m", json!({"propagationPolicy": policy})).await;
    let found = &waiting.ok(200)["metadata"]["finalizers"];
    assert_eq!(*found, json!([finalizer]));
    // The collector may be faster.
    let free = lab.merge("configmaps/m", json!({"metadata": {"finalizers": null}})).await;
    assert!(matches!(free.code, 200 | 404), "{}", free.text);
}

async fn foreground(lab: Lab) {
    propagated(&lab, "Foreground", "foregroundDeletion").await;
}

async fn orphan(lab: Lab) {
    propagated(&lab, "Orphan", "orphan").await;
}

async fn unscheduled(lab: Lab) {
    lab.post("pods", pod("p")).await.ok(201);
    assert_eq!(lab.delete("pods/p", Value::Null).await.ok(200)["kind"], "Pod");
    lab.get("pods/p").await.refused(404, "NotFound", &[]);
}

fn placed(name: &str) -> Value {
    let mut wanted = pod(name);
    wanted["spec"]["nodeName"] = "no-such-node".into();
    wanted
}

async fn graceful(lab: Lab) {
    lab.post("pods", placed("p")).await.ok(201);
    let waiting = lab.delete("pods/p", Value::Null).await.ok(200).clone();
    assert_eq!(waiting["metadata"]["deletionGracePeriodSeconds"], 30);
    assert!(waiting["metadata"]["deletionTimestamp"].is_string());
    let longer = lab.delete("pods/p", json!({"gracePeriodSeconds": 60})).await;
    assert_eq!(longer.ok(200)["metadata"]["deletionGracePeriodSeconds"], 30);
    let shorter = lab.delete("pods/p?gracePeriodSeconds=20", Value::Null).await.ok(200).clone();
    assert_eq!(shorter["metadata"]["deletionGracePeriodSeconds"], 20);
    assert!(
        shorter["metadata"]["deletionTimestamp"].as_str()
            < waiting["metadata"]["deletionTimestamp"].as_str()
    );
    lab.delete("pods/p", json!({"gracePeriodSeconds": 0})).await.ok(200);
}

async fn forced(lab: Lab) {
    lab.post("pods", placed("p")).await.ok(201);
    lab.delete("pods/p", json!({"gracePeriodSeconds": 0})).await.ok(200);
    lab.get("pods/p").await.refused(404, "NotFound", &[]);
}

async fn negative(lab: Lab) {
    lab.post("pods", placed("p")).await.ok(201);
    let waiting = lab.delete("pods/p", json!({"gracePeriodSeconds": -5})).await;
    assert_eq!(waiting.ok(200)["metadata"]["deletionGracePeriodSeconds"], 1);
    lab.delete("pods/p", json!({"gracePeriodSeconds": 0})).await.ok(200);
}

async fn finished(lab: Lab) {
    lab.post("pods", placed("p")).await.ok(201);
    lab.merge("pods/p/status", json!({"status": {"phase": "Succeeded"}})).await.ok(200);
    lab.delete("pods/p", Value::Null).await.ok(200);
    lab.get("pods/p").await.refused(404, "NotFound", &[]);
}

async fn collection(lab: Lab) {
    for (name, group) in [("a", "x"), ("b", "x"), ("c", "y")] {
        let mut wanted = map(name);
        wanted["metadata"]["labels"] = json!({"group": group});
        lab.post("configmaps", wanted).await.ok(201);
    }
    let done = lab.delete("configmaps?labelSelector=group%3Dx", Value::Null).await.ok(200).clone();
    assert_eq!(done["kind"], "ConfigMapList");
    assert_eq!(done["items"].as_array().unwrap().len(), 2);
    let left = lab.get("configmaps?labelSelector=group").await.ok(200).clone();
    assert_eq!(left["items"].as_array().unwrap().len(), 1);
}

/// Another namespace, terminating and held by an object of ours where a controller would empty it.
async fn ending(lab: &Lab) -> Lab {
    let made = lab.post("namespaces", json!({"metadata": {"generateName": "conf-end-"}})).await;
    let other = lab.within(made.ok(201)["metadata"]["name"].as_str().unwrap());
    other.post("configmaps", held("held")).await.ok(201);
    let path = format!("namespaces/{}", other.namespace);
    let waiting = other.delete(&path, Value::Null).await.ok(200).clone();
    assert_eq!(waiting["status"]["phase"], "Terminating");
    assert_eq!(waiting["spec"]["finalizers"], json!(["kubernetes"]));
    other
}

async fn namespace_holds(lab: Lab) {
    let ending = ending(&lab).await;
    let reply = ending.post("configmaps", map("m")).await;
    let name = &ending.namespace;
    let message = format!(
        "configmaps \"m\" is forbidden: unable to create new content in namespace {name} because it is being terminated"
    );
    reply.says(403, "Forbidden", &message).about("m", "", "configmaps");
    let causes = &reply.json["details"]["causes"];
    assert_eq!(causes[0]["reason"], "NamespaceTerminating");
    assert_eq!(causes[0]["field"], "metadata.namespace");
    assert_eq!(causes[0]["message"], format!("namespace {name} is being terminated"));
    let free = json!({"metadata": {"finalizers": null}});
    ending.merge("configmaps/held", free).await.ok(200);
}

async fn namespace_finalize(lab: Lab) {
    let ending = ending(&lab).await;
    ending.merge("configmaps/held", json!({"metadata": {"finalizers": null}})).await.ok(200);
    let path = format!("namespaces/{}", ending.namespace);
    let found = ending.get(&path).await;
    if found.code == 200 {
        let mut body = found.json.clone();
        body["spec"]["finalizers"] = json!([]);
        let reply = ending.put(&format!("{path}/finalize"), body).await;
        assert!(matches!(reply.code, 200 | 404 | 409), "{}", reply.text);
    }
    ending.until("end", || async { (ending.get(&path).await.code == 404).then_some(()) }).await;
}

async fn twice(lab: Lab) {
    lab.post("configmaps", held("m")).await.ok(201);
    let once = lab.delete("configmaps/m", Value::Null).await.ok(200).clone();
    let twice = lab.delete("configmaps/m", Value::Null).await.ok(200).clone();
    assert_eq!(once["metadata"]["deletionTimestamp"], twice["metadata"]["deletionTimestamp"]);
    lab.merge("configmaps/m", json!({"metadata": {"finalizers": null}})).await.ok(200);
}

async fn frozen(lab: Lab) {
    lab.post("configmaps", held("m")).await.ok(201);
    lab.delete("configmaps/m", Value::Null).await.ok(200);
    let after = lab.merge("configmaps/m", json!({"metadata": {"deletionTimestamp": null}})).await;
    assert!(after.ok(200)["metadata"]["deletionTimestamp"].is_string());
    lab.merge("configmaps/m", json!({"metadata": {"finalizers": null}})).await.ok(200);
}
