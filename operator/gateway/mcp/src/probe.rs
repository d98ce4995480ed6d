//! Checks each server of each Repo in the background: when it is new, when its entry or one of its Secrets has
//! changed, and every few minutes. One failed check is no news about a server that worked; two are.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use codebutler_crds::condition::MCP_SERVERS_READY;
use codebutler_crds::mcp::McpServerSpec;
use codebutler_crds::{Repo, names};
use codebutler_gateway_core::conditions::ConditionWriter;
use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::mcp_facts::SessionOutcome;
use codebutler_gateway_core::repo_key::RepoKey;
use codebutler_gateway_core::revisions::PolledRevisions;
use kube::ResourceExt as _;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{MissedTickBehavior, timeout};
use tokio_util::sync::CancellationToken;

use super::choose::read_choice;
use super::health_check::{FailureKind, ServerHealth, ServerOutcome, check_health, mask_words};
use super::session_key::ServerPlace;
use super::sessions::SessionPool;
use super::status::{ServerStanding, ServersState, publish_servers, recall_outcome};

/// Time between two rounds over the Repos, in which servers are checked only if they are due.
const ROUND: Duration = Duration::from_secs(2);
/// Time between two checks of a server that answers.
const EVERY: Duration = Duration::from_mins(5);
/// Time before a server that failed is checked again, at first and at last.
const FIRST: Duration = Duration::from_secs(3);
const LAST: Duration = Duration::from_mins(5);
/// Time limit of one check of a server.
const PATIENCE: Duration = Duration::from_mins(2);
/// Failed checks in a row after which a server counts as away.
const FAILURES: u32 = 2;
/// Servers that are checked side by side.
const AT_ONCE: usize = 8;

/// Checks servers until the gateway stops.
pub async fn run_server_probe(
    context: &GatewayContext,
    conditions: &ConditionWriter,
    sessions: &SessionPool,
    shutdown: &CancellationToken,
) {
    let mut probe = ServerProbe {
        context,
        conditions,
        sessions,
        checks: HashMap::new(),
        ready: HashMap::new(),
        running: JoinSet::new(),
        choosing: HashSet::new(),
        places: Arc::new(Semaphore::new(AT_ONCE)),
        secrets: PolledRevisions::default(),
    };
    let mut ticks = tokio::time::interval(ROUND);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let step = async {
            tokio::select! {
                _ = ticks.tick() => probe.begin_checks().await,
                Some(done) = probe.running.join_next() => probe.keep_outcome(done).await,
            }
        };
        if shutdown.run_until_cancelled(step).await.is_none() {
            return;
        }
    }
}

/// Server of a Repo, by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct CheckKey {
    repo: RepoKey,
    server: String,
}

/// The state of a server, as checks have found it.
struct ServerCheck {
    /// Hash of the entry and of the revisions of its Secrets.
    fingerprint: String,
    /// Time at which a change of the entry or of a Secret was noticed, if it was: findings of earlier sessions are
    /// void.
    changed: Option<Instant>,
    /// Time at which the last check began, or ended if it has.
    at: Option<Instant>,
    is_running: bool,
    /// Number of failed checks in a row.
    failures: u32,
    outcome: Option<ServerOutcome>,
    /// Values of Secrets that the server has.
    secrets: Vec<String>,
}

impl ServerCheck {
    fn new(fingerprint: String) -> Self {
        Self {
            fingerprint,
            changed: None,
            at: None,
            is_running: false,
            failures: 0,
            outcome: None,
            secrets: Vec::new(),
        }
    }

    fn is_due(&self) -> bool {
        let Some(at) = self.at else { return true };
        let wait = match self.failures {
            // A check that never ends is one that panicked.
            _ if self.is_running => PATIENCE * 2,
            0 => EVERY,
            failures => FIRST.saturating_mul(1 << (failures - 1).min(8)).min(LAST),
        };
        at.elapsed() >= wait
    }

    fn keep(&mut self, outcome: ServerOutcome) {
        let has_failed = matches!(outcome, ServerOutcome::Fails { .. });
        self.failures = if has_failed { self.failures.saturating_add(1) } else { 0 };
        (self.at, self.is_running) = (Some(Instant::now()), false);
        self.outcome = Some(outcome);
    }

    /// The outcome, if it counts.
    fn certain_outcome(&self) -> Option<ServerOutcome> {
        self.outcome.clone().filter(|outcome| match outcome {
            ServerOutcome::Fails { kind: FailureKind::Server, .. } => self.failures >= FAILURES,
            _ => true,
        })
    }
}

/// An asynchronous task of the probe that ended.
enum EndedTask {
    Check(EndedCheck),
    /// The choice of a repository was read, or can't be.
    Choice(RepoKey),
    Nothing,
}

/// A check that has ended, with what it found.
struct EndedCheck {
    key: CheckKey,
    fingerprint: String,
    health: ServerHealth,
}

struct ServerProbe<'a> {
    context: &'a GatewayContext,
    conditions: &'a ConditionWriter,
    /// Keeps the lists that checks read: no role waits for them.
    sessions: &'a SessionPool,
    checks: HashMap<CheckKey, ServerCheck>,
    /// The condition of each Repo as it was written last.
    ready: HashMap<RepoKey, ServersState>,
    running: JoinSet<EndedTask>,
    /// Repositories whose choice is being read.
    choosing: HashSet<RepoKey>,
    places: Arc<Semaphore>,
    secrets: PolledRevisions,
}

impl ServerProbe<'_> {
    async fn begin_checks(&mut self) {
        let context = self.context;
        let repos = context.own_repos().into_iter();
        let repos: Vec<Arc<Repo>> =
            repos.filter(|repo| repo.metadata.deletion_timestamp.is_none()).collect();
        let known: HashMap<RepoKey, &Arc<Repo>> =
            repos.iter().map(|repo| (RepoKey::from(&**repo), repo)).collect();
        let is_named = |repo: &RepoKey, server: &str| {
            known
                .get(repo)
                .is_some_and(|repo| repo.spec.mcp_servers.iter().any(|spec| spec.name == server))
        };
        self.checks.retain(|key, _| is_named(&key.repo, &key.server));
        self.ready.retain(|key, _| known.contains_key(key));
        self.choosing.retain(|key| known.contains_key(key));
        context.mcp.keep_only(|key| known.contains_key(key), is_named);
        for repo in &repos {
            if repo.spec.mcp_servers.is_empty() && !has_status(repo) {
                continue;
            }
            self.learn_choice(repo);
            for spec in &repo.spec.mcp_servers {
                self.begin_check(repo, spec).await;
            }
            self.publish(repo).await;
        }
    }

    /// Reads the repository's choice before the first role asks for it.
    fn learn_choice(&mut self, repo: &Arc<Repo>) {
        let context = self.context;
        let is_known = repo.spec.mcp_servers.is_empty()
            || context.mcp.choice(repo).is_some()
            || context.mcp.has_missed(repo);
        let key = RepoKey::from(&**repo);
        if is_known || !self.choosing.insert(key.clone()) {
            return;
        }
        let (context, repo) = (context.clone(), Arc::clone(repo));
        self.running.spawn(async move {
            read_choice(&context, &repo).await;
            EndedTask::Choice(key)
        });
    }

    async fn begin_check(&mut self, repo: &Arc<Repo>, spec: &McpServerSpec) {
        let context = self.context;
        let fingerprint = take_fingerprint(repo, spec, &self.revisions(repo, spec).await);
        let key = CheckKey { repo: RepoKey::from(&**repo), server: spec.name.clone() };
        let check =
            self.checks.entry(key.clone()).or_insert_with(|| ServerCheck::new(fingerprint.clone()));
        if check.fingerprint != fingerprint {
            let changed = Some(Instant::now());
            *check = ServerCheck { changed, ..ServerCheck::new(fingerprint.clone()) };
        }
        if !check.is_due() {
            return;
        }
        (check.at, check.is_running) = (Some(Instant::now()), true);
        let (context, repo, spec) = (context.clone(), Arc::clone(repo), spec.clone());
        let (places, sessions) = (Arc::clone(&self.places), self.sessions.clone());
        self.running.spawn(async move {
            let Ok(_place) = places.acquire().await else { return EndedTask::Nothing };
            let checking = timeout(PATIENCE, check_health(&context, &repo, &spec)).await;
            let mut health = checking.unwrap_or_else(|_| {
                let message = format!("no answer within {} s", PATIENCE.as_secs());
                let kind = FailureKind::Server;
                ServerHealth::of(ServerOutcome::Fails { kind, message }, Vec::new())
            });
            if let Some(list) = health.list.take() {
                sessions.keep_list(&ServerPlace::new(&repo, &spec, None), *list);
            }
            EndedTask::Check(EndedCheck { key, fingerprint, health })
        });
    }

    /// Revisions of the Secrets that an entry names.
    async fn revisions(&self, repo: &Repo, spec: &McpServerSpec) -> Vec<Option<String>> {
        let namespace = repo.namespace().unwrap_or_default();
        let values = spec.env.iter().chain(&spec.headers).chain(&spec.query);
        let client = spec.oauth.as_ref().and_then(|oauth| oauth.client.as_ref());
        let mut names: Vec<&str> = values
            .filter_map(|value| value.secret.as_ref())
            .map(|secret| secret.name.as_str())
            .chain(client.map(|client| client.name.as_str()))
            // A person may have signed in.
            .chain(spec.oauth.as_ref().map(|_| names::MCP_TOKENS))
            .collect();
        names.sort_unstable();
        names.dedup();
        let mut revisions = Vec::new();
        for name in names {
            revisions.push(self.secrets.of(self.context, &namespace, name).await);
        }
        revisions
    }

    async fn keep_outcome(&mut self, done: Result<EndedTask, JoinError>) {
        let ended = match done {
            Ok(EndedTask::Check(ended)) => ended,
            Ok(EndedTask::Choice(repo)) => {
                self.choosing.remove(&repo);
                return;
            }
            Ok(EndedTask::Nothing) => return,
            Err(error) => {
                tracing::error!(%error, "server_probe_crashed");
                return;
            }
        };
        let Some(check) = self.checks.get_mut(&ended.key) else { return };
        // The entry is another one by now, and is checked anew.
        if check.fingerprint != ended.fingerprint {
            return;
        }
        check.secrets = ended.health.secrets;
        check.keep(ended.health.outcome);
        let RepoKey { namespace, name } = &ended.key.repo;
        if let Some(repo) = self.context.repo(namespace, name) {
            self.publish(&repo).await;
        }
    }

    async fn publish(&mut self, repo: &Repo) {
        let key = RepoKey::from(repo);
        let standings: Vec<ServerStanding> =
            repo.spec.mcp_servers.iter().map(|spec| self.judge_standing(repo, spec)).collect();
        let before = self.ready.get(&key).copied().or_else(|| said_state(repo));
        let (client, conditions) = (&self.context.client, self.conditions);
        match publish_servers(client, conditions, repo, (&standings, before)).await {
            Some(state) => drop(self.ready.insert(key, state)),
            None => drop(self.ready.remove(&key)),
        }
    }

    fn judge_standing(&self, repo: &Repo, spec: &McpServerSpec) -> ServerStanding {
        let (context, name) = (self.context, spec.name.clone());
        let key = CheckKey { repo: RepoKey::from(repo), server: name.clone() };
        let Some(check) = self.checks.get(&key) else { return ServerStanding::seen(name, None) };
        let outcome = check.certain_outcome();
        if outcome != Some(ServerOutcome::Waits) {
            return ServerStanding::seen(name, outcome);
        }
        // Only a role's own session starts a server with an image.
        let mask = |words: &str| mask_words(context, repo, &check.secrets, words);
        let used = match context.mcp.session_outcome(&key.repo, spec, check.changed) {
            Some(SessionOutcome::Answered { version, tools, remark }) => {
                let (version, remark) = (mask(&version), mask(&remark));
                Some(ServerOutcome::Answers { version, tools, remark })
            }
            Some(SessionOutcome::Failed(words)) => {
                let (kind, message) = (FailureKind::Server, mask(&words));
                Some(ServerOutcome::Fails { kind, message })
            }
            None => {
                let entries = repo.status.as_ref().map_or(&[][..], |status| &status.mcp_servers);
                recall_outcome(entries, &name, &check.fingerprint)
            }
        };
        let answers = matches!(used, Some(ServerOutcome::Answers { .. }));
        if let Some(waits) = context.mcp.start_of(&key.repo, spec).filter(|_| !answers) {
            // A pod of one that has answered before says nothing about it before it has failed.
            return ServerStanding::seen(name, Some(ServerOutcome::Starts(mask(&waits))));
        }
        let used_spec = used.as_ref().map(|_| check.fingerprint.clone()).unwrap_or_default();
        ServerStanding { name, outcome: used.or(outcome), used_spec }
    }
}

/// Hash of everything that the server's answer depends on: once it changes, the server is checked again.
fn take_fingerprint(repo: &Repo, spec: &McpServerSpec, revisions: &[Option<String>]) -> String {
    let twins = repo.spec.mcp_servers.iter().filter(|server| server.name == spec.name).count();
    let parts = json!([repo.metadata.uid, spec, twins, revisions]);
    hex::encode(&Sha256::digest(parts.to_string())[..12])
}

/// True if the status says anything of servers.
fn has_status(repo: &Repo) -> bool {
    let status = repo.status.as_ref();
    status.is_some_and(|status| !status.mcp_servers.is_empty()) || said_state(repo).is_some()
}

/// The condition as the Repo has it.
fn said_state(repo: &Repo) -> Option<ServersState> {
    let mut conditions = repo.status.iter().flat_map(|status| &status.conditions);
    let said = conditions.find(|c| c.type_ == MCP_SERVERS_READY)?;
    Some(match &*said.status {
        "True" => ServersState::Ready,
        "False" => ServersState::Failing,
        _ => ServersState::NotStarted,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fails(kind: FailureKind) -> ServerOutcome {
        ServerOutcome::Fails { kind, message: "x".to_owned() }
    }

    #[test]
    fn one_failed_check_is_no_news_and_two_are() {
        let mut check = ServerCheck::new(String::new());
        assert!(check.is_due() && check.certain_outcome().is_none());
        check.keep(ServerOutcome::Waits);
        assert_eq!(check.certain_outcome(), Some(ServerOutcome::Waits));
        assert!(!check.is_due());
        check.keep(fails(FailureKind::Server));
        assert_eq!(check.certain_outcome(), None);
        check.keep(fails(FailureKind::Server));
        assert_eq!(check.certain_outcome(), Some(fails(FailureKind::Server)));
        check.keep(ServerOutcome::Waits);
        assert_eq!(check.failures, 0);
    }

    #[test]
    fn a_mistake_in_the_entry_counts_at_once() {
        let mut check = ServerCheck::new(String::new());
        check.keep(fails(FailureKind::Entry));
        assert_eq!(check.certain_outcome(), Some(fails(FailureKind::Entry)));
    }

    #[test]
    fn a_server_that_fails_is_checked_ever_more_seldom() {
        let due = |failures, seconds| {
            let at = Instant::now().checked_sub(Duration::from_secs(seconds));
            ServerCheck { at, failures, ..ServerCheck::new(String::new()) }.is_due()
        };
        assert!(!due(0, 299) && due(0, 300));
        assert!(!due(1, 2) && due(1, 3));
        assert!(!due(3, 11) && due(3, 12));
        assert!(!due(40, 299) && due(40, 300));
    }
}
