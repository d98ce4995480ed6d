//! A session with a server in a pod: the pod is asked for, and waited for.

use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::mcp::{McpPod, McpScope, McpServerSpec};
use codebutler_crds::wire::NotStarted;
use codebutler_crds::{Repo, Thread, names};
use codebutler_gateway_core::caller::ProvenServer;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::writes;
use codebutler_mcp::ServerLink;
use codebutler_runtime::server_spec::{NO_ROOM, fingerprint_server};
use jiff::{SignedDuration, Timestamp};
use kube::api::Patch;
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::check::{ServerSecretError, ServerSecrets, check_secrets, mark_of, secret_names};
use super::link::{StartError, begin_program};
use super::services::{BridgeServices, StartPatience};

/// Interval between looks at the controller's report on a pod.
const LOOK: Duration = Duration::from_millis(100);

/// There is no session with a server in a pod. Each message is a sentence for people and models.
#[derive(Debug, thiserror::Error)]
pub enum PodLinkError {
    /// The Repo names no such server, or not with an image.
    #[error("the Repo names no server `{0}` with an `image`")]
    Unknown(String),
    /// A Secret may not go there.
    #[error(transparent)]
    Secret(#[from] ServerSecretError),
    /// Its Thread is over, so its servers do not run.
    #[error("the Thread is closed: its servers do not run any more")]
    Closed,
    /// The controller's words on the pod.
    #[error("{0}")]
    Pod(String),
    /// The server's entry has changed in the meantime.
    #[error("server `{0}` was changed in the Repo meanwhile: try again")]
    Changed(String),
    /// The server's pod runs as many programs as it may.
    #[error("the pod of server `{0}` runs as many programs as it may: try again")]
    Busy(String),
    /// The server gets no pod before another server's is gone.
    #[error("{0}")]
    NoRoom(String),
    /// The pod is late, and nobody says that anything is wrong: a large image takes minutes, and so does a new node.
    #[error(
        "the server `{server}` is still starting ({waits}). Nothing is known to be wrong with it: try again in a minute"
    )]
    Late { server: String, waits: String },
    /// The pod runs, but its bridge has not connected.
    #[error(
        "the pod of server `{server}` runs, but has not connected to the gateway within {} seconds: see `kubectl -n \
         {namespace} logs {pod} -c {}`",
        .patience.as_secs(),
        names::pod::BRIDGE
    )]
    Silent { server: String, namespace: String, pod: String, patience: Duration },
    /// The image has no such program.
    #[error(
        "the image of server `{server}` has no program `{program}`: correct `command` or `image` of the server in \
         spec.mcpServers of the Repo"
    )]
    NoProgram { server: String, program: String },
    /// The program can't be started for another reason.
    #[error("the program of server `{server}` can't be started: {why}")]
    NotStarted { server: String, why: String },
    /// The request for a pod could not be written.
    #[error("the pod of server `{server}` can't be asked for: try again")]
    Unwritten {
        server: String,
        #[source]
        source: kube::Error,
    },
}

impl PodLinkError {
    /// True where nothing is wrong with the server: nobody can correct anything, and the next use may succeed.
    pub const fn is_passing(&self) -> bool {
        match self {
            Self::Unknown(_)
            | Self::Closed
            | Self::Changed(_)
            | Self::Busy(_)
            | Self::NoRoom(_)
            | Self::Late { .. }
            | Self::Unwritten { .. } => true,
            Self::Secret(error) => error.is_passing(),
            _ => false,
        }
    }
}

/// The way to a server in a pod.
pub struct PodLink {
    /// The streams of its program.
    pub link: ServerLink,
    /// The Secrets in its environment: its answers must not show them.
    pub secrets: ServerSecrets,
}

/// A session's way to a server in a pod: of `thread` if its scope is that, else of the Repo. It waits for the pod.
///
/// # Errors
/// A sentence that says what to do.
pub async fn open_pod_link(
    services: &BridgeServices,
    repo: &Arc<Repo>,
    thread: Option<&Arc<Thread>>,
    name: &str,
) -> Result<PodLink, PodLinkError> {
    let server = find_server(services, repo, thread, name)?;
    if server.is_over() {
        return Err(PodLinkError::Closed);
    }
    let secrets = check_server(services, &server).await?;
    let asked = ask_for_pod(services, &server, Some(&secrets.mark)).await?;
    let begun = Instant::now();
    let (since, kept, seen) = (begun, begun, SeenPod::default());
    PodWait { services, server, secrets, asked, begun, since, kept, seen }.open().await
}

/// The controller's report on a pod, as last seen.
#[derive(Default, PartialEq)]
struct SeenPod {
    uid: Option<String>,
    waits: String,
}

/// A pod that is waited for.
struct PodWait<'a> {
    services: &'a BridgeServices,
    server: ProvenServer,
    secrets: ServerSecrets,
    asked: Timestamp,
    begun: Instant,
    /// Time of the last change in the controller's report.
    since: Instant,
    /// Time at which it was last written that the pod is wanted.
    kept: Instant,
    seen: SeenPod,
}

impl PodWait<'_> {
    async fn open(mut self) -> Result<PodLink, PodLinkError> {
        let stop = self.services.shutdown.child_token();
        loop {
            self.look()?;
            let arrival = self.services.waiting.arrival();
            if let Some(uid) = self.seen.uid.clone()
                && let Some(line) = self.services.waiting.take(&self.server.key(), &uid).await
                && self.is_current().await?
            {
                match begin_program(line, stop.clone()).await {
                    Ok(streams) => {
                        let link = ServerLink::Pipe {
                            reader: Box::new(streams.output),
                            writer: Box::new(streams.input),
                            errors: Some(Box::new(streams.errors)),
                        };
                        return Ok(PodLink { link, secrets: self.secrets });
                    }
                    // A pod that is about to go: the next one connects too.
                    Err(StartError::Broken) => {}
                    Err(error) => return Err(explain_start(error, &self.server.spec.name)),
                }
            }
            let _ = timeout(LOOK, arrival).await;
            self.check_patience()?;
            self.server = refresh_server(self.services, &self.server)?;
            // However short its time without a use is: it is wanted until it is there.
            if self.kept.elapsed()
                >= Duration::from_secs((self.server.spec.idle_seconds / 3).into())
            {
                ask_for_pod(self.services, &self.server, None).await?;
                self.kept = Instant::now();
            }
        }
    }

    /// Takes what the controller says now.
    fn look(&mut self) -> Result<(), PodLinkError> {
        let is_asked = |known: &&McpPod| {
            known.wanted.as_ref().map(|at| at.0) >= Some(self.asked)
                && known.secrets == self.secrets.mark
        };
        let said = self.server.pod().filter(is_asked);
        let now =
            said.map(|known| SeenPod { uid: known.pod_uid.clone(), waits: known.waits.clone() });
        if let Some(trouble) = said.map(|known| &known.trouble).filter(|said| !said.is_empty()) {
            let is_full = trouble.contains(NO_ROOM);
            let explain = if is_full { PodLinkError::NoRoom } else { PodLinkError::Pod };
            return Err(explain(trouble.clone()));
        }
        let now = now.unwrap_or_default();
        if now != self.seen {
            (self.seen, self.since) = (now, Instant::now());
        }
        if !self.seen.waits.is_empty() {
            let (facts, server) = (&self.services.context.mcp, &self.server);
            facts.report_start(&server.repo, &server.spec, &self.seen.waits);
        }
        Ok(())
    }

    /// False where its Secrets were changed while it started: another one is asked for, which has the new ones for
    /// sure.
    async fn is_current(&mut self) -> Result<bool, PodLinkError> {
        let now = check_server(self.services, &self.server).await?;
        let is_same = now.mark == self.secrets.mark;
        self.secrets.replace(now);
        if !is_same {
            self.asked = ask_for_pod(self.services, &self.server, Some(&self.secrets.mark)).await?;
        }
        Ok(is_same)
    }

    fn check_patience(&self) -> Result<(), PodLinkError> {
        let StartPatience { step, whole } = self.services.patience;
        let (server, is_quiet) = (self.server.spec.name.clone(), self.since.elapsed() >= step);
        let SeenPod { uid, waits } = &self.seen;
        match (uid, waits.is_empty()) {
            (Some(_), true) if is_quiet => {
                let ThreadKey { namespace, name: pod } = self.server.key();
                Err(PodLinkError::Silent { server, namespace, pod, patience: step })
            }
            (Some(_), false) if self.begun.elapsed() >= whole => {
                Err(PodLinkError::Late { server, waits: waits.clone() })
            }
            (None, _) if is_quiet => {
                let none = "no pod has been made for it yet";
                let waits = if waits.is_empty() { none } else { waits };
                Err(PodLinkError::Late { server, waits: waits.to_owned() })
            }
            // A pod that comes and goes.
            _ if self.begun.elapsed() >= whole * 2 => {
                let waits = "its pod is made again and again".to_owned();
                Err(PodLinkError::Late { server, waits })
            }
            _ => Ok(()),
        }
    }
}

/// True while the pod of a server runs, as far as the caches know. One that is starting does not.
pub fn has_pod(
    services: &BridgeServices,
    repo: &Arc<Repo>,
    thread: Option<&Arc<Thread>>,
    name: &str,
) -> bool {
    let server = find_server(services, repo, thread, name);
    let runs = |known: &McpPod| known.pod_uid.is_some() && known.waits.is_empty();
    server.is_ok_and(|server| server.pod().is_some_and(runs))
}

/// Keeps the pod of a server whose session is in use. To be called with each call: it writes seldom.
///
/// # Errors
/// As [`open_pod_link`], without waiting.
pub async fn keep_pod(
    services: &BridgeServices,
    repo: &Arc<Repo>,
    thread: Option<&Arc<Thread>>,
    name: &str,
) -> Result<(), PodLinkError> {
    let server = find_server(services, repo, thread, name)?;
    if is_fresh(&server, None, Timestamp::now()).is_some() {
        return Ok(());
    }
    check_server(services, &server).await?;
    // The Secrets may have changed: the session sees that, and ends before its pod does.
    ask_for_pod(services, &server, None).await.map(drop)
}

/// The Secrets of a server, where they are others than those that had this mark: none at all, if they may not be used
/// any more. It asks seldom.
pub async fn find_new_secrets(
    services: &BridgeServices,
    repo: &Arc<Repo>,
    spec: &McpServerSpec,
    mark: &str,
) -> Option<ServerSecrets> {
    let namespace = repo.namespace().unwrap_or_default();
    let mut revisions = Vec::new();
    for name in secret_names(spec) {
        revisions.push(services.revisions.of(&services.context, &namespace, name).await?);
    }
    if mark_of(&revisions) == mark {
        return None;
    }
    match check_secrets(&services.context, &namespace, spec).await {
        Ok(secrets) => (secrets.mark != mark).then_some(secrets),
        Err(error) if error.is_passing() => None,
        Err(_) => Some(ServerSecrets::default()),
    }
}

/// Gives up the pod of a server that is not in use. The next session asks for another one.
///
/// # Errors
/// As [`open_pod_link`], without waiting.
pub async fn release_pod(
    services: &BridgeServices,
    repo: &Arc<Repo>,
    thread: Option<&Arc<Thread>>,
    name: &str,
) -> Result<(), PodLinkError> {
    let server = find_server(services, repo, thread, name)?;
    write_pod(services, &server, &json!({"wanted": null})).await
}

fn find_server(
    services: &BridgeServices,
    repo: &Arc<Repo>,
    thread: Option<&Arc<Thread>>,
    name: &str,
) -> Result<ProvenServer, PodLinkError> {
    let server = ProvenServer::find(Arc::clone(repo), thread.cloned(), name);
    let mut server = server.ok_or_else(|| PodLinkError::Unknown(name.to_owned()))?;
    if server.spec.scope == McpScope::Repo {
        server.thread = None;
    }
    refresh_server(services, &server)
}

async fn check_server(
    services: &BridgeServices,
    server: &ProvenServer,
) -> Result<ServerSecrets, ServerSecretError> {
    let namespace = server.repo.namespace().unwrap_or_default();
    check_secrets(&services.context, &namespace, &server.spec).await
}

/// The server as the caches have it now.
fn refresh_server(
    services: &BridgeServices,
    server: &ProvenServer,
) -> Result<ProvenServer, PodLinkError> {
    let gone = || PodLinkError::Unknown(server.spec.name.clone());
    let namespace = server.repo.namespace().unwrap_or_default();
    let repo = services.context.repo(&namespace, &server.repo.name_any()).ok_or_else(gone)?;
    let thread = match &server.thread {
        Some(thread) => {
            let found = services.context.thread(&ThreadKey::from(&**thread));
            Some(found.ok_or_else(gone)?)
        }
        None => None,
    };
    let found = ProvenServer::find(repo, thread, &server.spec.name).ok_or_else(gone)?;
    if fingerprint_server(&found.spec) != fingerprint_server(&server.spec) {
        return Err(PodLinkError::Changed(server.spec.name.clone()));
    }
    Ok(found)
}

/// Time at which the pod was asked for, if that is recent and was done with the Secrets of this mark.
fn is_fresh(server: &ProvenServer, mark: Option<&str>, now: Timestamp) -> Option<Timestamp> {
    let known = server.pod().filter(|known| known.spec == fingerprint_server(&server.spec))?;
    if mark.is_some_and(|mark| known.secrets != mark) {
        return None;
    }
    let asked = known.wanted.as_ref()?.0;
    let third = SignedDuration::from_secs(i64::from(server.spec.idle_seconds) / 3);
    (now.duration_since(asked) < third).then_some(asked)
}

/// Writes that the pod is wanted, unless it was written lately; answers when. With the mark of Secrets, one that was
/// started with others does not speak for the server any more, and is replaced.
async fn ask_for_pod(
    services: &BridgeServices,
    server: &ProvenServer,
    mark: Option<&str>,
) -> Result<Timestamp, PodLinkError> {
    let now = Timestamp::now();
    if let Some(asked) = is_fresh(server, mark, now) {
        return Ok(asked);
    }
    // Cut to whole seconds, as the API server stores it.
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let pod = McpPod {
        wanted: Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now)),
        spec: fingerprint_server(&server.spec),
        ..McpPod::default()
    };
    let mut pod = serde_json::to_value(pod).unwrap_or_default();
    // Trouble of an earlier pod says nothing of the next one.
    pod["trouble"] = Value::Null;
    if let Some(mark) = mark {
        pod["secrets"] = Some(mark).filter(|mark| !mark.is_empty()).into();
        if server.pod().is_some_and(|known| known.secrets != mark) {
            pod["podUID"] = Value::Null;
        }
    }
    write_pod(services, server, &pod).await?;
    Ok(now)
}

/// Changes what is said of the pod in the status of its Thread or Repo.
async fn write_pod(
    services: &BridgeServices,
    server: &ProvenServer,
    pod: &Value,
) -> Result<(), PodLinkError> {
    let name = &server.spec.name;
    let namespace = server.repo.namespace().unwrap_or_default();
    let (client, params) = (services.context.client.clone(), writes::patch_params());
    let written = if let Some(thread) = &server.thread {
        let status = json!({"status": {"mcp": {"servers": {name: {"pod": pod}}}}});
        let threads = Api::<Thread>::namespaced(client, &namespace);
        threads.patch_status(&thread.name_any(), &params, &Patch::Merge(status)).await.map(drop)
    } else {
        let status = json!({"status": {"mcpPods": {name: pod}}});
        let repos = Api::<Repo>::namespaced(client, &namespace);
        let name = server.repo.name_any();
        repos.patch_status(&name, &params, &Patch::Merge(status)).await.map(drop)
    };
    written.map_err(|source| PodLinkError::Unwritten { server: name.clone(), source })
}

fn explain_start(error: StartError, server: &str) -> PodLinkError {
    let server = server.to_owned();
    match error {
        StartError::NotStarted(NotStarted::Missing(program)) => {
            PodLinkError::NoProgram { server, program }
        }
        StartError::NotStarted(NotStarted::Failed(why)) => PodLinkError::NotStarted { server, why },
        StartError::NotStarted(NotStarted::Busy) => PodLinkError::Busy(server),
        StartError::Broken | StartError::Frame(_) => {
            PodLinkError::NotStarted { server, why: error.to_string() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_somebody_can_correct_is_the_servers_fault() {
        let name = || "db".to_owned();
        for passing in [
            PodLinkError::Closed,
            PodLinkError::Changed(name()),
            PodLinkError::Busy(name()),
            PodLinkError::NoRoom(name()),
            PodLinkError::Late { server: name(), waits: "its node pulls image `x`".to_owned() },
        ] {
            assert!(passing.is_passing(), "{passing}");
        }
        for lasting in [
            PodLinkError::Pod("its image can't be pulled".to_owned()),
            PodLinkError::NoProgram { server: name(), program: name() },
            PodLinkError::NotStarted { server: name(), why: name() },
            PodLinkError::Silent {
                server: name(),
                namespace: name(),
                pod: name(),
                patience: Duration::from_mins(1),
            },
        ] {
            assert!(!lasting.is_passing(), "{lasting}");
        }
    }
}
