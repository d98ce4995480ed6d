//! Create, replace, versions, dry run, field validation.

use serde_json::{Value, json};

use super::behaviours;
use super::lab::{Lab, map, thread, uid, version};

behaviours! { "writing",
    created => "a new object gets uid, time, version and an owner of its fields",
    exists => "creating what exists: 409 AlreadyExists with details",
    generated => "generateName draws five characters; a given name wins",
    nameless => "neither name nor generateName: 422 on metadata.name",
    versioned => "a new object with a resourceVersion is refused",
    elsewhere => "another namespace than the path's: 400",
    nowhere => "a namespace that is not there: 404 about the namespace",
    misnamed => "another name than the path's: 400",
    other_kind => "another kind or version than the path's: 400",
    stale => "replacing an older version: 409 Conflict with Kubernetes' sentence",
    unconditional => "replacing without a version: ConfigMaps yes, custom resources no",
    replaced_nothing => "replacing what is not there: 404; Leases are made",
    other_uid => "replacing with another uid: 409 precondition failed",
    unchanged => "a write that changes nothing makes no version",
    dry => "dryRun=All answers as if, and stores nothing",
    dry_unknown => "another dryRun: 422 about the options",
    strict => "fieldValidation=Strict: 400 naming the unknown field",
    strict_patch => "fieldValidation=Strict on a patch: 422 on `patch`",
    duplicate_key => "a field twice: Strict 400, Warn warns, the last one counts",
    warned => "unknown fields are dropped with a warning by default",
    ignored => "fieldValidation=Ignore drops silently",
    validation_unknown => "another fieldValidation: 422 about the options",
    wrong_type => "a value of another type: 400 about the Go field",
    malformed => "a body that is no JSON: 400",
    manager_long => "a fieldManager over 128 bytes: 422",
    status_apart => "status on create and update is not taken where it is apart",
    generations => "generation counts changes of the spec only",
    own_words => "server-owned metadata can't be written",
}

async fn created(lab: Lab) {
    let reply = lab.post("configmaps?fieldManager=me", map("m")).await;
    let made = reply.ok(201);
    assert!(!uid(made).is_empty() && version(made).parse::<u64>().unwrap() > 0);
    let time = made["metadata"]["creationTimestamp"].as_str().unwrap();
    assert!(time.ends_with('Z') && time.len() == 20, "{time}");
    let entry = &made["metadata"]["managedFields"][0];
    assert_eq!(entry["manager"], "me");
    assert_eq!(entry["operation"], "Update");
    assert_eq!(entry["apiVersion"], "v1");
    assert_eq!(entry["fieldsType"], "FieldsV1");
    assert_eq!(entry["fieldsV1"], json!({"f:data": {".": {}, "f:a": {}}}));
    assert_eq!(made["metadata"]["generation"], Value::Null);
}

async fn exists(lab: Lab) {
    lab.post("configmaps", map("m")).await.ok(201);
    let again = lab.post("configmaps", map("m")).await;
    again.says(409, "AlreadyExists", "configmaps \"m\" already exists").about(
        "m",
        "",
        "configmaps",
    );
    lab.post("threads", thread("t")).await.ok(201);
    let again = lab.post("threads", thread("t")).await;
    again.says(409, "AlreadyExists", "threads.codebutler.dev \"t\" already exists").about(
        "t",
        "codebutler.dev",
        "threads",
    );
}

async fn generated(lab: Lab) {
    let made = lab.post("configmaps", json!({"metadata": {"generateName": "many-"}})).await;
    let name = made.ok(201)["metadata"]["name"].as_str().unwrap().to_owned();
    assert_eq!(name.len(), "many-".len() + 5);
    let good = |c: char| "bcdfghjklmnpqrstvwxz2456789".contains(c);
    assert!(name["many-".len()..].chars().all(good), "{name}");
    assert_eq!(made.json["metadata"]["generateName"], "many-");
    let both = json!({"metadata": {"name": "one", "generateName": "many-"}});
    assert_eq!(lab.post("configmaps", both).await.ok(201)["metadata"]["name"], "one");
}

async fn nameless(lab: Lab) {
    let refused = lab.post("configmaps", json!({"metadata": {}})).await;
    refused
        .says(
            422,
            "Invalid",
            "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required",
        )
        .about("", "", "ConfigMap")
        .cause("metadata.name", "FieldValueRequired");
}

async fn versioned(lab: Lab) {
    let mut wanted = map("m");
    wanted["metadata"]["resourceVersion"] = "1".into();
    let refused = lab.post("configmaps", wanted).await;
    assert!(refused.code >= 400, "{}", refused.text);
    assert!(
        refused.message().contains("resourceVersion should not be set on objects to be created")
    );
    lab.get("configmaps/m").await.refused(404, "NotFound", &[]);
}

async fn elsewhere(lab: Lab) {
    let mut wanted = map("m");
    wanted["metadata"]["namespace"] = "other".into();
    lab.post("configmaps", wanted).await.says(
        400,
        "BadRequest",
        "the namespace of the provided object does not match the namespace sent on the request",
    );
}

async fn nowhere(lab: Lab) {
    let lost = lab.within(&format!("{}-not", lab.namespace));
    let refused = lost.post("configmaps", map("m")).await;
    let message = format!("namespaces \"{}\" not found", lost.namespace);
    refused.says(404, "NotFound", &message).about(&lost.namespace, "", "namespaces");
}

async fn misnamed(lab: Lab) {
    lab.post("configmaps", map("m")).await.ok(201);
    lab.put("configmaps/m", map("n")).await.says(
        400,
        "BadRequest",
        "the name of the object (n) does not match the name on the URL (m)",
    );
}

async fn other_kind(lab: Lab) {
    let body = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "m"}});
    lab.post("configmaps", body).await.refused(400, "BadRequest", &["Secret", "ConfigMap"]);
    let body = json!({"apiVersion": "v2", "kind": "ConfigMap", "metadata": {"name": "m"}});
    lab.post("configmaps", body).await.refused(400, "BadRequest", &[]);
    let body =
        json!({"apiVersion": "codebutler.dev/v1", "kind": "Thread", "metadata": {"name": "m"}});
    lab.post("threads", body).await.refused(
        400,
        "BadRequest",
        &["does not match the expected API version (codebutler.dev/v1alpha1)"],
    );
}

async fn stale(lab: Lab) {
    let made = lab.post("configmaps", map("m")).await.ok(201).clone();
    let mut changed = made.clone();
    changed["data"]["a"] = "2".into();
    let second = lab.put("configmaps/m", changed.clone()).await.ok(200).clone();
    assert_ne!(version(&second), version(&made));
    changed["data"]["a"] = "3".into();
    lab.put("configmaps/m", changed)
        .await
        .says(
            409,
            "Conflict",
            "Operation cannot be fulfilled on configmaps \"m\": the object has been modified; please apply your changes to the latest version and try again",
        )
        .about("m", "", "configmaps");
}

async fn unconditional(lab: Lab) {
    lab.post("configmaps", map("m")).await.ok(201);
    let mut changed = map("m");
    changed["data"]["a"] = "2".into();
    assert_eq!(lab.put("configmaps/m", changed).await.ok(200)["data"]["a"], "2");
    lab.post("threads", thread("t")).await.ok(201);
    lab.put("threads/t", thread("t"))
        .await
        .refused(
            422,
            "Invalid",
            &[
                "threads.codebutler.dev \"t\" is invalid: metadata.resourceVersion: Invalid value: 0",
                ": must be specified for an update",
            ],
        )
        .about("t", "codebutler.dev", "threads")
        .cause("metadata.resourceVersion", "FieldValueInvalid");
}

async fn replaced_nothing(lab: Lab) {
    let refused = lab.put("configmaps/m", map("m")).await;
    refused.says(404, "NotFound", "configmaps \"m\" not found").about("m", "", "configmaps");
    lab.put("leases/l", json!({"metadata": {"name": "l"}})).await.ok(201);
}

async fn other_uid(lab: Lab) {
    let made = lab.post("configmaps", map("m")).await.ok(201).clone();
    let mut changed = made.clone();
    changed["metadata"]["uid"] = "other".into();
    let own = format!(
        "Precondition failed: UID in precondition: other, UID in object meta: {}",
        uid(&made)
    );
    let refused = lab.put("configmaps/m", changed).await;
    refused.refused(409, "Conflict", &["Operation cannot be fulfilled on configmaps \"m\"", &own]);
}

async fn unchanged(lab: Lab) {
    let made = lab.post("configmaps", map("m")).await.ok(201).clone();
    let again = lab.put("configmaps/m", map("m")).await.ok(200).clone();
    assert_eq!(version(&again), version(&made));
    let again = lab.merge("configmaps/m", json!({"data": {"a": "1"}})).await.ok(200).clone();
    assert_eq!(version(&again), version(&made));
}

async fn dry(lab: Lab) {
    let made = lab.post("configmaps?dryRun=All", map("m")).await;
    assert!(!uid(made.ok(201)).is_empty());
    lab.get("configmaps/m").await.refused(404, "NotFound", &[]);
    lab.post("configmaps", map("m")).await.ok(201);
    lab.post("configmaps?dryRun=All", map("m")).await.refused(409, "AlreadyExists", &[]);
    let patched = lab.merge("configmaps/m?dryRun=All", json!({"data": {"a": "9"}})).await;
    assert_eq!(patched.ok(200)["data"]["a"], "9");
    assert_eq!(lab.get("configmaps/m").await.ok(200)["data"]["a"], "1");
    lab.delete("configmaps/m?dryRun=All", Value::Null).await.ok(200);
    lab.delete("configmaps/m", json!({"dryRun": ["All"]})).await.ok(200);
    lab.get("configmaps/m").await.ok(200);
}

async fn dry_unknown(lab: Lab) {
    lab.post("configmaps?dryRun=Some", map("m"))
        .await
        .refused(
            422,
            "Invalid",
            &["CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value:", "\"All\""],
        )
        .cause("dryRun", "FieldValueNotSupported");
}

async fn strict(lab: Lab) {
    let mut wanted = map("m");
    wanted["bogus"] = 1.into();
    lab.post("configmaps?fieldValidation=Strict", wanted).await.says(
        400,
        "BadRequest",
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"bogus\"",
    );
    let mut wanted = thread("t");
    wanted["spec"]["bogus"] = 1.into();
    lab.post("threads?fieldValidation=Strict", wanted).await.says(
        400,
        "BadRequest",
        "Thread in version \"v1alpha1\" cannot be handled as a Thread: strict decoding error: unknown field \"spec.bogus\"",
    );
}

async fn strict_patch(lab: Lab) {
    lab.post("configmaps", map("m")).await.ok(201);
    let patch = json!({"bogus": 1});
    lab.merge("configmaps/m?fieldValidation=Strict", patch)
        .await
        .refused(
            422,
            "Invalid",
            &[
                " \"\" is invalid: patch: Invalid value: \"{",
                "strict decoding error: unknown field \"bogus\"",
            ],
        )
        .cause("patch", "FieldValueInvalid");
    lab.post("threads", thread("t")).await.ok(201);
    let patch = json!({"spec": {"bogus": 1}});
    lab.merge("threads/t?fieldValidation=Strict", patch)
        .await
        .refused(422, "Invalid", &["strict decoding error: unknown field \"spec.bogus\""])
        .cause("patch", "FieldValueInvalid");
}

async fn duplicate_key(lab: Lab) {
    let json = [("content-type", "application/json")];
    let body = |name: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}},"data":{{"a":"1","a":"2"}}}}"#
        )
        .into_bytes()
    };
    let strict = lab.call("POST", "configmaps?fieldValidation=Strict", &json, body("m")).await;
    strict.refused(400, "BadRequest", &["strict decoding error: duplicate field \"data.a\""]);
    let made = lab.call("POST", "configmaps", &json, body("m")).await;
    assert_eq!(made.ok(201)["data"]["a"], "2");
    made.warned("duplicate field \\\"data.a\\\"");
}

async fn warned(lab: Lab) {
    let mut wanted = thread("t");
    wanted["spec"]["bogus"] = 1.into();
    let made = lab.post("threads", wanted).await;
    assert_eq!(made.ok(201)["spec"].get("bogus"), None);
    made.warned("299 - \"unknown field \\\"spec.bogus\\\"\"");
    let mut wanted = map("m");
    wanted["metadata"]["bogus"] = 1.into();
    let made = lab.post("configmaps?fieldValidation=Warn", wanted).await;
    assert_eq!(made.ok(201)["metadata"].get("bogus"), None);
    made.warned("unknown field \\\"metadata.bogus\\\"");
}

async fn ignored(lab: Lab) {
    let mut wanted = map("m");
    wanted["bogus"] = 1.into();
    let made = lab.post("configmaps?fieldValidation=Ignore", wanted).await;
    assert_eq!(made.ok(201).get("bogus"), None);
    assert!(made.warnings.is_empty(), "{:?}", made.warnings);
}

async fn validation_unknown(lab: Lab) {
    lab.post("configmaps?fieldValidation=Loose", map("m"))
        .await
        .refused(
            422,
            "Invalid",
            &[
                "CreateOptions.meta.k8s.io \"\" is invalid: fieldValidation: Unsupported value: \"Loose\": supported values: ",
                "\"Ignore\", \"Strict\", \"Warn\"",
            ],
        )
        .cause("fieldValidation", "FieldValueNotSupported");
}

async fn wrong_type(lab: Lab) {
    let body = json!({"metadata": {"name": "m"}, "data": {"a": 1}});
    lab.post("configmaps", body).await.refused(
        400,
        "BadRequest",
        &[
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ],
    );
}

async fn malformed(lab: Lab) {
    let json = [("content-type", "application/json")];
    lab.call("POST", "configmaps", &json, b"{nope".to_vec()).await.refused(400, "BadRequest", &[]);
    let json = [("content-type", "application/merge-patch+json")];
    lab.post("configmaps", map("m")).await.ok(201);
    lab.call("PATCH", "configmaps/m", &json, b"{nope".to_vec()).await.refused(
        400,
        "BadRequest",
        &[],
    );
}

async fn manager_long(lab: Lab) {
    let path = format!("configmaps?fieldManager={}", "x".repeat(129));
    lab.post(&path, map("m"))
        .await
        .refused(
            422,
            "Invalid",
            &["CreateOptions.meta.k8s.io \"\" is invalid: fieldManager: Too long"],
        )
        .cause("fieldManager", "FieldValueTooLong");
}

async fn status_apart(lab: Lab) {
    let mut wanted = thread("t");
    wanted["status"] = json!({"phase": "pm"});
    let made = lab.post("threads", wanted).await;
    assert_eq!(made.ok(201).get("status"), None);
    let both = json!({"spec": {"state": "Closed"}, "status": {"phase": "pm"}});
    let after = lab.merge("threads/t/status", both.clone()).await;
    assert_eq!(after.ok(200)["status"]["phase"], "pm");
    assert_eq!(after.json["spec"]["state"], "Active");
    let labels = json!({"metadata": {"labels": {"a": "b"}}, "status": {"phase": "coder"}});
    let after = lab.merge("threads/t/status", labels).await;
    assert_eq!(after.ok(200)["status"]["phase"], "coder");
    // Metadata is not part of a custom resource's status.
    assert_eq!(after.json["metadata"].get("labels"), None);
    let after = lab.merge("threads/t", both).await;
    assert_eq!(after.ok(200)["status"]["phase"], "coder");
    assert_eq!(after.json["spec"]["state"], "Closed");
}

async fn generations(lab: Lab) {
    let made = lab.post("threads", thread("t")).await;
    assert_eq!(made.ok(201)["metadata"]["generation"], 1);
    let after = lab.merge("threads/t/status", json!({"status": {"phase": "pm"}})).await;
    assert_eq!(after.ok(200)["metadata"]["generation"], 1);
    let after = lab.merge("threads/t", json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(after.ok(200)["metadata"]["generation"], 1);
    let after = lab.merge("threads/t", json!({"spec": {"state": "Closed"}})).await;
    assert_eq!(after.ok(200)["metadata"]["generation"], 2);
    let after = lab.merge("threads/t", json!({"metadata": {"generation": 9}})).await;
    assert_eq!(after.ok(200)["metadata"]["generation"], 2);
}

async fn own_words(lab: Lab) {
    let mut wanted = map("m");
    wanted["metadata"]["uid"] = "mine".into();
    wanted["metadata"]["creationTimestamp"] = "2001-01-01T00:00:00Z".into();
    wanted["metadata"]["deletionTimestamp"] = "2001-01-01T00:00:00Z".into();
    let made = lab.post("configmaps", wanted).await.ok(201).clone();
    assert_ne!(uid(&made), "mine");
    assert_ne!(made["metadata"]["creationTimestamp"], "2001-01-01T00:00:00Z");
    assert_eq!(made["metadata"].get("deletionTimestamp"), None);
    let patch = json!({"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z"}});
    let after = lab.merge("configmaps/m", patch).await;
    assert_eq!(
        after.ok(200)["metadata"]["creationTimestamp"],
        made["metadata"]["creationTimestamp"]
    );
}
