//! The whole product with a server in a pod, and the way of an awake role to its tools.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use codebutler_agent::gateway::GatewayClient;
use codebutler_crds::mcp::McpServerSpec;
use codebutler_crds::wire::McpCall;
use codebutler_crds::wire::history::{HistoryEvent, HistoryLine};
use codebutler_crds::{Repo, names};
use codebutler_testbed::kubelet::LocalImage;
use codebutler_testbed::models::{ModelScript, ScriptStep};
use codebutler_testbed::nodetools::{MCP_SERVERS, ensure_modules};
use codebutler_testbed::place::InstallPlace;
use codebutler_testbed::stack::outside::StackSurroundings;
use codebutler_testbed::stack::part::StackPart;
use codebutler_testbed::stack::{PagesAccess, RunningStack, StackOptions};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::super::wait_until;
use super::super::wake::{ROLE, await_call, await_settled};
use super::{CALLS, RUNS};

/// Messages that one conversation may have.
const MESSAGES: usize = 200;
const GATEWAY_PORT: u16 = 8443;
const IMAGE: &str = "acme/everything:1";
const ECHO: &str = "mcp__everything__echo";
const MODULES: &str = "/srv/node_modules";
const PATIENCE: Duration = Duration::from_mins(2);

/// The product with MCP servers; see the module.
pub(super) struct McpBed {
    /// The running product that is measured.
    pub stack: RunningStack,
    /// Folder with npm's packages.
    pub modules: PathBuf,
    /// Temporary folder of the run.
    pub dir: tempfile::TempDir,
    /// The conversation of the awake role.
    pub root: String,
    /// The agent's own way to the gateway, with the token of the role's pod.
    pub gateway: GatewayClient,
}

impl McpBed {
    /// Starts everything; returns when the role is awake and has called a tool.
    pub(super) async fn start() -> anyhow::Result<Self> {
        let modules = tokio::task::spawn_blocking(|| ensure_modules(MCP_SERVERS)).await??;
        let dir = tempfile::tempdir()?;
        let stack = start_stack(dir.path(), &modules).await?;
        match wake_role(&stack, dir.path()).await {
            Ok((root, gateway)) => Ok(Self { stack, modules, dir, root, gateway }),
            Err(error) => {
                stack.stop().await?;
                Err(error)
            }
        }
    }

    /// Milliseconds of each call that the role has made, as its agent has recorded them.
    pub(super) async fn recorded_calls(&self) -> anyhow::Result<Vec<f64>> {
        let name = names::thread_name(&self.stack.repo, &self.root.parse()?);
        let output = tokio::process::Command::new(self.stack.dir.join("bin/codebutler-operator"))
            .args(["history", &format!("{}/{name}", self.stack.place.team), "--history"])
            .arg(self.stack.dir.join("history"))
            .output()
            .await?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "no history: {said}");
        let mut took = Vec::new();
        for line in String::from_utf8(output.stdout)?.lines() {
            let line: HistoryLine = serde_json::from_str(line)?;
            if let HistoryEvent::Tool { call, ok, millis, output, .. } = line.event
                && call.tool == ECHO
            {
                ensure!(ok, "a call failed: {output}");
                let millis = millis.context("a call without its duration")?;
                took.push(f64::from(u32::try_from(millis)?));
            }
        }
        Ok(took)
    }

    /// Returns when the role is offered the tools of so many servers.
    pub(super) async fn await_listed(&self, servers: usize) -> anyhow::Result<()> {
        wait_until("all servers to be listed", PATIENCE, async || {
            let list = self.gateway.server_tools(None).await?;
            let there = list.servers.iter().filter(|server| server.available).count();
            // A tool that can't be used is a notice, too.
            Ok((there == servers && list.servers.len() == servers).then_some(()))
        })
        .await
    }

    /// Calls a tool of the server in the pod with the agent's way to the gateway.
    pub(super) async fn call(&self, key: &str, tool: &str, arguments: Value) -> anyhow::Result<()> {
        let (key, tool) = (key.to_owned(), format!("mcp__everything__{tool}"));
        let result = self.gateway.call_server(&McpCall { key, tool, arguments }).await?;
        ensure!(!result.failed, "{}", result.text);
        Ok(())
    }

    /// Process id of the gateway.
    pub(super) fn gateway_pid(&self) -> anyhow::Result<u32> {
        match &self.stack.gateway {
            StackPart::Process(process) => process.pid().context("the gateway is gone"),
            StackPart::Deployed(_) => anyhow::bail!("the gateway runs elsewhere"),
        }
    }

    /// Puts these servers in place of those of the Repo; returns when the gateway has looked at them.
    pub(super) async fn set_servers(&self, servers: &[Value]) -> anyhow::Result<()> {
        let repos = Api::<Repo>::namespaced(self.stack.cluster.client(), &self.stack.place.team);
        let patch = Patch::Merge(json!({"spec": {"mcpServers": servers}}));
        repos.patch(&self.stack.repo, &PatchParams::default(), &patch).await?;
        let names: Vec<&str> = servers.iter().filter_map(|one| one["name"].as_str()).collect();
        wait_until("the gateway to look at the servers", PATIENCE, async || {
            let status = repos.get(&self.stack.repo).await?.status.unwrap_or_default();
            let seen: Vec<&str> = status.mcp_servers.iter().map(|one| &*one.name).collect();
            Ok((seen == names).then_some(()))
        })
        .await
    }

    /// Stops the whole product.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        Ok(self.stack.stop().await?)
    }
}

/// The official server in a pod.
pub(super) fn run_everything(name: &str) -> Value {
    json!({
        "name": name, "image": IMAGE, "risk": [{"tools": ["*"], "risk": "Read"}],
        "command": ["node", format!("{MODULES}/@modelcontextprotocol/server-everything/dist/index.js")],
    })
}

/// Script of the model: a greeting, so many calls in each run of the first conversation, and greetings.
fn script_steps() -> Vec<ScriptStep> {
    let hello = || ScriptStep::say("Hello.");
    let call = |run: usize| {
        (0..CALLS).map(move |at| ScriptStep::tool(ECHO, json!({"message": format!("{run}-{at}")})))
    };
    let runs = (0..=RUNS).flat_map(|run| call(run).chain([hello()]));
    [hello()].into_iter().chain(runs).chain(vec![hello(); MESSAGES]).collect()
}

async fn start_stack(dir: &Path, modules: &Path) -> anyhow::Result<RunningStack> {
    let files = dir.join("files");
    std::fs::create_dir_all(&files)?;
    std::fs::write(files.join("README.md"), "# shop\n")?;
    let mut server = run_everything("everything");
    server["scope"] = json!("Repo");
    server["idleSeconds"] = json!(3600);
    let server: McpServerSpec = serde_json::from_value(server)?;
    let options = StackOptions {
        dir: dir.join("stack"),
        place: InstallPlace::usual(),
        program: std::env::current_exe()?,
        name: "shop".to_owned(),
        users: vec!["ana".to_owned()],
        roles: vec![ROLE.to_owned()],
        branch: "main".to_owned(),
        files,
        script: ModelScript::of(ROLE, script_steps()),
        idle_timeout_seconds: Some(3600),
        debounce_seconds: 0,
        log: "warn".to_owned(),
        looks_back: false,
        edit_repo: Some(Arc::new(move |repo| repo.mcp_servers.push(server.clone()))),
        edit_role: None,
        inject_env: None,
        late_wall: None,
        agent_silence: None,
        nodes: None,
        pages: PagesAccess::default(),
    };
    std::fs::create_dir_all(&options.dir)?;
    let binds = vec![(modules.to_owned(), MODULES.to_owned())];
    let image = LocalImage { binds, ..LocalImage::default() };
    let images = BTreeMap::from([(IMAGE.to_owned(), image)]);
    let surroundings = StackSurroundings { images, ..StackSurroundings::default() };
    Ok(Box::pin(RunningStack::start_in(options, surroundings)).await?)
}

/// The conversation of a role that is awake, and its pod's way to the gateway.
async fn wake_role(stack: &RunningStack, dir: &Path) -> anyhow::Result<(String, GatewayClient)> {
    let (root, _) = await_call(stack, None).await?;
    await_settled(stack, &root).await?;
    let pod = names::pod_name(&names::thread_name(&stack.repo, &root.parse()?), ROLE);
    let team = &stack.place.team;
    let found = Api::<Pod>::namespaced(stack.cluster.client(), team).get(&pod).await?;
    let containers = found.spec.into_iter().flat_map(|spec| spec.containers);
    let mut words = containers
        .flat_map(|container| [container.command, container.args].into_iter().flatten().flatten());
    words.find(|word| word == "--gateway").context("the pod knows no gateway")?;
    let url = words.next().context("the pod knows no gateway")?;
    let kubelet = stack.kubelet.as_ref().context("the pod runs elsewhere")?;
    let (ca, token) = (dir.join("ca.crt"), dir.join("token"));
    for (inside, outside) in [(names::pod::CA_FILE, &ca), (names::pod::TOKEN_FILE, &token)] {
        let read = kubelet.exec(team, &pod, names::pod::AGENT, &["cat", inside]).await?;
        std::fs::write(outside, read.stdout)?;
    }
    let address = SocketAddr::new(stack.metrics.gateway.ip(), GATEWAY_PORT);
    Ok((root, GatewayClient::new(&url, Some(address), &ca, &token)?))
}
