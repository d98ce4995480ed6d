//! Create, read, update, patch.

use kube::ResourceExt as _;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{Fixture, config_map, object, pod, refusal, thread};

#[tokio::test]
async fn objects_are_created_read_and_replaced_by_version() {
    let fixture = Fixture::new().await;
    let maps = fixture.maps();
    let post = PostParams::default();

    let made = maps.create(&post, &config_map("a")).await.unwrap();
    assert!(made.uid().is_some() && made.creation_timestamp().is_some());
    assert_eq!(made.namespace().as_deref(), Some(fixture.namespace.as_str()));
    let again = refusal(maps.create(&post, &config_map("a")).await);
    assert_eq!((again.code, again.reason.as_str()), (409, "AlreadyExists"));
    assert_eq!(again.message, "configmaps \"a\" already exists");
    let missing = refusal(maps.get("b").await);
    assert_eq!((missing.code, missing.message.as_str()), (404, "configmaps \"b\" not found"));

    let mut changed = made.clone();
    changed.data["data"]["a"] = "2".into();
    let second = maps.replace("a", &post, &changed).await.unwrap();
    assert_ne!(second.resource_version(), made.resource_version());
    // `changed` is still based on the first version.
    changed.data["data"]["a"] = "3".into();
    let raced = refusal(maps.replace("a", &post, &changed).await);
    assert_eq!((raced.code, raced.reason.as_str()), (409, "Conflict"));
    assert_eq!(
        raced.message,
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again"
    );

    let named = object(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "many-"},
    }));
    let one = maps.create(&post, &named).await.unwrap().name_any();
    let two = maps.create(&post, &named).await.unwrap().name_any();
    assert!(one.starts_with("many-") && one != two);
    fixture.done().await;
}

#[tokio::test]
async fn what_is_wrong_is_said_in_upstreams_words() {
    let fixture = Fixture::new().await;
    let (maps, post) = (fixture.maps(), PostParams::default());
    let name = refusal(maps.create(&post, &config_map("Not_A_Name")).await);
    assert_eq!((name.code, name.reason.as_str()), (422, "Invalid"));
    assert!(name.message.starts_with("ConfigMap \"Not_A_Name\" is invalid: metadata.name: Invalid value: \"Not_A_Name\": a lowercase RFC 1123 subdomain"), "{}", name.message);

    let nowhere = kube::Api::<kube::api::DynamicObject>::namespaced_with(
        fixture.client.clone(),
        "no-such-namespace",
        &super::resource("v1", "ConfigMap", "configmaps"),
    );
    let missing = refusal(nowhere.create(&post, &config_map("a")).await);
    assert_eq!(missing.message, "namespaces \"no-such-namespace\" not found");

    let mut bad = pod("bad");
    bad.data["spec"]["containers"] = json!([
        {"name": "x"},
        {"name": "x", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]},
    ]);
    let pods = refusal(fixture.pods().create(&post, &bad).await);
    for part in [
        "spec.containers[0].image: Required value",
        "spec.containers[1].name: Duplicate value: \"x\"",
        "spec.containers[1].volumeMounts[0].name: Not found: \"v\"",
    ] {
        assert!(pods.message.contains(part), "{part} is not in {}", pods.message);
    }
    fixture.done().await;
}

#[tokio::test]
async fn a_failed_test_of_a_json_patch_changes_nothing() {
    let fixture = Fixture::new().await;
    let maps = fixture.maps();
    let params = PatchParams::default();
    maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
    let patch = |old: &str, new: &str| {
        let operations = json!([
            {"op": "test", "path": "/data/a", "value": old},
            {"op": "replace", "path": "/data/a", "value": new},
        ]);
        Patch::Json::<()>(serde_json::from_value(operations).unwrap())
    };
    let done = maps.patch("a", &params, &patch("1", "2")).await.unwrap();
    assert_eq!(done.data["data"]["a"], "2");
    let refused = refusal(maps.patch("a", &params, &patch("1", "3")).await);
    assert_eq!((refused.code, refused.reason.as_str()), (422, "Invalid"));
    assert_eq!(maps.get("a").await.unwrap().data["data"]["a"], "2");
    fixture.done().await;
}

#[tokio::test]
async fn merge_patches_delete_with_null_and_can_be_conditional() {
    let fixture = Fixture::new().await;
    let maps = fixture.maps();
    let params = PatchParams::default();
    let made = maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
    let patch = Patch::Merge(json!({"data": {"a": null, "b": "2"}}));
    let done = maps.patch("a", &params, &patch).await.unwrap();
    assert_eq!(done.data["data"], json!({"b": "2"}));
    let old = Patch::Merge(json!({
        "metadata": {"resourceVersion": made.resource_version()}, "data": {"c": "3"},
    }));
    assert_eq!(refusal(maps.patch("a", &params, &old).await).code, 409);
    // A patch that changes nothing makes no new version.
    let same = maps.patch("a", &params, &patch).await.unwrap();
    assert_eq!(same.resource_version(), done.resource_version());
    fixture.done().await;
}

#[tokio::test]
async fn strategic_merge_knows_the_keys_of_lists_and_only_built_in_kinds() {
    let fixture = Fixture::new().await;
    let pods = fixture.pods();
    let params = PatchParams::default();
    pods.create(&PostParams::default(), &pod("p")).await.unwrap();
    let patch = Patch::Strategic(json!({
        "metadata": {"finalizers": ["example.org/a"]},
        "spec": {"containers": [{"name": "main", "image": "image:2"}]},
    }));
    let done = pods.patch("p", &params, &patch).await.unwrap();
    let containers = done.data["spec"]["containers"].as_array().unwrap();
    assert_eq!(containers.len(), 1);
    assert_eq!(containers[0]["image"], "image:2");
    assert_eq!(containers[0]["imagePullPolicy"], "IfNotPresent");
    let more = Patch::Strategic(json!({"metadata": {"finalizers": ["example.org/b"]}}));
    let done = pods.patch("p", &params, &more).await.unwrap();
    assert_eq!(done.finalizers().len(), 2);
    let none = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    pods.patch("p", &params, &none).await.unwrap();

    let threads = fixture.threads();
    threads.create(&PostParams::default(), &thread("t")).await.unwrap();
    let patch = Patch::Strategic(json!({"spec": {"state": "Closed"}}));
    let refused = refusal(threads.patch("t", &params, &patch).await);
    assert_eq!((refused.code, refused.reason.as_str()), (415, "UnsupportedMediaType"));
    fixture.done().await;
}

#[tokio::test]
async fn a_dry_run_stores_nothing() {
    let fixture = Fixture::new().await;
    let maps = fixture.maps();
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let made = maps.create(&dry, &config_map("a")).await.unwrap();
    assert!(made.uid().is_some());
    assert_eq!(refusal(maps.get("a").await).code, 404);
    maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
    let patch = Patch::Merge(json!({"data": {"a": "9"}}));
    let params = PatchParams { dry_run: true, ..PatchParams::default() };
    assert_eq!(maps.patch("a", &params, &patch).await.unwrap().data["data"]["a"], "9");
    assert_eq!(maps.get("a").await.unwrap().data["data"]["a"], "1");
    fixture.done().await;
}

#[tokio::test]
async fn fields_that_may_not_change_do_not() {
    let fixture = Fixture::new().await;
    let (post, params) = (PostParams::default(), PatchParams::default());
    fixture.pods().create(&post, &pod("p")).await.unwrap();
    let patch = Patch::Merge(json!({"spec": {"restartPolicy": "Never"}}));
    let refused = refusal(fixture.pods().patch("p", &params, &patch).await);
    assert!(refused.message.contains("pod updates may not change fields other than"));

    let claims = fixture.api("v1", "PersistentVolumeClaim", "persistentvolumeclaims");
    let claim = object(json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "none",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }));
    let made = claims.create(&post, &claim).await.unwrap();
    assert_eq!(made.data["status"]["phase"], "Pending");
    let patch = Patch::Merge(json!({"spec": {"accessModes": ["ReadWriteMany"]}}));
    let refused = refusal(claims.patch("c", &params, &patch).await);
    assert!(refused.message.contains("spec: Forbidden: spec is immutable after creation"));
    fixture.done().await;
}

#[tokio::test]
async fn services_get_an_address_and_keep_it() {
    let fixture = Fixture::new().await;
    let services = fixture.api("v1", "Service", "services");
    let service = object(json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
        "spec": {"selector": {"app": "x"}, "ports": [{"port": 80}]},
    }));
    let made = services.create(&PostParams::default(), &service).await.unwrap();
    let address = made.data["spec"]["clusterIP"].as_str().unwrap().to_owned();
    assert!(address.parse::<std::net::Ipv4Addr>().is_ok());
    assert_eq!(made.data["spec"]["ports"][0]["targetPort"], 80);
    let mut update = service.clone();
    update.metadata.resource_version = made.resource_version();
    update.data["spec"]["selector"]["app"] = "y".into();
    let updated = services.replace("s", &PostParams::default(), &update).await.unwrap();
    assert_eq!(updated.data["spec"]["clusterIP"], address);
    fixture.done().await;
}

#[tokio::test]
async fn lists_come_in_pages_and_are_selected() {
    let fixture = Fixture::new().await;
    let maps = fixture.maps();
    for index in 0..7 {
        let mut map = config_map(&format!("m{index}"));
        let parity = if index % 2 == 0 { "even" } else { "odd" };
        map.labels_mut().insert("parity".to_owned(), parity.to_owned());
        maps.create(&PostParams::default(), &map).await.unwrap();
    }
    let mut names = Vec::new();
    let mut params = ListParams::default().labels("parity").limit(3);
    let mut versions = Vec::new();
    loop {
        let page = maps.list(&params).await.unwrap();
        assert!(page.items.len() <= 3);
        names.extend(page.items.iter().map(kube::ResourceExt::name_any));
        versions.extend(page.metadata.resource_version.clone());
        // Pages show one moment: what comes meanwhile is not among them.
        if names.len() == 3 {
            let mut late = config_map("m3-late");
            late.labels_mut().insert("parity".to_owned(), "odd".to_owned());
            maps.create(&PostParams::default(), &late).await.unwrap();
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => break,
        }
    }
    assert_eq!(names, (0..7).map(|i| format!("m{i}")).collect::<Vec<_>>());
    assert!(versions.windows(2).all(|pair| pair[0] == pair[1]));

    let even = maps.list(&ListParams::default().labels("parity in (even)")).await.unwrap();
    assert_eq!(even.items.len(), 4);
    let one = maps.list(&ListParams::default().fields("metadata.name=m2")).await.unwrap();
    assert_eq!(one.items.len(), 1);
    let unknown = refusal(maps.list(&ListParams::default().fields("data.a=1")).await);
    assert_eq!(unknown.code, 400);
    fixture.done().await;
}

#[tokio::test]
async fn both_event_apis_show_the_same_events() {
    let fixture = Fixture::new().await;
    let core = fixture.api("v1", "Event", "events");
    let new = fixture.api("events.k8s.io/v1", "Event", "events");
    let event = object(json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"},
        "eventTime": "2026-01-02T03:04:05.000006Z", "type": "Normal", "reason": "Started",
        "action": "Start", "note": "it starts", "reportingController": "codebutler.dev/test",
        "reportingInstance": "one",
        "regarding": {"kind": "Pod", "name": "p", "namespace": fixture.namespace, "uid": "u"},
    }));
    new.create(&PostParams::default(), &event).await.unwrap();
    let seen = core.get("e").await.unwrap();
    assert_eq!(seen.data["message"], "it starts");
    assert_eq!(seen.data["involvedObject"]["name"], "p");
    assert_eq!(seen.data["reportingComponent"], "codebutler.dev/test");
    let selected = core.list(&ListParams::default().fields("involvedObject.name=p")).await.unwrap();
    assert_eq!(selected.items.len(), 1);
    assert_eq!(new.get("e").await.unwrap().data["note"], "it starts");
    fixture.done().await;
}

#[tokio::test]
async fn metadata_can_be_had_alone() {
    let fixture = Fixture::new().await;
    let maps = fixture.maps();
    maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
    let one = maps.get_metadata("a").await.unwrap();
    assert_eq!(one.name_any(), "a");
    let all = maps.list_metadata(&ListParams::default()).await.unwrap();
    assert!(all.items.iter().any(|item| item.name_any() == "a"));
    let text = serde_json::to_value(&one).unwrap();
    assert_eq!(text.get("data"), None::<&Value>);
    fixture.done().await;
}
