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

/// Messages that one conversation may have.
const MESSAGES: usize = 200;
const GATEWAY_PORT: u16 = 8443;
const IMAGE: &str = "acme/everything:1";
const MODULES: &str = "/srv/node_modules";
const PATIENCE: Duration = Duration::from_mins(2);

/// See the module.
pub(super) struct McpBed {
    /// The product.
    pub stack: RunningStack,
    /// Packages of npm.
    pub modules: PathBuf,
    /// For files of the run.
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

    /// Calls a tool of the server in the pod, as the agent does.
    pub(super) async fn call(&self, key: &str, tool: &str, arguments: Value) -> anyhow::Result<()> {
        let (key, tool) = (key.to_owned(), format!("mcp__everything__{tool}"));
        let result = self.gateway.call_server(&McpCall { key, tool, arguments }).await?;
        ensure!(!result.failed, "{}", result.text);
        Ok(())
    }

    /// The gateway's process.
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

    /// Ends everything.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        Ok(self.stack.stop().await?)
    }
}

async fn start_stack(dir: &Path, modules: &Path) -> anyhow::Result<RunningStack> {
    let files = dir.join("files");
    std::fs::create_dir_all(&files)?;
    std::fs::write(files.join("README.md"), "# shop\n")?;
    let server: McpServerSpec = serde_json::from_value(json!({
        "name": "everything", "image": IMAGE, "scope": "Repo", "idleSeconds": 3600,
        "command": ["node", format!("{MODULES}/@modelcontextprotocol/server-everything/dist/index.js")],
        "risk": [{"tools": ["*"], "risk": "Read"}],
    }))?;
    let options = StackOptions {
        dir: dir.join("stack"),
        place: InstallPlace::usual(),
        program: std::env::current_exe()?,
        name: "shop".to_owned(),
        users: vec!["ana".to_owned()],
        roles: vec![ROLE.to_owned()],
        branch: "main".to_owned(),
        files,
        script: ModelScript::of(ROLE, vec![ScriptStep::say("Hello."); MESSAGES]),
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
