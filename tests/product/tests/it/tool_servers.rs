//! A team's own tools with the whole product running: an agent calls them at the gateway, and real servers answer, from
//! pods of their own or over HTTP.

mod browser;
mod images;
mod official;
mod postgres;
mod python;
mod trouble;

use codebutler_crds::mcp::McpServerSpec;
use codebutler_crds::{Repo, condition};
use codebutler_testbed::models::{ModelScript, ScriptStep};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::support::{Setup, Team};

/// The coder that talks first, while servers start, and works when it is told to.
fn coder(steps: Vec<ScriptStep>) -> ModelScript {
    let ready = ScriptStep::say("Ready.");
    ModelScript::of("coder", std::iter::once(ready).chain(steps).collect())
}

/// All calls of its tools run without a question.
fn reading(mut server: Value) -> Value {
    server["risk"] = json!([{"tools": ["*"], "risk": "Read"}]);
    server
}

fn with_servers(setup: Setup, servers: Vec<Value>) -> Setup {
    let servers: Vec<McpServerSpec> =
        servers.into_iter().map(|server| serde_json::from_value(server).unwrap()).collect();
    setup.repo(move |repo| repo.mcp_servers.clone_from(&servers))
}

impl Team {
    /// The condition about servers, once it has this status and says this.
    async fn servers_are(&self, status: &str, part: &str) -> (String, String) {
        let repos = Api::<Repo>::namespaced(self.stack.cluster.client(), &self.stack.place.team);
        self.until(&format!("McpServersReady {status}: {part}"), || async {
            let conditions = repos.get("shop").await.unwrap().status?.conditions;
            let found = conditions.into_iter().find(|c| c.type_ == condition::MCP_SERVERS_READY)?;
            let fits = found.status == status && found.message.contains(part);
            fits.then_some((found.reason, found.message))
        })
        .await
    }

    /// Begins a conversation, and returns when all servers have shown that they work.
    async fn servers_wake(&self) -> String {
        let root = self.says("ana", None, "@codebutler.coder are you there?");
        self.message(&root, "Ready.").await;
        self.settled(&root, "coder").await;
        self.servers_are("True", "ready since").await;
        root
    }

    /// Has the coder work, and returns what its model was shown at last.
    async fn coder_works(&self, root: &str) -> String {
        self.says("ana", Some(root), "@codebutler.coder go on");
        self.message(root, "Done.").await;
        let requests = self.stack.models.requests();
        requests.last().unwrap().body["messages"].to_string()
    }

    /// Waits until so many calls of servers are in the Thread's status.
    async fn calls_are_counted(&self, root: &str, wanted: &[(&str, u32)]) {
        self.thread_when(root, &format!("the calls {wanted:?}"), |thread| {
            let used = thread.status.as_ref().and_then(|status| status.mcp.as_ref());
            let calls = |name: &str| Some(used?.servers.get(name)?.calls);
            wanted.iter().all(|(name, count)| calls(name) == Some(*count))
        })
        .await;
    }

    async fn server_pods(&self) -> Vec<Pod> {
        let pods = Api::<Pod>::namespaced(self.stack.cluster.client(), &self.stack.place.team);
        let servers = ListParams::default().labels(codebutler_crds::names::LABEL_MCP_SERVER);
        pods.list(&servers).await.unwrap().items
    }
}
