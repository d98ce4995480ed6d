//! Limit ranges of a namespace.

use serde_json::{Value, json};

use super::super::behaviours;
use super::super::lab::{Lab, pod};

behaviours! { "core kinds",
    range_defaults => "limit ranges: what containers leave out is filled in",
    range_bounds => "limit ranges: pods outside of one are refused, each reason once",
    range_pod => "limit ranges: containers and sidecars of a pod add up",
    range_claim => "limit ranges: the size of a claim",
}

async fn limit(lab: &Lab, item: Value) {
    let range = json!({"metadata": {"name": "range"}, "spec": {"limits": [item]}});
    lab.post("limitranges", range).await.ok(201);
}

fn with_resources(resources: &Value) -> Value {
    let mut wanted = pod("p");
    wanted["spec"]["containers"][0]["resources"] = resources.clone();
    wanted
}

async fn range_defaults(lab: Lab) {
    let item =
        json!({"type": "Container", "max": {"cpu": "1"}, "defaultRequest": {"memory": "64Mi"}});
    limit(&lab, item).await;
    let own = json!({"requests": {"cpu": "50m"}});
    let made = lab.post("pods", with_resources(&own)).await.ok(201).clone();
    assert_eq!(
        made["spec"]["containers"][0]["resources"],
        json!({"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"cpu": "1"}})
    );
    let said = &made["metadata"]["annotations"]["kubernetes.io/limit-ranger"];
    assert!(said.as_str().unwrap().starts_with("LimitRanger plugin set: "), "{said}");
    // Such a default can be less than what is asked for.
    let mut more = with_resources(&json!({"requests": {"cpu": "1500m"}}));
    more["metadata"]["name"] = "q".into();
    lab.post("pods", more).await.refused(
        422,
        "Invalid",
        &["must be less than or equal to cpu limit of 1"],
    );
}

async fn range_bounds(lab: Lab) {
    let item = json!({
        "type": "Container", "min": {"cpu": "100m"}, "max": {"memory": "1Gi"},
        "maxLimitRequestRatio": {"memory": "2"},
    });
    limit(&lab, item).await;
    let own = json!({
        "requests": {"cpu": "50m", "memory": "512Mi"}, "limits": {"memory": "2Gi"},
    });
    lab.post("pods", with_resources(&own)).await.refused(
        403,
        "Forbidden",
        &[
            "pods \"p\" is forbidden: [",
            "minimum cpu usage per Container is 100m, but request is 50m",
            "maximum memory usage per Container is 1Gi, but limit is 2Gi",
            "memory max limit to request ratio per Container is 2, but provided ratio is 4.000000",
        ],
    );
    let own = json!({
        "requests": {"cpu": "100m", "memory": "512Mi"}, "limits": {"memory": "1Gi"},
    });
    lab.post("pods", with_resources(&own)).await.ok(201);
}

async fn range_pod(lab: Lab) {
    limit(&lab, json!({"type": "Pod", "max": {"memory": "1Gi"}})).await;
    let part = json!({"limits": {"memory": "600Mi"}});
    let mut wanted = with_resources(&part);
    let mut sidecar = wanted["spec"]["containers"][0].clone();
    sidecar["name"] = "sidecar".into();
    let mut once = sidecar.clone();
    sidecar["restartPolicy"] = "Always".into();
    wanted["spec"]["initContainers"] = json!([sidecar]);
    lab.post("pods", wanted.clone()).await.refused(
        403,
        "Forbidden",
        &["maximum memory usage per Pod is 1Gi, but limit is 1200Mi"],
    );
    // One that has ended before the others begin adds nothing.
    once["name"] = "once".into();
    wanted["spec"]["initContainers"] = json!([once]);
    lab.post("pods", wanted).await.ok(201);
    lab.post("pods", pod("q")).await.refused(
        403,
        "Forbidden",
        &["maximum memory usage per Pod is 1Gi.  No limit is specified"],
    );
}

async fn range_claim(lab: Lab) {
    let item = json!({
        "type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "5Gi"},
    });
    limit(&lab, item).await;
    let claim = |size: &str| {
        json!({"metadata": {"name": "c"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "none",
            "resources": {"requests": {"storage": size}},
        }})
    };
    lab.post("persistentvolumeclaims", claim("20Gi")).await.refused(
        403,
        "Forbidden",
        &["maximum storage usage per PersistentVolumeClaim is 5Gi, but request is 20Gi"],
    );
    lab.post("persistentvolumeclaims", claim("1Mi")).await.refused(
        403,
        "Forbidden",
        &["minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi"],
    );
    lab.post("persistentvolumeclaims", claim("5Gi")).await.ok(201);
}
