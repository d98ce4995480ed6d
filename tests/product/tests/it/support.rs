//! Helpers that the tests of the whole product share.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use codebutler_crds::retrospective::RetrospectiveSpec;
use codebutler_crds::thread::RoleState;
use codebutler_crds::{AgentRoleSpec, NanoUsd, RepoSpec, Thread};
use codebutler_testbed::kubelet::{InjectEnv, LocalImage, ProcessKubelet};
use codebutler_testbed::models::{ModelOptions, ModelScript, ScriptStep};
use codebutler_testbed::place::{InstallPlace, PlaceLease};
use codebutler_testbed::slack::MessageView;
use codebutler_testbed::stack::earlier::EarlierBuild;
use codebutler_testbed::stack::nodes::{NodeArgs, OwnNodes};
use codebutler_testbed::stack::outside::{ModelProvider, ModelSource, StackSurroundings};
use codebutler_testbed::stack::{PagesAccess, RepoEdit, RoleEdit, RunningStack, StackOptions};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Timeout of anything on a busy machine, before a test gives up.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

/// Pause between two looks, at the beginning of a wait and in a long one.
const SHORTEST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_millis(80);

/// Whole stacks are heavy, and wait half of the time: as many at once as two processors bear.
const MOST_STACKS: u32 = 3;
static STACKS: Semaphore = Semaphore::const_new(MOST_STACKS as usize);

/// Waits for leave to run a stack. On a cluster that is not the test's own, none runs beside it.
pub(crate) async fn permit() -> SemaphorePermit<'static> {
    let shared = std::env::var_os("KUBECONFIG").is_some();
    STACKS.acquire_many(if shared { MOST_STACKS } else { 1 }).await.unwrap()
}

/// Nodes of a cluster's own that run the product, where the environment names them.
fn own_nodes() -> Option<OwnNodes> {
    NodeArgs::from_env().unwrap()
}

/// True if a test has to be left out, said in a line: nodes of the cluster's own run the pods, and it does what only
/// the testbed's own kubelet lets it do.
pub(crate) fn needs_process_kubelet(why: &str) -> bool {
    let away = own_nodes().is_some();
    if away {
        let current = std::thread::current();
        let name = current.name().unwrap_or("a test");
        let _ = writeln!(std::io::stderr(), "skipped: {name} needs the process kubelet: {why}");
    }
    away
}

/// A running stack with a small repository, and what keeps it alive.
pub(crate) struct Team {
    pub stack: RunningStack,
    lease: PlaceLease,
    _dir: tempfile::TempDir,
    _permit: SemaphorePermit<'static>,
}

pub(crate) struct Setup {
    pub place: InstallPlace,
    pub script: ModelScript,
    pub models: ModelOptions,
    /// Model provider that answers instead of the script.
    pub real: Option<ModelProvider>,
    pub idle: u32,
    /// Files of the first commit, beside what is always there.
    pub files: Vec<(String, String)>,
    pub edit_repo: Option<Arc<RepoEdit>>,
    pub edit_role: Option<Arc<RoleEdit>>,
    pub inject_env: Option<Arc<InjectEnv>>,
    pub late_wall: Option<Duration>,
    pub agent_silence: Option<Duration>,
    pub pages: PagesAccess,
    /// Roles of the team.
    pub roles: Vec<String>,
    /// Images that the node has besides the product's own.
    pub images: BTreeMap<String, LocalImage>,
    /// An earlier build that runs in place of this one.
    pub earlier: Option<EarlierBuild>,
}

impl Setup {
    pub(crate) fn new(script: ModelScript) -> Self {
        Self {
            place: InstallPlace::own(),
            script,
            models: ModelOptions::default(),
            real: None,
            idle: 60,
            files: Vec::new(),
            edit_repo: None,
            edit_role: None,
            inject_env: None,
            late_wall: None,
            agent_silence: None,
            pages: PagesAccess::default(),
            roles: ["pm", "coder", "reviewer", "lead"].map(str::to_owned).to_vec(),
            images: BTreeMap::new(),
            earlier: None,
        }
    }

    /// Uses the names that the README has, and the cluster alone.
    pub(crate) fn usual(mut self) -> Self {
        self.place = InstallPlace::usual();
        self
    }

    /// Sets the options of the model provider.
    pub(crate) fn provider(mut self, models: ModelOptions) -> Self {
        self.models = models;
        self
    }

    /// Uses a provider that plays no script.
    pub(crate) fn real(mut self, provider: ModelProvider) -> Self {
        self.real = Some(provider);
        self
    }

    /// Seconds that a pod stays with nothing to do.
    pub(crate) fn idle(mut self, seconds: u32) -> Self {
        self.idle = seconds;
        self
    }

    /// Adds a file to the repository.
    pub(crate) fn file(mut self, path: &str, text: &str) -> Self {
        self.files.push((path.to_owned(), text.to_owned()));
        self
    }

    /// Adds one more role to the usual four.
    pub(crate) fn and_role(mut self, role: &str) -> Self {
        self.roles.push(role.to_owned());
        self
    }

    /// Adds an image to the node.
    pub(crate) fn image(mut self, name: &str, image: LocalImage) -> Self {
        self.images.insert(name.to_owned(), image);
        self
    }

    /// Runs an earlier build of the product.
    pub(crate) fn earlier(mut self, build: EarlierBuild) -> Self {
        self.earlier = Some(build);
        self
    }

    /// Changes the Repo before it is applied.
    pub(crate) fn repo(mut self, edit: impl Fn(&mut RepoSpec) + Send + Sync + 'static) -> Self {
        self.edit_repo = Some(Arc::new(edit));
        self
    }

    /// Changes each AgentRole before it is applied.
    pub(crate) fn role(
        mut self,
        edit: impl Fn(&mut AgentRoleSpec) + Send + Sync + 'static,
    ) -> Self {
        self.edit_role = Some(Arc::new(edit));
        self
    }

    pub(crate) fn inject_env(mut self, inject: Arc<InjectEnv>) -> Self {
        self.inject_env = Some(inject);
        self
    }

    /// A network plugin that closes a pod's way to the API server so long after its start.
    pub(crate) fn late_wall(mut self, after: Duration) -> Self {
        self.late_wall = Some(after);
        self
    }

    /// Sets who may look at pages on threads.
    pub(crate) fn pages(mut self, access: PagesAccess) -> Self {
        self.pages = access;
        self
    }

    /// Sets the time for which an agent may say nothing.
    pub(crate) fn agent_silence(mut self, limit: Duration) -> Self {
        self.agent_silence = Some(limit);
        self
    }

    pub(crate) async fn start(self) -> Team {
        let permit = permit().await;
        let dir = tempfile::tempdir().unwrap();
        let files = dir.path().join("first-commit");
        std::fs::create_dir_all(files.join("src")).unwrap();
        std::fs::write(files.join("README.md"), "# shop\n").unwrap();
        std::fs::write(files.join("src/price.txt"), "price = 0.1\n").unwrap();
        for (path, text) in &self.files {
            let path = files.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let options = StackOptions {
            dir: dir.path().join("stack"),
            place: self.place,
            program: PathBuf::from(env!("CARGO_BIN_EXE_demo")),
            name: "shop".to_owned(),
            users: vec!["ana".to_owned(), "ben".to_owned()],
            roles: self.roles,
            branch: "main".to_owned(),
            files,
            script: self.script,
            idle_timeout_seconds: Some(self.idle),
            debounce_seconds: 0,
            log: "info".to_owned(),
            // As in an installation: a conversation that costs less than five cents is not looked back on.
            looks_back: true,
            edit_repo: self.edit_repo,
            edit_role: Some(shortened(self.edit_role)),
            inject_env: self.inject_env,
            late_wall: self.late_wall,
            agent_silence: self.agent_silence,
            nodes: own_nodes(),
            pages: self.pages,
        };
        std::fs::create_dir_all(&options.dir).unwrap();
        let models = self.real.map_or(ModelSource::Scripted, ModelSource::Real);
        let surroundings = StackSurroundings {
            models,
            provider: self.models,
            images: self.images,
            earlier: self.earlier,
            ..StackSurroundings::default()
        };
        let stack = match RunningStack::start_in(options, surroundings).await {
            Ok(stack) => stack,
            Err(error) => panic!("{:#}", anyhow::Error::from(error)),
        };
        let lease = stack.place.lease(&stack.cluster);
        Team { stack, lease, _dir: dir, _permit: permit }
    }
}

/// Roles without what their scripts would all have to say: what a review goes by.
fn shortened(edit: Option<Arc<RoleEdit>>) -> Arc<RoleEdit> {
    Arc::new(move |role| {
        role.tools.allow.retain(|tool| tool != "PlanReview");
        if let Some(edit) = &edit {
            edit(role);
        }
    })
}

impl Team {
    /// The testbed's own kubelet: for tests that need it.
    pub(crate) fn kubelet(&self) -> &ProcessKubelet {
        self.stack.kubelet.as_ref().unwrap()
    }

    /// A user writes, at top level or in a thread; returns the message's `ts`.
    pub(crate) fn says(&self, user: &str, thread: Option<&str>, text: &str) -> String {
        let user = &self.stack.users[user];
        self.stack.slack.post_as(user, &self.stack.channel, thread, text).unwrap()
    }

    /// All messages of a conversation, oldest first.
    pub(crate) fn messages(&self, root: &str) -> Vec<MessageView> {
        self.stack.slack.messages(&self.stack.channel, Some(root))
    }

    /// Waits until a message of the conversation says something.
    pub(crate) async fn message(&self, root: &str, text: &str) -> MessageView {
        let found = || self.messages(root).into_iter().find(|m| m.shown.contains(text));
        self.until(&format!("a message with `{text}`"), || async { found() }).await
    }

    /// The Thread of a conversation, once there is one.
    pub(crate) async fn thread(&self, root: &str) -> Thread {
        let name = codebutler_crds::names::thread_name("shop", &root.parse().unwrap());
        let api = self.stack.threads();
        self.until("the Thread", || async { api.get_opt(&name).await.unwrap() }).await
    }

    /// Waits until the Thread is as wanted.
    pub(crate) async fn thread_when(
        &self,
        root: &str,
        what: &str,
        wanted: impl Fn(&Thread) -> bool,
    ) -> Thread {
        let name = self.thread(root).await.name_any();
        let api = self.stack.threads();
        self.until(what, || async { api.get(&name).await.ok().filter(|t| wanted(t)) }).await
    }

    /// Waits until a role's run has ended with nothing left to take.
    pub(crate) async fn settled(&self, root: &str, role: &str) -> Thread {
        self.thread_when(root, &format!("the {role} to be done"), |thread| {
            let Some(status) = &thread.status else { return false };
            let ended = status.roles.get(role).and_then(|r| r.state);
            ended.is_some_and(|s| s != RoleState::Running) && !status.wants(role)
        })
        .await
    }

    /// Waits until a role's pod runs its toolbox, and names it.
    pub(crate) async fn pod(&self, root: &str, role: &str) -> String {
        let name = codebutler_crds::names::pod_name(&self.thread(root).await.name_any(), role);
        let api: Api<Pod> = Api::namespaced(self.stack.cluster.client(), &self.stack.place.team);
        let running = |pod: Pod| {
            let status = pod.status.as_ref()?;
            (status.phase.as_deref() == Some("Running")).then(|| pod.name_any())
        };
        self.until(&format!("pod {name}"), || async {
            api.get_opt(&name).await.unwrap().and_then(running)
        })
        .await
    }

    /// Names of the pods and volume claims that CodeButler made and that still exist.
    pub(crate) async fn leftovers(&self) -> Vec<String> {
        let client = self.stack.cluster.client();
        let made = ListParams::default().labels("codebutler.dev/thread");
        let pods = Api::<Pod>::namespaced(client.clone(), &self.stack.place.team)
            .list(&made)
            .await
            .unwrap();
        let claims = Api::<PersistentVolumeClaim>::namespaced(client, &self.stack.place.team);
        let claims = claims.list(&made).await.unwrap();
        let pods = pods.iter().map(|p| format!("pod/{}", p.name_any()));
        pods.chain(claims.iter().map(|c| format!("pvc/{}", c.name_any()))).collect()
    }

    /// Polls until there is an answer; says what was missing, and the logs' ends, when it gives up.
    pub(crate) async fn until<T, F: Future<Output = Option<T>>>(
        &self,
        what: &str,
        mut look: impl FnMut() -> F,
    ) -> T {
        let begun = Instant::now();
        loop {
            if let Some(found) = look().await {
                return found;
            }
            let late = begun.elapsed() > PATIENCE;
            let why = if late { self.state().await + &self.logs() } else { String::new() };
            assert!(!late, "gave up waiting for {what}\n{why}");
            // Most looks ask the API server: a long wait is noticed a twentieth of its time late.
            tokio::time::sleep((begun.elapsed() / 20).clamp(SHORTEST, LONGEST)).await;
        }
    }

    /// Describes the threads that are not done, for whoever reads a failure.
    async fn state(&self) -> String {
        let threads = self.stack.threads().list(&ListParams::default()).await.unwrap();
        let busy = |t: &&Thread| {
            let Some(status) = &t.status else { return true };
            status.roles.keys().any(|role| status.wants(role))
        };
        let describe = |t: &Thread| {
            let status = serde_json::to_string_pretty(&t.status).unwrap();
            let root = t.conversation().map(|slack| slack.ts.as_str()).unwrap_or_default();
            let messages = self.messages(root);
            let lines: Vec<String> = messages
                .iter()
                .map(|m| format!("{} {}: {}", m.ts, m.sender.name, m.shown))
                .collect();
            format!("{}\n{}\n{status}", t.name_any(), lines.join("\n"))
        };
        let newest = threads.iter().max_by_key(|t| t.conversation().map(|s| s.ts.clone()));
        let told = threads.iter().filter(busy).chain(newest);
        told.map(describe).collect::<Vec<_>>().join("\n\n")
    }

    pub(crate) fn logs(&self) -> String {
        let tail = |path: &Path| {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            lines[lines.len().saturating_sub(25)..].join("\n")
        };
        let gateway = tail(self.stack.gateway.log());
        let controller = tail(self.stack.controller.log());
        format!("--- controller\n{controller}\n--- gateway\n{gateway}")
    }

    /// Has only these users steer, from when the gateway knows it; everybody if there are none.
    pub(crate) async fn permit_only(&self, users: &[&String]) {
        let client = self.stack.cluster.client();
        let repos: Api<codebutler_crds::Repo> = Api::namespaced(client, &self.stack.place.team);
        let patch = Patch::Merge(json!({"spec": {"access": {"users": users}}}));
        repos.patch("shop", &PatchParams::default(), &patch).await.unwrap();
    }

    pub(crate) async fn stop(self) {
        self.stack.stop().await.unwrap();
        drop(self.lease);
    }
}

/// A step in which a role asks for a decision.
pub(crate) fn asks(text: &str, decision: &str) -> ScriptStep {
    ScriptStep::tool(
        "SendMessage",
        json!({"message": text, "waitForReply": true, "decision": decision}),
    )
}

/// A retrospective of each conversation, whatever it cost.
pub(crate) fn retrospective_at_any_cost() -> RetrospectiveSpec {
    RetrospectiveSpec { min_cost: NanoUsd::ZERO, ..RetrospectiveSpec::default() }
}

/// No retrospective: for a script that costs more than five cents and merges at once.
pub(crate) fn no_retrospective() -> RetrospectiveSpec {
    RetrospectiveSpec { enabled: false, ..RetrospectiveSpec::default() }
}

/// The script with a retrospective of the lead at the beginning of each conversation. The journal of the first one is
/// the shortest.
pub(crate) fn looking_back(mut script: ModelScript) -> ModelScript {
    let lead = script.0.get_mut("lead").unwrap();
    for (n, conversation) in lead.conversations.iter_mut().enumerate() {
        let friction = json!({"what": "The file had no name", "cause": "nobody had said it",
            "evidence": "message 1", "severity": "low"});
        let step = json!({
            "wentWell": [{"what": "It was built at once", "evidence": "message 3"}],
            "frictions": vec![friction; if n == 0 { 0 } else { 3 }],
            "learnings": [],
        });
        conversation.steps.insert(0, ScriptStep::tool("ProposeLearnings", step));
    }
    script
}

/// Path of the journal of a conversation.
pub(crate) fn journal_of(root: &str) -> String {
    format!(".codebutler/journals/thread-{}.md", root.replace('.', "-"))
}
