//! Identity of a caller, and its rights.

use serde_json::{Value, json};

use super::behaviours;
use super::lab::{Lab, map, pod, uid};

behaviours! { "access",
    nobody => "without credentials: anonymous or nobody",
    bad_token => "a token that is none: 401 Unauthorized",
    forbidden => "refusals name user, verb, resource, group and place",
    forbidden_path => "refusals of paths",
    verbs => "a rule allows its verbs and resources only",
    subresources => "a rule for a resource is none for its subresources",
    resource_names => "a rule with names allows those, also as list of one name",
    apply_creates => "applying what is not there needs create",
    escalation => "nobody grants what he does not hold",
    binding_escalation => "nobody binds a role he does not hold",
    self_review => "SelfSubjectReview tells name and groups",
    self_access => "SelfSubjectAccessReview answers with the rule's source",
    subject_access => "SubjectAccessReview of users and groups; bad ones are refused",
    rules_review => "SelfSubjectRulesReview lists the rules",
    token_request => "TokenRequest: audience, expiry, limits",
    bound_token => "a bound token names its pod and dies with it",
    bound_wrong => "binding to another uid, to nothing or to another kind is refused",
    token_review => "TokenReview: audiences, extra, errors; an empty one is refused",
    account_gone => "a token dies with its account",
    impersonation => "impersonation by who may",
    impersonation_whole => "impersonation with uid and extra; without a user: 400",
    impersonation_on => "impersonation of an account for one action",
}

async fn nobody(lab: Lab) {
    let reply = lab.with_token("").await.get("configmaps").await;
    if reply.code == 401 {
        reply.says(401, "Unauthorized", "Unauthorized");
        return;
    }
    let message = format!(
        "configmaps is forbidden: User \"system:anonymous\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"{}\"",
        lab.namespace
    );
    reply.says(403, "Forbidden", &message);
    assert_eq!(lab.with_token("").await.get("/livez").await.code, 200);
}

async fn bad_token(lab: Lab) {
    let stranger = lab.with_token("nonsense").await;
    let reply = stranger.get("configmaps").await;
    reply.says(401, "Unauthorized", "Unauthorized");
    assert_eq!(stranger.get("/version").await.code, 401);
}

async fn forbidden(lab: Lab) {
    let account = lab.account("a").await;
    let user = format!("system:serviceaccount:{}:a", lab.namespace);
    let namespace = &lab.namespace;
    let reply = account.get("configmaps").await;
    let message = format!(
        "configmaps is forbidden: User \"{user}\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"{namespace}\""
    );
    reply.says(403, "Forbidden", &message).about("", "", "configmaps");
    let reply = account.get("threads/t").await;
    let message = format!(
        "threads.codebutler.dev \"t\" is forbidden: User \"{user}\" cannot get resource \"threads\" in API group \"codebutler.dev\" in the namespace \"{namespace}\""
    );
    reply.says(403, "Forbidden", &message).about("t", "codebutler.dev", "threads");
    let reply = account.merge("threads/t/status", json!({})).await;
    reply.refused(
        403,
        "Forbidden",
        &["cannot patch resource \"threads/status\" in API group \"codebutler.dev\""],
    );
    let reply = account.get("/api/v1/nodes").await;
    let message = format!(
        "nodes is forbidden: User \"{user}\" cannot list resource \"nodes\" in API group \"\" at the cluster scope"
    );
    reply.says(403, "Forbidden", &message);
    account.delete("configmaps", Value::Null).await.refused(
        403,
        "Forbidden",
        &["cannot deletecollection resource"],
    );
    account.get("configmaps?watch=true").await.refused(
        403,
        "Forbidden",
        &["cannot watch resource"],
    );
}

async fn forbidden_path(lab: Lab) {
    let account = lab.account("a").await;
    let user = format!("system:serviceaccount:{}:a", lab.namespace);
    let reply = account.get("/metrics").await;
    reply.says(
        403,
        "Forbidden",
        &format!("forbidden: User \"{user}\" cannot get path \"/metrics\""),
    );
    for open in ["/version", "/api", "/apis", "/healthz", "/openapi/v3"] {
        assert_eq!(account.get(open).await.code, 200, "{open}");
    }
}

async fn verbs(lab: Lab) {
    let account = lab.account("a").await;
    lab.allow(
        "a",
        json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create"]}]),
    )
    .await;
    account
        .until("right", || async {
            (account.post("configmaps", map("m")).await.code < 400).then_some(())
        })
        .await;
    account.get("configmaps/m").await.ok(200);
    account.get("configmaps").await.refused(403, "Forbidden", &["cannot list"]);
    account.merge("configmaps/m", json!({})).await.refused(403, "Forbidden", &["cannot patch"]);
    account.put("configmaps/m", map("m")).await.refused(403, "Forbidden", &["cannot update"]);
    account.delete("configmaps/m", Value::Null).await.refused(403, "Forbidden", &["cannot delete"]);
    account.get("secrets/m").await.refused(403, "Forbidden", &["cannot get"]);
}

async fn subresources(lab: Lab) {
    let account = lab.account("a").await;
    lab.allow("a", json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]}])).await;
    account
        .until("right", || async {
            (account.post("pods", pod("p")).await.code < 400).then_some(())
        })
        .await;
    account.merge("pods/p/status", json!({})).await.refused(403, "Forbidden", &["\"pods/status\""]);
}

async fn resource_names(lab: Lab) {
    let account = lab.account("a").await;
    lab.post("configmaps", map("m")).await.ok(201);
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["m"], "verbs": ["get", "list"]}]);
    lab.allow("a", rules).await;
    account
        .until("right", || async { (account.get("configmaps/m").await.code == 200).then_some(()) })
        .await;
    account.get("configmaps/n").await.refused(403, "Forbidden", &[]);
    account.get("configmaps").await.refused(403, "Forbidden", &[]);
    account.get("configmaps?fieldSelector=metadata.name%3Dm").await.ok(200);
}

async fn apply_creates(lab: Lab) {
    let account = lab.account("a").await;
    lab.allow(
        "a",
        json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch", "get"]}]),
    )
    .await;
    account
        .until("right", || async { (account.get("configmaps/m").await.code == 404).then_some(()) })
        .await;
    let reply = account.apply("configmaps/m?fieldManager=a", map("m")).await;
    reply.refused(
        403,
        "Forbidden",
        &["configmaps \"m\" is forbidden", "cannot create resource \"configmaps\""],
    );
    lab.post("configmaps", map("m")).await.ok(201);
    account.apply("configmaps/m?fieldManager=a", map("m")).await.ok(200);
}

async fn escalation(lab: Lab) {
    let account = lab.account("a").await;
    let rules = json!([
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["create", "get"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},
    ]);
    lab.allow("a", rules).await;
    let role = |name: &str, resource: &str| json!({"metadata": {"name": name}, "rules": [{"apiGroups": [""], "resources": [resource], "verbs": ["get"]}]});
    account
        .until("right", || async {
            (account.post("roles", role("ok", "configmaps")).await.code == 201).then_some(())
        })
        .await;
    let namespace = &lab.namespace;
    let message = format!(
        "roles.rbac.authorization.k8s.io \"more\" is forbidden: user \"system:serviceaccount:{namespace}:a\" (groups=[\"system:serviceaccounts\" \"system:serviceaccounts:{namespace}\" \"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n{{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}}"
    );
    account.post("roles", role("more", "secrets")).await.says(403, "Forbidden", &message);
}

async fn binding_escalation(lab: Lab) {
    let account = lab.account("a").await;
    lab.allow("a", json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["rolebindings"], "verbs": ["create", "list"]}])).await;
    account
        .until("right", || async { (account.get("rolebindings").await.code == 200).then_some(()) })
        .await;
    let binding = json!({
        "metadata": {"name": "b"}, "subjects": [{"kind": "ServiceAccount", "name": "a", "namespace": lab.namespace}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    });
    let reply = account.post("rolebindings", binding).await;
    reply.refused(
        403,
        "Forbidden",
        &[
            "rolebindings.rbac.authorization.k8s.io \"b\" is forbidden: ",
            "is attempting to grant RBAC permissions not currently held:",
        ],
    );
}

async fn self_review(lab: Lab) {
    let account = lab.account("a").await;
    let review = account.post("selfsubjectreviews", json!({})).await.ok(201).clone();
    let user = &review["status"]["userInfo"];
    assert_eq!(user["username"], format!("system:serviceaccount:{}:a", lab.namespace));
    let wanted = json!([
        "system:serviceaccounts",
        format!("system:serviceaccounts:{}", lab.namespace),
        "system:authenticated"
    ]);
    assert_eq!(user["groups"], wanted);
    assert!(user["uid"].is_string());
}

async fn self_access(lab: Lab) {
    let account = lab.account("a").await;
    lab.allow("a", json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]))
        .await;
    let ask = |verb: &str| json!({"spec": {"resourceAttributes": {"namespace": lab.namespace, "verb": verb, "resource": "configmaps"}}});
    let allowed = || async {
        let review = account.post("selfsubjectaccessreviews", ask("get")).await;
        (review.json["status"]["allowed"] == true).then_some(review)
    };
    let review = account.until("right", allowed).await;
    let reason = format!(
        "RBAC: allowed by RoleBinding \"a/{0}\" of Role \"a\" to ServiceAccount \"a/{0}\"",
        lab.namespace
    );
    assert_eq!(review.ok(201)["status"]["reason"], reason);
    let review = account.post("selfsubjectaccessreviews", ask("delete")).await;
    assert_eq!(review.ok(201)["status"]["allowed"], false);
}

async fn subject_access(lab: Lab) {
    let ask = |spec: Value| json!({"spec": spec});
    let attributes = json!({"verb": "get", "resource": "pods", "namespace": lab.namespace});
    let review = lab
        .post(
            "subjectaccessreviews",
            ask(json!({"user": "nobody", "resourceAttributes": attributes})),
        )
        .await;
    assert_eq!(review.ok(201)["status"]["allowed"], false);
    let master =
        json!({"user": "x", "groups": ["system:masters"], "resourceAttributes": attributes});
    let review = lab.post("subjectaccessreviews", ask(master)).await;
    assert_eq!(review.ok(201)["status"]["allowed"], true);
    lab.post("subjectaccessreviews", ask(json!({"resourceAttributes": attributes}))).await.refused(
        422,
        "Invalid",
        &["spec.user: Invalid value: \"\": at least one of user or group must be specified"],
    );
    lab.post("subjectaccessreviews", ask(json!({"user": "x"}))).await.refused(
        422,
        "Invalid",
        &["exactly one of nonResourceAttributes or resourceAttributes must be specified"],
    );
}

async fn rules_review(lab: Lab) {
    let account = lab.account("a").await;
    lab.allow("a", json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]))
        .await;
    let found = || async {
        let review = account
            .post("selfsubjectrulesreviews", json!({"spec": {"namespace": lab.namespace}}))
            .await;
        let rules = review.ok(201)["status"]["resourceRules"].as_array().unwrap().clone();
        rules
            .iter()
            .any(|r| r["resources"] == json!(["configmaps"]) && r["verbs"] == json!(["get"]))
            .then_some(())
    };
    account.until("rule", found).await;
    account.post("selfsubjectrulesreviews", json!({"spec": {}})).await.refused(
        400,
        "BadRequest",
        &["no namespace on request"],
    );
}

async fn token_request(lab: Lab) {
    let spec = json!({"audiences": ["mine"], "expirationSeconds": 1200});
    let made = lab.token("default", spec).await.ok(201).clone();
    assert_eq!(made["spec"]["audiences"], json!(["mine"]));
    assert!(made["status"]["expirationTimestamp"].is_string());
    assert_eq!(made["status"]["token"].as_str().unwrap().split('.').count(), 3);
    // Not meant for the API server.
    let stranger = lab.with_token(made["status"]["token"].as_str().unwrap()).await;
    stranger.get("configmaps").await.refused(401, "Unauthorized", &[]);
    lab.token("default", json!({"expirationSeconds": 60}))
        .await
        .says(
            422,
            "Invalid",
            "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 60: may not specify a duration less than 10 minutes",
        )
        .cause("spec.expirationSeconds", "FieldValueInvalid");
    lab.token("nobody", json!({})).await.refused(
        404,
        "NotFound",
        &["serviceaccounts \"nobody\" not found"],
    );
}

fn reference(name: &str, uid: &str) -> Value {
    json!({"kind": "Pod", "apiVersion": "v1", "name": name, "uid": uid})
}

async fn review(lab: &Lab, token: &str, audience: &str) -> Value {
    let spec = json!({"token": token, "audiences": [audience]});
    lab.post("tokenreviews", json!({"spec": spec})).await.ok(201)["status"].clone()
}

async fn bound_token(lab: Lab) {
    let made = lab.post("pods", pod("p")).await.ok(201).clone();
    let spec = json!({"audiences": ["mine"], "boundObjectRef": reference("p", uid(&made))});
    let token =
        lab.token("default", spec).await.ok(201)["status"]["token"].as_str().unwrap().to_owned();
    let status = review(&lab, &token, "mine").await;
    assert_eq!(status["authenticated"], true, "{status}");
    assert_eq!(status["audiences"], json!(["mine"]));
    let extra = &status["user"]["extra"];
    assert_eq!(extra["authentication.kubernetes.io/pod-name"], json!(["p"]));
    assert_eq!(extra["authentication.kubernetes.io/pod-uid"], json!([uid(&made)]));
    assert!(
        extra["authentication.kubernetes.io/credential-id"][0]
            .as_str()
            .unwrap()
            .starts_with("JTI=")
    );
    lab.delete("pods/p", json!({"gracePeriodSeconds": 0})).await.ok(200);
    let dead =
        || async { (review(&lab, &token, "mine").await["authenticated"] != true).then_some(()) };
    lab.until("end of the token", dead).await;
}

async fn bound_wrong(lab: Lab) {
    lab.post("pods", pod("p")).await.ok(201);
    lab.token("default", json!({"boundObjectRef": reference("p", "other")})).await.refused(
        409,
        "Conflict",
        &["Operation cannot be fulfilled on Pod \"p\": the UID in the bound object reference (other) does not match the UID in record. The object might have been deleted and then recreated"],
    );
    lab.token("default", json!({"boundObjectRef": reference("q", "")})).await.says(
        404,
        "NotFound",
        "pods \"q\" not found",
    );
    let other = json!({"kind": "ConfigMap", "apiVersion": "v1", "name": "m"});
    lab.token("default", json!({"boundObjectRef": other})).await.says(
        400,
        "BadRequest",
        "cannot bind token to object of type /v1, Kind=ConfigMap",
    );
    lab.post("serviceaccounts", json!({"metadata": {"name": "other"}})).await.ok(201);
    lab.token("other", json!({"boundObjectRef": reference("p", "")})).await.refused(
        400,
        "BadRequest",
        &["cannot bind token for serviceaccount \"other\" to pod running with different serviceaccount name."],
    );
}

async fn token_review(lab: Lab) {
    let token =
        lab.token("default", json!({"audiences": ["mine"]})).await.ok(201)["status"]["token"]
            .as_str()
            .unwrap()
            .to_owned();
    let status = review(&lab, &token, "mine").await;
    assert_eq!(
        status["user"]["username"],
        format!("system:serviceaccount:{}:default", lab.namespace)
    );
    let status = review(&lab, &token, "other").await;
    assert_ne!(status["authenticated"], true);
    assert!(status["error"].as_str().unwrap().contains("invalid bearer token"), "{status}");
    let status = review(&lab, "nonsense", "mine").await;
    assert_ne!(status["authenticated"], true);
    let empty = lab.post("tokenreviews", json!({"spec": {"token": ""}})).await;
    empty.says(400, "BadRequest", "token is required for TokenReview in authentication");
}

async fn account_gone(lab: Lab) {
    let account = lab.account("a").await;
    assert_eq!(account.post("selfsubjectreviews", json!({})).await.code, 201);
    lab.delete("serviceaccounts/a", Value::Null).await.ok(200);
    let dead = || async { (account.get("/version").await.code == 401).then_some(()) };
    account.until("end of the token", dead).await;
}

async fn impersonation(lab: Lab) {
    let who = [
        ("impersonate-user", "ana"),
        ("impersonate-group", "team"),
        ("content-type", "application/json"),
    ];
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
        .to_string()
        .into_bytes();
    let review = lab.call("POST", "selfsubjectreviews", &who, body).await.ok(201).clone();
    assert_eq!(review["status"]["userInfo"]["username"], "ana");
    assert_eq!(review["status"]["userInfo"]["groups"], json!(["team", "system:authenticated"]));
    let account = lab.account("a").await;
    let reply = account.call("GET", "configmaps", &who[..1], Vec::new()).await;
    // The message names the right for this action alone, which is looked for first.
    let message = format!(
        "configmaps is forbidden: User \"system:serviceaccount:{0}:a\" cannot impersonate-on:user-info:list resource \"configmaps\" in API group \"\" in the namespace \"{0}\"",
        lab.namespace
    );
    reply.says(403, "Forbidden", &message);
}

async fn impersonation_whole(lab: Lab) {
    let who = [
        ("impersonate-user", "ana"),
        ("impersonate-uid", "u-1"),
        ("impersonate-extra-acme.example%2fteam", "shop"),
        ("content-type", "application/json"),
    ];
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let body = body.to_string().into_bytes();
    let review = lab.call("POST", "selfsubjectreviews", &who, body).await.ok(201).clone();
    let user = json!({
        "username": "ana", "uid": "u-1", "groups": ["system:authenticated"],
        "extra": {"acme.example/team": ["shop"]},
    });
    assert_eq!(review["status"]["userInfo"], user);
    let reply = lab.call("GET", "configmaps", &[("impersonate-group", "team")], Vec::new()).await;
    reply.refused(400, "BadRequest", &["without impersonating a user"]);
}

async fn impersonation_on(lab: Lab) {
    let account = lab.account("a").await;
    lab.account("b").await;
    let reading = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]);
    lab.allow("b", reading).await;
    let rules = json!([
        {"apiGroups": [""], "resources": ["configmaps", "secrets"],
         "verbs": ["impersonate-on:serviceaccount:list"]},
        {"apiGroups": ["authentication.k8s.io"], "resources": ["serviceaccounts"],
         "resourceNames": ["b"], "verbs": ["impersonate:serviceaccount"]},
    ]);
    lab.allow("a", rules).await;
    let user = |name: &str| format!("system:serviceaccount:{}:{name}", lab.namespace);
    let (b, c) = (user("b"), user("c"));
    let call = |path: &'static str, name: &str| {
        let (account, name) = (account.clone(), name.to_owned());
        async move { account.call("GET", path, &[("impersonate-user", &name)], Vec::new()).await }
    };
    account
        .until("right", || async { (call("configmaps", &b).await.code < 400).then_some(()) })
        .await;
    // His own rights count then, not the caller's.
    let refused = call("secrets", &b).await;
    refused.refused(403, "Forbidden", &[&b, "cannot list resource \"secrets\""]);
    let refused = call("pods", &b).await;
    refused.refused(403, "Forbidden", &[&user("a"), "impersonate-on:serviceaccount:list"]);
    let refused = call("configmaps", &c).await;
    refused.refused(403, "Forbidden", &["serviceaccounts", "impersonate:serviceaccount"]);
}
