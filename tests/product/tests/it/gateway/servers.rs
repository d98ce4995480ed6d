//! Servers of `spec.mcpServers` as people see them: the Repo's condition, its status and events, and the choice that
//! the repository makes among them.

use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::Repo;
use codebutler_gateway::guides;
use codebutler_gateway_core::mcp_facts::SessionOutcome;
use codebutler_mcp_servers::choose::{choose_for_role, list_allowed};
use codebutler_mcp_servers::probe;
use codebutler_testbed::mcp::{McpServer, ToolAnswer};
use k8s_openapi::api::events::v1::Event;
use kube::api::ListParams;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use super::{World, eventually};

/// The token that the server takes.
const TOKEN: &str = "mcp-token-4711-of-the-team";

async fn start_server() -> McpServer {
    let server = McpServer::start(Some(TOKEN)).await.unwrap();
    let tool = |name: &str| {
        let tool = json!({"name": name, "inputSchema": {"type": "object"}});
        (tool, ToolAnswer::Never)
    };
    server.set_tools(["search", "index", "drop_all"].map(tool));
    server
}

impl World {
    pub(super) fn probe_servers(&self) -> AbortOnDropHandle<()> {
        let (work, mcp) = (Arc::clone(&self.gateway.work), Arc::clone(&self.gateway.mcp));
        AbortOnDropHandle::new(tokio::spawn(async move {
            let sessions = &mcp.sessions;
            probe::run_server_probe(&work.context, &work.conditions, sessions, &work.shutdown)
                .await;
        }))
    }

    /// A role's session with the server `db` ends like this.
    async fn reports_db(&self, outcome: SessionOutcome) {
        let repo = self.repo().await;
        let spec = repo.spec.mcp_servers.iter().find(|server| server.name == "db").unwrap();
        self.gateway.work.context.mcp.report_session(&repo, spec, outcome);
    }

    pub(super) async fn with_servers(servers: Value) -> Self {
        let script = codebutler_testbed::models::ModelScript::of("coder", vec![]);
        Self::play(script, &json!({ "mcpServers": servers }), &json!({})).await
    }

    async fn events(&self) -> Vec<(String, String)> {
        let events = self.cluster.api::<Event>(self.cluster.team());
        let events = events.list(&ListParams::default()).await.unwrap();
        let read =
            |event: Event| (event.reason.unwrap_or_default(), event.note.unwrap_or_default());
        events.into_iter().map(read).collect()
    }
}

pub(super) const READY: &str = "McpServersReady";

#[tokio::test]
async fn troubles_of_a_server_are_named_until_they_are_corrected() {
    let server = start_server().await;
    let url = server.url();
    let token = json!({"name": "Authorization", "secret": {"name": "mcp", "key": "token", "prefix": "Bearer "}});
    let world = World::with_servers(json!([
        {"name": "docs", "url": url, "headers": [token], "tools": {"deny": ["drop_*"]}},
        {"name": "db", "image": "registry.example/db:1", "command": ["db"]},
    ]))
    .await;
    let _probing = world.probe_servers();
    world.comes_to(READY, "False", "Secret `mcp` does not exist").await;
    world.cluster.secret("mcp", "https://elsewhere.example/", &json!({"key": TOKEN})).await;
    world.comes_to(READY, "False", "Secret `mcp` may not be sent to `http://127.0.0.1:").await;
    world.cluster.secret("mcp", &url, &json!({"key": TOKEN})).await;
    world.comes_to(READY, "False", "no usable key `token`").await;
    world.cluster.secret("mcp", &url, &json!({"token": "wrong-token"})).await;
    world.comes_to(READY, "False", "does not accept what it is sent as credentials").await;
    world.cluster.secret("mcp", &url, &json!({"token": TOKEN})).await;
    let usable = "`docs` 1.2.3 has 2 tools, ready since 20";
    world.comes_to(READY, "Unknown", usable).await;
    let (_, reason, message) = world.word_on(READY).await;
    assert_eq!(reason, "McpServersNotStarted");
    assert!(message.ends_with("Z; `db`: not started yet; starts on first use"), "{message}");

    let servers = world.repo().await.status.unwrap().mcp_servers;
    let [docs, db] = &*servers else { panic!("{servers:?}") };
    assert_eq!((&*docs.name, docs.ready, &*docs.version, docs.tools), ("docs", true, "1.2.3", 2));
    assert!(docs.since.is_some() && docs.message.is_empty(), "{docs:?}");
    assert_eq!((&*db.name, db.ready), ("db", false));

    server.fail(&format!("no index for {TOKEN} \u{1b}[31mat the moment"), usize::MAX);
    world.cluster.secret("mcp", &url, &json!({"token": TOKEN, "more": "x"})).await;
    world.comes_to(READY, "False", "at the moment").await;
    let (_, reason, message) = world.word_on(READY).await;
    assert_eq!(reason, "McpServerNotReady");
    assert!(message.contains("`docs` can't be used since 20"), "{message}");
    assert!(
        message.contains("status 500: no index for [redacted:secret] at the moment"),
        "{message}"
    );
    let docs = world.repo().await.status.unwrap().mcp_servers.remove(0);
    // Its version and tools at its last answer are still shown.
    assert_eq!((docs.ready, &*docs.version, docs.tools), (false, "1.2.3", 2));

    server.fail("", 0);
    world.comes_to(READY, "Unknown", usable).await;
    let answered = SessionOutcome::Answered {
        version: "3.1".to_owned(),
        tools: 4,
        remark: "1 of its tools are left out: `x`".to_owned(),
    };
    world.reports_db(SessionOutcome::Failed("away".to_owned())).await;
    world.comes_to(READY, "False", "`db` can't be used since 20").await;
    world.reports_db(answered).await;
    world.comes_to(READY, "True", "has 4 tools (1 of its tools are left out: `x`), ready").await;
    let has = |events: &[(String, String)], reason: &str, part: &str| {
        events.iter().any(|(is, note)| is == reason && note.contains(part))
    };
    eventually("the events", || async {
        let events = world.events().await;
        has(&events, "McpServerNotReady", "Secret `mcp` does not exist")
            && has(&events, "McpServersReady", "`docs` 1.2.3 has 2 tools")
    })
    .await;
    for (_, note) in world.events().await {
        assert!(!note.contains(TOKEN), "{note}");
    }

    let none = json!({"spec": {"mcpServers": null}});
    world.cluster.patch::<Repo>(world.cluster.team(), "shop", &none).await;
    eventually("nothing to be said of servers", || async {
        let status = world.repo().await.status.unwrap();
        status.mcp_servers.is_empty() && status.conditions.iter().all(|c| c.type_ != READY)
    })
    .await;
}

#[tokio::test]
async fn what_a_session_found_before_the_first_look_counts() {
    let db = json!({"name": "db", "image": "registry.example/db:1", "command": ["db"]});
    let world = World::with_servers(json!([db])).await;
    let answered =
        SessionOutcome::Answered { version: "3.1".to_owned(), tools: 4, remark: String::new() };
    world.reports_db(answered).await;
    let _probing = world.probe_servers();
    world.comes_to(READY, "True", "`db` 3.1 has 4 tools").await;
}

#[tokio::test]
async fn sessions_of_roles_show_how_a_server_with_an_image_is() {
    let db = json!({"name": "db", "image": "registry.example/db:1", "command": ["db"]});
    let world = World::with_servers(json!([db])).await;
    let probing = world.probe_servers();
    world.comes_to(READY, "Unknown", "`db`: not started yet; starts on first use").await;
    let facts = &world.gateway.work.context.mcp;
    world.reports_db(SessionOutcome::Failed("no such image: db:1".to_owned())).await;
    world.comes_to(READY, "False", "`db` can't be used since").await;
    world.comes_to(READY, "False", "no such image: db:1").await;
    let (version, remark) = ("3.1".to_owned(), String::new());
    let answered = SessionOutcome::Answered { version, tools: 4, remark };
    world.reports_db(answered).await;
    world.comes_to(READY, "True", "`db` 3.1 has 4 tools").await;
    let entry = world.repo().await.status.unwrap().mcp_servers.remove(0);
    assert_eq!((entry.ready, entry.tools, &*entry.message), (true, 4, ""));

    // Another gateway goes by what the status says of the last use, until the entry is another one.
    drop(probing);
    facts.keep_only(|_| false, |_, _| false);
    let _probing = world.probe_servers();
    let more = json!({"name": "docs", "image": "registry.example/docs:1", "command": ["docs"]});
    let with = |db: &Value| json!({"spec": {"mcpServers": [db, more]}});
    world.cluster.patch::<Repo>(world.cluster.team(), "shop", &with(&db)).await;
    world.comes_to(READY, "Unknown", "`db` 3.1 has 4 tools, ready since 20").await;
    let other = json!({"name": "db", "image": "registry.example/db:2", "command": ["db"]});
    world.cluster.patch::<Repo>(world.cluster.team(), "shop", &with(&other)).await;
    world.comes_to(READY, "Unknown", "`db`: not started yet; starts on first use").await;
}

#[tokio::test]
async fn one_answer_that_fails_is_no_news_about_a_server() {
    let server = start_server().await;
    let url = server.url();
    let world = World::with_servers(json!([
        {"name": "docs", "url": url, "headers": [{"name": "Authorization", "value": format!("Bearer {TOKEN}")}]},
    ]))
    .await;
    let _probing = world.probe_servers();
    world.comes_to(READY, "True", "`docs` 1.2.3 has 3 tools").await;
    server.fail("busy", 1);
    // Another entry is looked at anew.
    let headers = json!([{"name": "Authorization", "value": format!("Bearer {TOKEN}")}]);
    let servers = json!([{"name": "docs", "url": url, "callSeconds": 30, "headers": headers}]);
    let spec = json!({"spec": {"mcpServers": servers}});
    world.cluster.patch::<Repo>(world.cluster.team(), "shop", &spec).await;
    eventually("a look that fails", || async { !server.is_failing() }).await;
    let generation = world.repo().await.metadata.generation;
    eventually("the condition of the new entry", || async {
        let conditions = world.repo().await.status.unwrap().conditions;
        conditions.iter().any(|c| c.type_ == READY && c.observed_generation == generation)
    })
    .await;
    let events = world.events().await;
    assert!(events.iter().all(|(reason, _)| reason != "McpServerNotReady"), "{events:?}");
    assert_eq!(world.word_on(READY).await.0, "True");
}

#[tokio::test]
async fn a_repository_chooses_among_the_servers_of_its_repo() {
    let world = World::with_servers(json!([
        {"name": "db", "image": "registry.example/db:1", "command": ["db"], "roles": ["coder", "lead"]},
        {"name": "docs", "url": "https://docs.example/mcp"},
    ]))
    .await;
    let context = &world.gateway.work.context;
    let choose = async |role: &str| {
        let repo = world.repo().await;
        choose_for_role(context, &repo, role, &list_allowed(&repo)).await
    };
    let file = "{\"servers\": {\n  \"db\": {\"command\": \"evil\", \"roles\": [\"lead\"]},\n  \"linear\": {\"url\": \"https://l.example\"}\n}}";
    world
        .remote
        .commit("main", "ana", "Choose", &[(".codebutler/mcp.json", Some(file))])
        .await
        .unwrap();
    // A gateway that has just begun asks GitHub.
    assert_eq!(choose("lead").await.names, ["db"]);
    assert_eq!(choose("coder").await.names, Vec::<String>::new());

    // A copy that somebody needed is what guides are judged by.
    world.clone("coder").await;
    let work = Arc::clone(&world.gateway.work);
    let _judging = AbortOnDropHandle::new(tokio::spawn(async move {
        guides::run_guides(&work, Duration::from_millis(200)).await;
    }));
    let announced = || {
        let all = world.slack.messages(&world.channel, None);
        all.into_iter().filter(|message| message.shown.contains("`linear`")).collect::<Vec<_>>()
    };
    eventually("the channel to be told", || async { !announced().is_empty() }).await;
    let shown = announced().remove(0).shown;
    for part in
        ["mcp.json:3: warning: the server `linear`", "`url` to `spec.mcpServers` of the Repo"]
    {
        assert!(shown.contains(part), "{shown}");
    }
    world.comes_to("GuidesValid", "True", "can be used").await;

    // A mistake is named with line and column, and its server is left out.
    let broken = file.replace("\"command\"", "\"comand\"");
    let files = [(".codebutler/mcp.json", Some(broken.as_str()))];
    world.remote.commit("main", "ana", "Choose badly", &files).await.unwrap();
    world
        .comes_to(
            "GuidesValid",
            "False",
            ".codebutler/mcp.json:2:10: error: server `db`: unknown field `comand`",
        )
        .await;
    let choice = choose("lead").await;
    assert_eq!(choice.names, Vec::<String>::new());
    assert!(choice.notices[0].contains("line 2, column 10"), "{choice:?}");

    // Without the file, each role has what the Repo gives it.
    world
        .remote
        .commit("main", "ana", "No choice", &[(".codebutler/mcp.json", None)])
        .await
        .unwrap();
    world.comes_to("GuidesValid", "True", "can be used").await;
    assert_eq!(choose("lead").await.names, ["db", "docs"]);
    assert_eq!(announced().len(), 2, "{:#?}", announced());
}
