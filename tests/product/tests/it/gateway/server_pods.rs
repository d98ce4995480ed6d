//! Servers in pods of their own: asked for by the gateway, made by the controller, run by a kubelet, and reached over
//! the bridge. What runs there can do nothing else.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use codebutler_controller::args::ControllerArgs;
use codebutler_crds::{AgentRole, Repo, Thread, names};
use codebutler_gateway::api;
use codebutler_gateway::tls;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_mcp::{ContentBody, ServerSession, SessionSetup, ToolCall};
use codebutler_mcp_servers::bridges::{PodLink, PodLinkError, open_pod_link};
use codebutler_runtime::args::LeaseArgs;
use codebutler_testbed::kubelet::{KubeletOptions, LocalImage, ProcessKubelet, ServiceForward};
use codebutler_testbed::models::ModelScript;
use codebutler_testbed::stack::toolchain::{AGENT_IMAGE, build_images};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::ResourceExt as _;
use serde_json::{Value, json};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::cluster::ACCOUNT;
use super::{World, eventually};
use crate::support::needs_process_kubelet;

/// The image of the servers here: this machine's programs, and a server at `/srv/server.py`.
pub(super) const IMAGE: &str = "acme/tools:1";
/// The same, whose pull takes a while.
pub(super) const LARGE: &str = "acme/large-tools:1";
const PULL: Duration = Duration::from_secs(15);
/// A server of the protocol that tells what it sees of its surroundings.
const SERVER: &str = r#"
import json, os, socket, sys, time
def attempt(action):
    try:
        action()
        return "yes"
    except OSError as error:
        return type(error).__name__
def connect(host, port):
    socket.create_connection((host, port), 2).close()
def ask_proxy(host):
    with socket.create_connection(("127.0.0.1", 8417), 5) as proxy:
        proxy.sendall(f"CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        return proxy.recv(4096).decode()
def look(arguments):
    home = os.environ["HOME"]
    return {
        "auth": os.environ.get("AUTH"), "tz": os.environ.get("TZ"), "uid": os.getuid(),
        "token": attempt(lambda: open("/var/run/secrets/codebutler/token").read()),
        "account": attempt(lambda: open("/var/run/secrets/kubernetes.io/serviceaccount/token").read()),
        "home": attempt(lambda: open(home + "/cache", "w").close()),
        "root": attempt(lambda: open("/srv/other", "w").close()),
        "api": attempt(lambda: connect(os.environ["API"].split(":")[0], int(os.environ["API"].split(":")[1]))),
        "proxy": ask_proxy(arguments["host"]).split("\r\n")[0],
        "tree": os.path.exists("/workspace"),
    }
print("starting", file=sys.stderr, flush=True)
list_takes = 0
for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if "id" not in message:
        continue
    result = {}
    known = message.get("params", {}).get("capabilities", {}).get("elicitation", {})
    if method == "initialize" and "STRICT" in os.environ and known:
        error = {"code": -32603, "message": 'Unrecognized field "form" (class ClientCapabilities$Elicitation)'}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
        continue
    if method == "initialize" and "NEWEST" in os.environ:
        error = {"code": -32022, "message": "Unsupported protocol version"}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
        continue
    if method == "server/discover":
        result = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "resultType": "complete",
                  "ttlMs": 0, "cacheScope": "private"}
    elif method == "initialize":
        result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "acme", "version": "1.2"}}
    elif method == "tools/list":
        time.sleep(list_takes)
        list_takes = 0
        result = {"tools": [{"name": "look", "description": "Looks", "inputSchema": {"type": "object"},
                             "annotations": {"readOnlyHint": True}}]}
    elif method == "tools/call" and "sleep" in message["params"]["arguments"]:
        time.sleep(message["params"]["arguments"]["sleep"])
        if "changes" in message["params"]["arguments"]:
            list_takes = message["params"]["arguments"]["changes"]
            print(json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}), flush=True)
            time.sleep(2)
        result = {"content": [{"type": "text", "text": "slept well"}]}
    elif method == "tools/call":
        seen = look(message["params"]["arguments"])
        result = {"content": [{"type": "text", "text": json.dumps(seen)}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
    if "hang" in message.get("params", {}).get("arguments", {}):
        time.sleep(3600)
"#;

/// The gateway's world with a controller and a node.
pub(super) struct Node {
    pub world: World,
    pub kubelet: ProcessKubelet,
    _stop: DropGuard,
}

impl Node {
    pub(super) async fn start(servers: Value) -> Self {
        let world = World::play(
            ModelScript::of("coder", vec![]),
            &json!({"mcpServers": servers}),
            &json!({}),
        )
        .await;
        let cluster = &world.cluster;
        let stop = CancellationToken::new();
        // The account of these tests is the Repo's, as the controller makes it.
        let owner = json!({"apiVersion": "codebutler.dev/v1alpha1", "kind": "Repo", "name": "shop",
            "uid": world.repo().await.uid(), "controller": true});
        let change = json!({"metadata": {"ownerReferences": [owner]}});
        cluster.patch::<ServiceAccount>(cluster.team(), ACCOUNT, &change).await;
        cluster
            .apply(&json!({
                "apiVersion": "v1", "kind": "Service",
                "metadata": {"name": "codebutler-gateway", "namespace": cluster.system()},
                "spec": {"ports": [{"port": 8443, "targetPort": 8443}]},
            }))
            .await;
        let gateway = serve_tls(&world, &stop).await;
        tokio::spawn(codebutler_controller::serve_controller(
            controller_args(&world),
            cluster.controller().await,
            stop.clone(),
        ));
        let kubelet = start_kubelet(&world, gateway).await;
        Self { world, kubelet, _stop: stop.drop_guard() }
    }

    /// Repo and Thread as the gateway has them.
    pub(super) fn known(&self) -> (Arc<Repo>, Arc<Thread>) {
        let (context, world) = (&self.world.gateway.bridges.context, &self.world);
        let namespace = world.cluster.team().to_owned();
        let repo = context.repo(&namespace, "shop").unwrap();
        let key = ThreadKey { namespace, name: world.name.clone() };
        (repo, context.thread(&key).unwrap())
    }

    pub(super) async fn open(&self, server: &str) -> Result<PodLink, PodLinkError> {
        let (repo, thread) = self.known();
        open_pod_link(&self.world.gateway.bridges, &repo, Some(&thread), server).await
    }

    pub(super) fn pod(&self, server: &str) -> String {
        names::mcp_pod_name(&self.world.name, server)
    }

    async fn has_pod(&self, server: &str) -> bool {
        let pods = self.world.cluster.api::<Pod>(self.world.cluster.team());
        pods.get_opt(&self.pod(server)).await.unwrap().is_some()
    }

    /// The token of a server's pod, as its bridge has it.
    async fn token(&self, server: &str) -> String {
        let (team, pod) = (self.world.cluster.team(), self.pod(server));
        let argv = ["cat", names::pod::TOKEN_FILE];
        let read = self.kubelet.exec(team, &pod, names::pod::BRIDGE, &argv).await.unwrap();
        String::from_utf8(read.stdout).unwrap()
    }

    pub(super) async fn end(self) {
        self.kubelet.shutdown().await;
    }
}

/// The gateway's API over TLS, as agents reach it.
async fn serve_tls(world: &World, stop: &CancellationToken) -> SocketAddr {
    let args = super::tls::args(&world.cluster);
    let tls = tls::server_config(&world.cluster.gateway, &args, stop.clone()).await.unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = api::build_router(world.gateway.clone());
    tokio::spawn(stop.clone().run_until_cancelled_owned(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, app) = (acceptor.clone(), app.clone());
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let serving = hyper::server::conn::http1::Builder::new();
                let service = TowerToHyperService::new(app);
                let _ =
                    serving.serve_connection(TokioIo::new(stream), service).with_upgrades().await;
            });
        }
    }));
    address
}

fn controller_args(world: &World) -> ControllerArgs {
    ControllerArgs {
        namespaces: world.cluster.watched(),
        namespace: world.cluster.system().to_owned(),
        gateway_service: "codebutler-gateway".to_owned(),
        gateway_port: 8443,
        gateway_shards: 1,
        agent_image: AGENT_IMAGE.to_owned(),
        workspace_image: "debian:12".to_owned(),
        agent_pull_secrets: Vec::new(),
        cluster_dns: Vec::new(),
        agent_pull_policy: None,
        agent_pods: Box::default(),
        lease: LeaseArgs { identity: Some("controller-0".to_owned()), lease_seconds: 4 },
        metrics_address: ([127, 0, 0, 1], 0).into(),
    }
}

async fn start_kubelet(world: &World, gateway: SocketAddr) -> ProcessKubelet {
    let (dir, program) = (world.dir.path(), Path::new(env!("CARGO_BIN_EXE_demo")));
    let node = world.cluster.place.named("node");
    let mut options = KubeletOptions::new(node, dir.join("kubelet"), program);
    options.images = build_images(program);
    let script = dir.join("server.py");
    std::fs::write(&script, SERVER).unwrap();
    let binds = vec![(script, "/srv/server.py".to_owned())];
    let image = LocalImage { binds, ..LocalImage::default() };
    options.images.insert(LARGE.to_owned(), LocalImage { pull: PULL, ..image.clone() });
    options.images.insert(IMAGE.to_owned(), image);
    options.namespaces = vec![world.cluster.team().to_owned()];
    options.services = vec![ServiceForward {
        namespace: world.cluster.system().to_owned(),
        service: "codebutler-gateway".to_owned(),
        port: 8443,
        target: gateway,
    }];
    options.backoff = Duration::from_secs(1);
    ProcessKubelet::start(world.cluster.admin(), options).await.unwrap()
}

pub(super) fn server(name: &str) -> Value {
    json!({
        "name": name, "image": IMAGE, "command": ["python3", "/srv/server.py"],
        "env": [
            {"name": "API", "value": "10.96.0.1:443"},
            {"name": "AUTH", "secret": {"name": "tracker", "key": "token", "prefix": "Bearer "}},
        ],
        "egress": ["allowed.invalid"],
    })
}

pub(super) async fn look(session: &ServerSession, host: &str) -> Value {
    let arguments = json!({"host": host}).as_object().cloned().unwrap();
    let call = ToolCall { name: "look".to_owned(), arguments, ..ToolCall::default() };
    let result = session.call_tool(call).await.unwrap();
    let ContentBody::Text(text) = &result.items[0].body else { panic!("{result:?}") };
    serde_json::from_str(text).unwrap()
}

#[tokio::test]
async fn a_server_in_a_pod_answers_sees_nothing_and_goes_when_it_is_idle() {
    if needs_process_kubelet("its image is a script of the test") {
        return;
    }
    let node = Node::start(json!([server("db")])).await;
    let world = &node.world;
    world
        .cluster
        .secret("tracker", "https://allowed.invalid", &json!({"token": "s3cr3t-of-tracker"}))
        .await;
    let opened = node.open("db").await.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(opened.secrets.values, ["s3cr3t-of-tracker"]);
    let (session, _events) =
        ServerSession::open(opened.link, SessionSetup::default()).await.unwrap();
    assert_eq!(session.facts().name, "acme");
    let seen = look(&session, "allowed.invalid:443").await;
    assert_eq!(seen["auth"], "Bearer s3cr3t-of-tracker");
    assert_eq!((&seen["tz"], &seen["home"]), (&json!("UTC"), &json!("yes")));
    assert_ne!(seen["uid"], 0);
    for closed in ["token", "account", "root", "api"] {
        assert_ne!(seen[closed], "yes", "{closed}: {seen}");
    }
    assert_eq!(seen["tree"], false);
    let listed = seen["proxy"].as_str().unwrap();
    assert!(listed.contains("can't be resolved"), "the gateway has tried: {listed}");
    let seen = look(&session, "elsewhere.invalid:443").await;
    let refused = seen["proxy"].as_str().unwrap();
    assert!(refused.contains("`egress` of the server"), "{refused}");

    // A second session has a program of its own, and the first one goes on.
    let again = node.open("db").await.unwrap_or_else(|e| panic!("{e}"));
    let (second, _more) = ServerSession::open(again.link, SessionSetup::default()).await.unwrap();
    second.close().await;
    assert_eq!(look(&session, "allowed.invalid:443").await["tz"], "UTC");

    let token = node.token("db").await;
    let mut soon = server("db");
    soon["idleSeconds"] = json!(10);
    let soon = json!({"spec": {"mcpServers": [soon]}});
    world.cluster.patch::<Repo>(world.cluster.team(), "shop", &soon).await;
    eventually("the idle pod to go", || async { !node.has_pod("db").await }).await;
    let (status, said) = world.get(&token, "/v1/mcp/bridge").await;
    assert!(status == 401 || status == 403, "{status} {said}");
    node.end().await;
}

#[tokio::test]
async fn the_token_of_a_server_opens_no_endpoint_of_agents() {
    if needs_process_kubelet("its image is a script of the test") {
        return;
    }
    let node = Node::start(json!([server("db")])).await;
    let world = &node.world;
    world.cluster.secret("tracker", "https://allowed.invalid", &json!({"token": "s3cr3t"})).await;
    if let Err(error) = node.open("db").await {
        panic!("{error}");
    }
    let token = node.token("db").await;
    let own = ["/v1/mcp/bridge", "/v1/connect"];
    for (method, path) in api::agent_calls() {
        let request = world.http.request(method.clone(), format!("{}{path}", world.url));
        let answer = request.bearer_auth(&token).json(&json!({})).send().await.unwrap();
        let (status, said) = (answer.status().as_u16(), answer.text().await.unwrap());
        if own.contains(&&*path) {
            assert_eq!(status, 400, "{method} {path}: {said}");
        } else {
            assert_eq!(status, 403, "{method} {path}: {said}");
            assert!(said.contains("the pod of a server may only"), "{method} {path}: {said}");
        }
    }
    // Nor does the pod of a role reach a server's bridge.
    let (status, said) = world.get("coder", "/v1/mcp/bridge").await;
    assert_eq!(status, 403, "{said}");
    // A server that the Repo no longer names has no identity.
    let unnamed = json!({"spec": {"mcpServers": null}});
    world.cluster.patch::<Repo>(world.cluster.team(), "shop", &unnamed).await;
    eventually("the token to open nothing", || async {
        world.get(&token, "/v1/mcp/bridge").await.0 != 400
    })
    .await;
    eventually("its pod to go", || async { !node.has_pod("db").await }).await;
    node.end().await;
}

#[tokio::test]
async fn what_keeps_a_server_from_starting_is_said_with_what_to_do() {
    if needs_process_kubelet("its image is a script of the test") {
        return;
    }
    let mut missing = server("missing");
    missing["command"] = json!(["npx-is-not-here"]);
    let mut away = server("away");
    away["image"] = json!("acme/nowhere:9");
    let mut leaking = server("leaking");
    leaking["egress"] = json!(["allowed.invalid", "evil.example"]);
    let node = Node::start(json!([missing, away, leaking, server("plain")])).await;
    let said = async |server: &str| {
        let begun = Instant::now();
        let error =
            node.open(server).await.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(begun.elapsed() < Duration::from_secs(55), "{server}: not at the last moment");
        error
    };
    let no_secret = said("plain").await;
    assert!(no_secret.contains("Secret `tracker` does not exist"), "{no_secret}");
    let team = node.world.cluster.team();
    node.world
        .cluster
        .apply(&json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": team, "name": "tracker"},
            "stringData": {"token": "s3cr3t"},
        }))
        .await;
    let no_hosts = said("plain").await;
    assert!(no_hosts.contains("has no annotation `codebutler.dev/hosts`: add it"), "{no_hosts}");
    node.world
        .cluster
        .secret("tracker", "https://allowed.invalid", &json!({"token": "s3cr3t"}))
        .await;
    let leaking = said("leaking").await;
    assert!(leaking.contains("may not be sent to `evil.example`"), "{leaking}");
    for server in ["plain", "leaking"] {
        assert!(!node.has_pod(server).await, "{server} was never started");
    }
    let missing = said("missing").await;
    assert!(missing.contains("has no program `npx-is-not-here`: correct `command`"), "{missing}");
    let away = said("away").await;
    assert!(away.contains("image `acme/nowhere:9` can't be pulled"), "{away}");
    assert!(away.contains("correct `image` of server `away`"), "{away}");
    assert!(
        node.open("unknown").await.is_err_and(|e| e.to_string().contains("no server `unknown`"))
    );
    node.end().await;
}

#[tokio::test]
async fn a_closed_thread_keeps_no_server_and_a_shared_one_stays() {
    if needs_process_kubelet("its image is a script of the test") {
        return;
    }
    let mut shared = server("shared");
    shared["scope"] = json!("Repo");
    let node = Node::start(json!([server("db"), shared])).await;
    let world = &node.world;
    world.cluster.secret("tracker", "https://allowed.invalid", &json!({"token": "s3cr3t"})).await;
    let mut sessions = Vec::new();
    for server in ["db", "shared"] {
        let opened = node.open(server).await.unwrap_or_else(|e| panic!("{e}"));
        sessions.push(ServerSession::open(opened.link, SessionSetup::default()).await.unwrap());
    }
    let team = world.cluster.team();
    let pods = world.cluster.api::<Pod>(team);
    assert!(pods.get_opt("shop.mcp.shared").await.unwrap().is_some());
    let closed = json!({"spec": {"state": "Closed"}});
    world.cluster.patch::<Thread>(team, &world.name, &closed).await;
    eventually("its server to go", || async { !node.has_pod("db").await }).await;
    assert_eq!(look(&sessions[1].0, "allowed.invalid:443").await["tz"], "UTC");
    node.end().await;
}

#[tokio::test]
async fn ten_servers_of_a_role_share_the_room_for_eight_pods_and_nobody_hears_of_it() {
    if needs_process_kubelet("its image is a script of the test") {
        return;
    }
    let plain = |n: usize| json!({"name": format!("db{n}"), "image": IMAGE, "command": ["python3", "/srv/server.py"]});
    let servers: Vec<Value> = (0..10).map(plain).collect();
    let node = Node::start(json!(servers)).await;
    let world = &node.world;
    let allow = json!({"spec": {"tools": {"allow": ["Read", "mcp__*"]}}});
    world.cluster.patch::<AgentRole>(world.cluster.system(), "coder", &allow).await;
    let begun = Instant::now();
    loop {
        let (_, listed) = world.get("coder", "/v1/mcp/tools").await;
        if listed["tools"].as_array().is_some_and(|tools| tools.len() == 10) {
            break;
        }
        assert!(begun.elapsed() < Duration::from_mins(3), "{listed}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let said = world.slack.messages(&world.channel, Some(&world.root));
    assert!(!said.iter().any(|one| one.shown.contains("can't be used")), "{said:?}");
    let status = world.repo().await.status.unwrap_or_default();
    assert!(!json!(status).to_string().contains("have pods here already"), "{status:?}");
    node.end().await;
}

#[tokio::test]
async fn a_call_may_take_longer_than_an_unused_pod_stays() {
    if needs_process_kubelet("its image is a script of the test") {
        return;
    }
    let command = ["python3", "/srv/server.py"];
    let slow = json!({"name": "db", "image": IMAGE, "command": command, "idleSeconds": 10});
    let node = Node::start(json!([slow])).await;
    let world = &node.world;
    let allow = json!({"spec": {"tools": {"allow": ["Read", "mcp__*"]}}});
    world.cluster.patch::<AgentRole>(world.cluster.system(), "coder", &allow).await;
    let call = json!({"key": "k1", "tool": "mcp__db__look", "arguments": {"sleep": 17}});
    let answered = std::cell::RefCell::new(Value::Null);
    eventually("the call to be answered", || async {
        let (status, answer) = world.post("coder", "/v1/mcp/calls", &call).await;
        *answered.borrow_mut() = answer;
        status == 200
    })
    .await;
    let answer = answered.into_inner().to_string();
    assert!(answer.contains("slept well"), "{answer}");
    node.end().await;
}
