//! A network with one way out: a proxy, and certificates of the company's own authority.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use codebutler_crds::Repo;
use codebutler_gateway_core::dial::{DialOptions, OutsideDialer};
use codebutler_testbed::models::{ModelScript, ModelServer, ScriptStep};
use codebutler_testbed::proxy::{CompanyProxy, ShownCertificates};
use codebutler_testbed::slack::SlackOptions;
use futures::FutureExt as _;
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::AbortOnDropHandle;

use super::{World, answer, eventually, set_tools};

const SLACK: &str = "https://slack.example.com";
const GIT: &str = "https://git.example.com/acme/shop";
const MODELS: &str = "https://models.example.com/v1";

/// A world behind a proxy, and the gateway in it.
struct Company {
    world: World,
    proxy: CompanyProxy,
    url: String,
    /// Names that somebody wanted to have resolved.
    asked: Arc<Mutex<Vec<String>>>,
    stop: CancellationToken,
    _alive: (DropGuard, AbortOnDropHandle<()>),
}

/// Dial options by which the gateway is told of the proxy.
fn through(proxy: &CompanyProxy, trusted_ca: Option<PathBuf>) -> DialOptions {
    let url = proxy.url();
    DialOptions { https_proxy: url.clone(), http_proxy: url, trusted_ca, ..DialOptions::default() }
}

impl Company {
    async fn start(trusts: bool) -> Self {
        let script = ModelScript::of("coder", vec![ScriptStep::say("Here I am.")]);
        let known = SlackOptions { origin: Some(SLACK.to_owned()), ..SlackOptions::default() };
        let world = World::play_in(known, script, &json!({}), &json!({})).await;
        let page = axum::Router::new().fallback(axum::routing::any(async || "A page."));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let pages = listener.local_addr().unwrap();
        let page = tokio::spawn(async move { axum::serve(listener, page).await.unwrap() });
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let proxy = CompanyProxy::start(&[
            ("slack.example.com", at(world.slack.port())),
            ("git.example.com", at(world.github.port())),
            ("models.example.com", at(world.models.port())),
            ("pages.example.com", pages),
            ("registry.npmjs.org", pages),
        ])
        .await
        .unwrap();
        let ca = world.dir.path().join("company.pem");
        std::fs::write(&ca, proxy.ca()).unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        let lookup = move |host, _| {
            log.lock().unwrap().push(host);
            async { Err(std::io::Error::other("nobody resolves here")) }.boxed()
        };
        let options = through(&proxy, trusts.then_some(ca));
        let dialer = OutsideDialer::with_lookup(&options, Arc::new(lookup)).unwrap();
        aim(&world, GIT, MODELS).await;
        let stop = CancellationToken::new();
        let gateway = super::gateway_by(&world, dialer, &stop).await;
        let (slack, until) = (gateway.work.slack.clone(), stop.clone());
        tokio::spawn(async move { slack.run(until).await });
        let url = super::serve(gateway).await;
        let alive = (stop.clone().drop_guard(), AbortOnDropHandle::new(page));
        Self { world, proxy, url, asked, stop, _alive: alive }
    }

    async fn get(&self, role: &str, path: &str) -> (u16, Value) {
        let request = self.world.http.get(format!("{}{path}", self.url));
        answer(request.bearer_auth(self.world.token(role))).await
    }

    async fn post(&self, role: &str, path: &str, body: &Value) -> (u16, Value) {
        let request = self.world.http.post(format!("{}{path}", self.url)).json(body);
        answer(request.bearer_auth(self.world.token(role))).await
    }

    async fn ask_model(&self) -> (u16, Value) {
        let call = json!({
            "model": ModelServer::model("coder"), "messages": [{"role": "user", "content": "hi"}],
        });
        self.post("coder", "/v1/chat/completions", &call).await
    }

    /// Waits until three conditions of the Repo say this.
    async fn says(&self, remedy: &str) {
        for type_ in ["GitReachable", "ModelReachable", "SlackReachable"] {
            eventually(&format!("{type_} says: {remedy}"), || async {
                let _ = self.get("coder", "/v1/session").await;
                let _ = self.ask_model().await;
                self.world.condition(type_).await.contains(remedy)
            })
            .await;
        }
    }

    /// Waits until all goes on, with nobody's help.
    async fn goes_on(&self) {
        eventually("the session", || async { self.get("coder", "/v1/session").await.0 == 200 })
            .await;
        eventually("the model", || async { self.ask_model().await.0 == 200 }).await;
        let long = std::time::Duration::from_secs(30);
        self.world.slack.wait_connected(1, long).await.unwrap();
    }
}

/// Lets the Repo and its Secrets name these.
async fn aim(world: &World, git: &str, models: &str) {
    world.cluster.secret("git", git, &json!({"token": world.github.token()})).await;
    world.cluster.secret("model", models, &json!({"apiKey": world.models.api_key()})).await;
    let spec = json!({"git": {"url": git}, "model": {"baseURL": models},
        "egress": {"hosts": ["pages.example.com", "10.0.0.7", "inside.svc", "127.0.0.1"]}});
    world.cluster.patch::<Repo>(world.cluster.team(), "shop", &json!({"spec": spec})).await;
}

#[tokio::test]
async fn everything_goes_through_the_proxy_and_nothing_beside_it() {
    let company = Company::start(true).await;
    set_tools(&company.world, "coder", &["Bash", "WebFetch", "SendMessage"]).await;
    company.goes_on().await;
    let (status, refs) = company.get("coder", "/v1/git/info/refs?service=git-upload-pack").await;
    assert_eq!(status, 200, "{refs}");
    assert!(!refs.to_string().contains("ERR"), "{refs}");
    let message = json!({"key": "k", "text": "hello"});
    let (status, body) = company.post("coder", "/v1/messages", &message).await;
    assert_eq!(status, 200, "{body}");
    let page = json!({"url": "https://pages.example.com/"});
    eventually("a page", || async {
        company.post("coder", "/v1/web/fetch", &page).await.1["text"] == "A page."
    })
    .await;
    let tunnel = |to: &'static str| {
        let request = company.world.http.get(format!("{}/v1/connect", company.url));
        let request = request.query(&[("to", to)]).header("connection", "upgrade");
        let request = request.header("upgrade", "codebutler-tunnel");
        answer(request.bearer_auth(company.world.token("coder")))
    };
    let open = company.world.http.get(format!("{}/v1/connect", company.url));
    let open = open.query(&[("to", "pages.example.com:443")]).header("connection", "upgrade");
    let open = open.header("upgrade", "codebutler-tunnel");
    let open = open.bearer_auth(company.world.token("coder")).send().await.unwrap();
    assert_eq!(open.status(), 101);
    let hosts = ["git", "models", "pages", "slack"].map(|name| format!("{name}.example.com:443"));
    assert_eq!(company.proxy.seen(), hosts);
    // Whoever resolves for us might know what we are not to reach.
    for inside in ["10.0.0.7:443", "inside.svc:443", "127.0.0.1:443"] {
        let (status, body) = tunnel(inside).await;
        assert_eq!(status, 403, "{inside}: {body}");
        assert!(body.to_string().contains("internal address"), "{body}");
    }
    assert_eq!(company.proxy.seen(), hosts);
    assert_eq!(*company.asked.lock().unwrap(), Vec::<String>::new(), "asked beside the proxy");
    company.stop.cancel();
}

#[tokio::test]
async fn commands_reach_the_hosts_of_a_preset_and_no_other() {
    let company = Company::start(true).await;
    set_tools(&company.world, "coder", &["Bash", "SendMessage"]).await;
    let egress = json!({"hosts": [], "presets": ["npm"]});
    let patch = json!({"spec": {"egress": egress}});
    company.world.cluster.patch::<Repo>(company.world.cluster.team(), "shop", &patch).await;
    let tunnel = |to: &'static str| {
        let request = company.world.http.get(format!("{}/v1/connect", company.url));
        let request = request.query(&[("to", to)]).header("connection", "upgrade");
        let request = request.header("upgrade", "codebutler-tunnel");
        request.bearer_auth(company.world.token("coder")).send()
    };
    eventually("the preset opens its host", || async {
        tunnel("registry.npmjs.org:443").await.unwrap().status() == 101
    })
    .await;
    assert!(company.proxy.seen().contains(&"registry.npmjs.org:443".to_owned()));
    for (to, remedy) in [
        ("index.crates.io:443", "`crates` in spec.egress.presets"),
        ("pages.example.com:443", "spec.egress.hosts"),
        ("registry.npmjs.org:22", "`npm` in spec.egress.presets"),
    ] {
        let refused = tunnel(to).await.unwrap();
        assert_eq!(refused.status(), 403, "{to}");
        let said = refused.text().await.unwrap();
        assert!(said.contains(remedy), "{to}: {said}");
        assert!(!company.proxy.seen().contains(&to.to_owned()), "{to}");
    }
    let (_, session) = company.get("coder", "/v1/session").await;
    let shown = session["hosts"].as_array().unwrap();
    assert!(shown.contains(&json!("registry.npmjs.org")), "a role is told: {session}");
}

#[tokio::test]
async fn a_proxy_that_asks_for_a_password_is_told_of_and_work_goes_on() {
    let company = Company::start(true).await;
    company.proxy.ask_for(Some("gateway:hunter2"));
    company.says("put valid ones into the URL of HTTPS_PROXY").await;
    company.proxy.ask_for(None);
    company.goes_on().await;
}

#[tokio::test]
async fn a_proxy_that_asks_for_a_password_in_clear_is_told_of_too() {
    let company = Company::start(true).await;
    let clear = [GIT, MODELS].map(|url| url.replace("https://", "http://"));
    aim(&company.world, &clear[0], &clear[1]).await;
    company.proxy.ask_for(Some("gateway:hunter2"));
    company.says("HTTP_PROXY for what is reached in clear").await;
    set_tools(&company.world, "coder", &["GHIssues"]).await;
    let (_, told) = company.get("coder", "/v1/issues").await;
    assert!(told.to_string().contains("HTTP_PROXY for what is reached in clear"), "{told}");
    company.proxy.ask_for(None);
    company.goes_on().await;
}

#[tokio::test]
async fn a_certificate_that_has_expired_is_told_of_and_work_goes_on() {
    let company = Company::start(true).await;
    company.proxy.show(ShownCertificates::Expired);
    company.says("its certificate has expired").await;
    company.proxy.show(ShownCertificates::Good);
    company.goes_on().await;
}

#[tokio::test]
async fn an_own_authority_that_has_expired_is_told_of_and_work_goes_on() {
    let company = Company::start(true).await;
    company.proxy.show(ShownCertificates::ByExpired);
    company
        .says("the authority in gateway.trustedCA that signed its certificate has expired")
        .await;
    assert!(company.world.github.seen().is_empty(), "nothing was asked under that name");
    assert_eq!(company.world.models.requests().len(), 0);
    company.proxy.show(ShownCertificates::Good);
    company.goes_on().await;
}

#[tokio::test]
async fn an_authority_that_nobody_named_is_told_of() {
    let company = Company::start(false).await;
    company.says("name that authority in gateway.trustedCA").await;
    assert!(company.world.github.seen().is_empty());
    assert_eq!(company.world.models.requests().len(), 0);
}

#[tokio::test]
async fn a_repo_names_no_host_inside_and_none_in_clear() {
    let world = World::start(vec![]).await;
    let (git, models) = (world.remote.url().to_owned(), world.models.url());
    let stop = CancellationToken::new();
    let dialer = OutsideDialer::new(&DialOptions::default()).unwrap();
    let gateway = super::gateway_by(&world, dialer, &stop).await;
    let url = super::serve(gateway).await;
    let before = (world.github.seen().len(), world.models.requests().len());
    let ask = async |path: &str, body: Option<&Value>| {
        let request = match body {
            Some(body) => world.http.post(format!("{url}{path}")).json(body),
            None => world.http.get(format!("{url}{path}")),
        };
        answer(request.bearer_auth(world.token("coder"))).await
    };
    let call = json!({
        "model": ModelServer::model("coder"), "messages": [{"role": "user", "content": "hi"}],
    });
    for inside in [&*git, "https://10.96.0.1/acme/shop", "https://169.254.169.254/acme/shop"] {
        aim(&world, inside, &models).await;
        eventually(inside, || async {
            let (status, body) = ask("/v1/session", None).await;
            assert_ne!(status, 200, "{body}");
            let host = inside.split('/').nth(2).unwrap();
            let told = world.condition("GitReachable").await;
            told.contains("gateway.egressAllow") && told.contains(host)
        })
        .await;
        let (status, body) = ask("/v1/chat/completions", Some(&call)).await;
        assert_eq!((status, body["error"]["code"].as_str()), (502, Some("upstream")), "{body}");
        assert!(body.to_string().contains("gateway.egressAllow"), "{body}");
    }
    assert_eq!((world.github.seen().len(), world.models.requests().len()), before);
    // With the network opened, the Secret still says in clear or not.
    aim(&world, &git, &models).await;
    let bare = git.trim_start_matches("http://");
    world.cluster.secret("git", &format!("https://{bare}"), &json!({"token": "t"})).await;
    eventually("the Secret names https", || async {
        let _ = world.get("coder", "/v1/session").await;
        world.condition("GitReachable").await.contains("may not be sent to `http://127.0.0.1")
    })
    .await;
    assert_eq!(world.github.seen().len(), before.0);
    drop(stop);
}
