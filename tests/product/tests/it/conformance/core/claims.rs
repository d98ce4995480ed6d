//! Volume claims.

use serde_json::{Value, json};

use super::super::behaviours;
use super::super::lab::Lab;

behaviours! { "core kinds",
    claim_required => "claims: access modes and a positive size",
    claim_immutable => "claims: the spec can't change; unbound ones can't grow",
    claim_shrink => "claims: bound ones don't shrink below their capacity",
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
