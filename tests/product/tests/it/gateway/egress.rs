//! The outside as roles reach it through the gateway: tunnels, pages, search, and the self-test.

use codebutler_crds::Repo;
use codebutler_crds::condition::EGRESS_ENFORCED;
use codebutler_crds::egress::EgressPreset;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::{World, eventually, set_tools};

pub(super) const FETCH: &str = "/v1/web/fetch";

impl World {
    async fn allow(&self, hosts: &[&str]) {
        let patch = json!({"spec": {"egress": {"hosts": hosts}}});
        self.cluster.patch::<Repo>(self.cluster.team(), "shop", &patch).await;
    }

    async fn tunnel(&self, role: &str, to: &str) -> reqwest::Response {
        self.http
            .get(format!("{}/v1/connect", self.url))
            .query(&[("to", to)])
            .header("connection", "upgrade")
            .header("upgrade", "codebutler-tunnel")
            .bearer_auth(self.token(role))
            .send()
            .await
            .unwrap()
    }
}

fn said(answer: &Value) -> &str {
    answer["error"]["message"].as_str().unwrap_or_default()
}

/// A server that answers every request with this.
async fn server(answer: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let answer = answer.clone();
            tokio::spawn(async move {
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).await;
                let _ = stream.write_all(answer.as_bytes()).await;
            });
        }
    });
    address
}

fn page(kind: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

fn moved(to: &str) -> String {
    format!(
        "HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    )
}

#[tokio::test]
async fn a_tunnel_leads_to_listed_hosts_for_roles_with_commands() {
    let world = World::start(vec![]).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                let _ = tokio::io::copy(&mut read, &mut write).await;
            });
        }
    });
    let refused = world.tunnel("coder", &to).await;
    assert_eq!(refused.status(), 403, "no Bash");
    set_tools(&world, "coder", &["Bash", "Read"]).await;
    eventually("the list says no", || async {
        let answer = world.tunnel("coder", &to).await;
        let status = answer.status().as_u16();
        let words: Value = answer.json().await.unwrap();
        status == 403 && said(&words).contains("spec.egress.hosts")
    })
    .await;
    world.allow(&[&to]).await;
    eventually("the list says yes", || async { world.tunnel("coder", &to).await.status() == 101 })
        .await;
    let mut tunnel = world.tunnel("coder", &to).await.upgrade().await.unwrap();
    tunnel.write_all(b"hello there").await.unwrap();
    let mut heard = [0; 11];
    tunnel.read_exact(&mut heard).await.unwrap();
    assert_eq!(&heard, b"hello there");
    assert_eq!(world.tunnel("pm", &to).await.status(), 403, "another role");
    assert_eq!(world.tunnel("nonsense", &to).await.status(), 401, "nobody");
    assert!(
        world.metrics().await.contains("codebutler_egress_refused_total{reason=\"not_listed\"}")
    );
}

#[tokio::test]
async fn an_unknown_preset_is_refused_with_the_names_that_there_are() {
    let world = World::start(vec![]).await;
    let repos = world.cluster.api::<Repo>(world.cluster.team());
    let set = |presets: Value| {
        let patch = Patch::Merge(json!({"spec": {"egress": {"presets": presets}}}));
        let repos = repos.clone();
        async move { repos.patch("shop", &PatchParams::default(), &patch).await }
    };
    let refused = set(json!(["npm", "cargo"])).await.unwrap_err().to_string();
    assert!(
        refused.contains("spec.egress.presets[1]") && refused.contains("\"cargo\""),
        "{refused}"
    );
    for preset in EgressPreset::ALL {
        assert!(refused.contains(preset.name()), "{}: {refused}", preset.name());
    }
    let twice = set(json!(["npm", "npm"])).await.unwrap_err().to_string();
    assert!(twice.contains("Duplicate value"), "{twice}");
    set(json!(EgressPreset::ALL)).await.unwrap();
}

#[tokio::test]
async fn a_page_is_read_as_text_and_every_redirect_is_checked() {
    let world = World::start(vec![]).await;
    set_tools(&world, "pm", &["WebFetch", "WebSearch", "Read"]).await;
    let html = server(page(
        "text/html; charset=utf-8",
        "<h1>Cart</h1><script>x()</script><p>uses <b>decimals</b></p>",
    ))
    .await;
    let picture = server(page("image/png", "PNG")).await;
    let large = server(page("text/plain", &"word ".repeat(50_000))).await;
    let inside = server(page("text/plain", "inside")).await;
    let onward = server(moved(&format!("http://{html}/x"))).await;
    let inward = server(moved(&format!("http://{inside}/latest/meta-data"))).await;
    let metadata = server(moved("http://169.254.169.254/latest/meta-data")).await;
    let file = server(moved("file:///etc/passwd")).await;
    let listed = [&html, &picture, &large, &onward, &inward, &metadata, &file];
    let hosts: Vec<&str> =
        listed.iter().map(|host| host.as_str()).chain(["169.254.169.254"]).collect();
    world.allow(&hosts).await;
    let fetch = |url: String| {
        let world = &world;
        async move { world.post("pm", FETCH, &json!({"url": url})).await }
    };
    eventually("the caches know", || async { fetch(format!("http://{html}/")).await.0 == 200 })
        .await;
    let (_, shown) = fetch(format!("http://{onward}/")).await;
    assert_eq!(shown["url"], format!("http://{html}/x"));
    let text = shown["text"].as_str().unwrap();
    assert!(text.contains("Cart") && text.contains("decimals") && !text.contains("x()"), "{text}");
    let (_, shown) = fetch(format!("http://{large}/")).await;
    assert_eq!(
        (&shown["truncated"], &shown["page"], &shown["pages"]),
        (&json!(false), &json!(1), &json!(7))
    );
    let mut whole = String::new();
    for page in 1..=7 {
        let wanted = json!({"url": format!("http://{large}/"), "page": page});
        let (_, shown) = world.post("pm", FETCH, &wanted).await;
        whole.push_str(shown["text"].as_str().unwrap());
    }
    assert_eq!(whole, "word ".repeat(50_000));
    let beyond = json!({"url": format!("http://{large}/"), "page": 8});
    let (status, answer) = world.post("pm", FETCH, &beyond).await;
    assert!(status == 400 && said(&answer).contains("7 pages only"), "{answer}");
    for url in [
        format!("http://{picture}/"),
        format!("http://{inward}/"),
        format!("http://{metadata}/"),
        format!("http://{file}/"),
        format!("http://{inside}/"),
        format!("http://me:pw@{html}/"),
        "http://169.254.169.254/latest/meta-data".to_owned(),
        "file:///etc/passwd".to_owned(),
        "http://2852039166/".to_owned(),
        "http://[::ffff:169.254.169.254]/".to_owned(),
        "gopher://x/".to_owned(),
        String::new(),
    ] {
        let (status, answer) = fetch(url.clone()).await;
        assert!(
            (400..500).contains(&status) && !said(&answer).is_empty(),
            "{url}: {status} {answer}"
        );
    }
    let (status, answer) = world.post("pm", "/v1/web/search", &json!({"query": "x"})).await;
    assert!(status == 403 && said(&answer).contains("no web search"), "{answer}");
    let (status, _) = world.post("lead", FETCH, &json!({"url": format!("http://{html}/")})).await;
    assert_eq!(status, 403, "a role without the tool");
}

#[tokio::test]
async fn a_document_is_handed_to_the_role_whole_under_the_rules_of_pages() {
    let world = World::start(vec![]).await;
    set_tools(&world, "pm", &["WebFetch", "Read"]).await;
    let pdf = server(page("application/pdf", "%PDF-1.7 and so on")).await;
    let unlisted = server(page("application/pdf", "%PDF-1.7")).await;
    let picture = server(page("image/png", "PNG")).await;
    let huge = server(page("application/pdf", "").replace(": 0", ": 99999999")).await;
    let inward = server(moved(&format!("http://{unlisted}/x.pdf"))).await;
    let misnamed = server(page("text/plain", "%PDF-1.7 and no text")).await;
    world.allow(&[&pdf, &picture, &huge, &inward, &misnamed].map(String::as_str)).await;
    let shown = eventually("the caches know", || async {
        let wanted = json!({"url": format!("http://{pdf}/a.pdf")});
        let (status, shown) = world.post("pm", FETCH, &wanted).await;
        status == 200 && shown["isDocument"] == true && shown["text"] == ""
    });
    shown.await;
    let get = |role: &'static str, url: String| {
        let world = &world;
        async move {
            let request = world.http.get(format!("{}/v1/web/files", world.url));
            let request = request.query(&[("url", url)]).bearer_auth(world.token(role));
            let answer = request.send().await.unwrap();
            (answer.status().as_u16(), answer.text().await.unwrap())
        }
    };
    let whole = get("pm", format!("http://{pdf}/a.pdf")).await;
    assert_eq!(whole, (200, "%PDF-1.7 and so on".to_owned()));
    let wanted = json!({"url": format!("http://{misnamed}/")});
    assert_eq!(world.post("pm", FETCH, &wanted).await.1["isDocument"], true, "by its bytes");
    let whole = get("pm", format!("http://{misnamed}/")).await;
    assert_eq!(whole, (200, "%PDF-1.7 and no text".to_owned()));
    for (role, url, words) in [
        ("pm", format!("http://{unlisted}/x.pdf"), "not"),
        ("pm", format!("http://{inward}/x.pdf"), "not"),
        ("pm", format!("http://{picture}/x.pdf"), "only text and documents"),
        ("pm", format!("http://{huge}/x.pdf"), "more than 64 MB"),
        ("lead", format!("http://{pdf}/a.pdf"), "WebFetch"),
    ] {
        let (status, said) = get(role, url.clone()).await;
        assert!((400..500).contains(&status) && said.contains(words), "{url}: {status} {said}");
    }
}

impl World {
    /// Reports a role's tries to get out, and returns what its pod is answered. `ways` is empty if the pod is kept
    /// in.
    async fn gets_out(&self, role: &str, ways: &[&str], trial: &str) -> (u16, Value) {
        let body = json!({"reached": !ways.is_empty(), "ways": ways, "trial": trial});
        self.post(role, "/v1/egress-check", &body).await
    }

    /// The Repo's word on it: status and message.
    async fn enforced(&self) -> Option<(String, String)> {
        let conditions = self.repo().await.status.unwrap_or_default().conditions;
        let found = conditions.into_iter().find(|c| c.type_ == EGRESS_ENFORCED);
        found.map(|condition| (condition.status, condition.message))
    }

    async fn is_enforced(&self) -> Option<bool> {
        self.enforced().await.map(|(status, _)| status == "True")
    }
}

#[tokio::test]
async fn a_way_past_the_gateway_stops_work_until_somebody_decides() {
    let world = World::start(vec![]).await;
    assert_eq!(world.gets_out("pm", &[], "begun").await.0, 200);
    assert_eq!(world.is_enforced().await, Some(true));
    let ways = ["clusterDns", "metadata"];
    let (status, answer) = world.gets_out("pm", &ways, "overdue").await;
    assert!(status == 502 && said(&answer).contains("requireEnforcement"), "{answer}");
    let (status, message) = world.enforced().await.unwrap();
    assert!(status == "False" && message.contains("cluster's DNS"), "{message}");
    assert!(message.contains("169.254.169.254") && !message.contains("API server"), "{message}");
    eventually("sessions are refused", || async { world.get("pm", "/v1/session").await.0 == 502 })
        .await;
    let told = world.slack.messages(&world.channel, Some(&world.root));
    assert!(told.iter().any(|m| m.shown.contains("requireEnforcement")), "the thread is told");
    let patch = json!({"spec": {"egress": {"requireEnforcement": false}}});
    world.cluster.patch::<Repo>(world.cluster.team(), "shop", &patch).await;
    eventually("work goes on", || async { world.get("pm", "/v1/session").await.0 == 200 }).await;
}

#[tokio::test]
async fn a_way_to_the_own_node_alone_has_a_lesser_remedy() {
    let world = World::start(vec![]).await;
    let (status, answer) = world.gets_out("pm", &["node"], "overdue").await;
    assert!(status == 502 && said(&answer).contains("allowOwnNode: true"), "{answer}");
    let (_, message) = world.enforced().await.unwrap();
    assert!(message.contains("allowOwnNode: true"), "{message}");
    // As on a cluster of kind's with one node.
    let (_, answer) = world.gets_out("pm", &["node", "apiServer"], "overdue").await;
    assert!(said(&answer).contains("(on kind a worker)"), "{answer}");
    let (_, message) = world.enforced().await.unwrap();
    assert!(message.contains("(on kind a worker)"), "{message}");
    let (_, answer) = world.gets_out("pm", &["node", "metadata"], "overdue").await;
    assert!(!said(&answer).contains("allowOwnNode"), "{answer}");
}

#[tokio::test]
async fn who_allows_the_own_node_need_not_wait_for_the_pods_of_before() {
    let world = World::start(vec![]).await;
    for role in ["pm", "coder"] {
        assert_eq!(world.gets_out(role, &["node"], "overdue").await.0, 502);
    }
    assert_eq!(world.is_enforced().await, Some(false));
    let patch = json!({"spec": {"egress": {"allowOwnNode": true}}});
    world.cluster.patch::<Repo>(world.cluster.team(), "shop", &patch).await;
    let known = || world.gateway.work.context.repo(world.cluster.team(), "shop");
    eventually("the change is known", || async {
        known().is_some_and(|repo| repo.spec.egress.allow_own_node)
    })
    .await;
    assert_eq!(world.gets_out("pm", &["node"], "overdue").await.0, 200, "made before");
    let (status, message) = world.enforced().await.unwrap();
    assert!(status == "True" && message.contains("but their own node"), "{message}");
    assert_eq!(world.get("coder", "/v1/session").await.0, 200, "nor has any other role to");
    assert_eq!(world.gets_out("pm", &["node", "metadata"], "overdue").await.0, 502);
}

#[tokio::test]
async fn one_pods_bad_moment_is_not_the_repos_condition() {
    let world = World::start(vec![]).await;
    let api = ["apiServer"];
    assert_eq!(world.gets_out("pm", &api, "begun").await.0, 502, "it has to wait");
    assert_eq!(world.is_enforced().await, None, "nobody knows yet");
    let told = world.slack.messages(&world.channel, Some(&world.root));
    assert!(!told.iter().any(|m| m.shown.contains("requireEnforcement")), "nobody is told yet");
    assert_eq!(world.gets_out("coder", &[], "begun").await.0, 200);
    assert_eq!(world.is_enforced().await, Some(true));
    assert_eq!(world.gets_out("pm", &api, "overdue").await.0, 502, "a bad node does not work");
    assert_eq!(world.is_enforced().await, Some(true), "nor does it stop the others");
    assert_eq!(world.get("coder", "/v1/session").await.0, 200);
    assert_eq!(world.gets_out("pm", &[], "begun").await.0, 200, "the wall came");
    assert_eq!(world.get("pm", "/v1/session").await.0, 200);
}

#[tokio::test]
async fn two_pods_that_get_out_are_the_repos_condition_and_it_does_not_flap() {
    let world = World::start(vec![]).await;
    assert_eq!(world.gets_out("lead", &[], "begun").await.0, 200);
    assert_eq!(world.gets_out("pm", &["apiServer"], "long").await.0, 502);
    assert_eq!(world.is_enforced().await, Some(true), "one of them alone");
    assert_eq!(world.gets_out("coder", &["internet"], "long").await.0, 502);
    let (status, message) = world.enforced().await.unwrap();
    assert_eq!(status, "False");
    assert!(message.contains("API server") && message.contains("internet"), "{message}");
    for _ in 0..3 {
        assert_eq!(world.gets_out("lead", &[], "begun").await.0, 200);
        assert_eq!(world.is_enforced().await, Some(false), "others still get out");
    }
    eventually("the cache knows", || async { world.get("coder", "/v1/session").await.0 == 502 })
        .await;
    assert_eq!(world.get("lead", "/v1/session").await.0, 200, "one that is kept in works on");
    assert_eq!(world.gets_out("pm", &[], "begun").await.0, 200);
    assert_eq!(world.gets_out("coder", &[], "begun").await.0, 200);
    assert_eq!(world.is_enforced().await, Some(true));
}

#[tokio::test]
async fn what_leaves_as_text_is_masked() {
    let world = World::start(vec![]).await;
    let secret = ["ghp", &"a1B2".repeat(9)].join("_");
    let patch = json!({"spec": {"policy": {"redaction": [{"name": "customer", "pattern": "cust_[0-9]{6}"}]}}});
    world.cluster.patch::<Repo>(world.cluster.team(), "shop", &patch).await;
    let key = std::sync::atomic::AtomicU32::new(0);
    eventually("the Repo's own pattern", || async {
        let n = key.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let text = format!("key {secret} of cust_123456");
        let body = json!({"key": format!("k{n}"), "text": text});
        assert_eq!(world.post("pm", "/v1/messages", &body).await.0, 200);
        let shown = world.slack.messages(&world.channel, Some(&world.root));
        assert!(!shown.iter().any(|m| m.shown.contains(&secret)), "a token was posted");
        shown.iter().any(|m| m.shown.contains("key [redacted:github-token] of [redacted:customer]"))
    })
    .await;
}
