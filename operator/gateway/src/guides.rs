//! Judges what a repository says of how to work, `.codebutler/` and skills, whenever its base branch has moved
//! on. What is wrong with it is a condition of the Repo, and told in its channel once: runs go on without what
//! can't be read, and nobody would notice.
//!
//! It is judged by the code that reads it, and looked for in copies that are there anyway: who never had a
//! conversation has nobody to tell.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use codebutler_crds::Repo;
use codebutler_crds::condition::{GUIDES_VALID, SPARSE_CHECKOUT_VALID};
use codebutler_crds::guides::GuidesStatus;
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::repo_key::RepoKey;
use codebutler_gateway_core::writes;
use codebutler_git::guides::BaseCopy;
use codebutler_git::mirror::MirrorError;
use codebutler_guides::seeds;
use codebutler_guides::validate::files::GuideFiles;
use codebutler_guides::validate::{FindingSeverity, GuideFinding, check_guides};
use codebutler_mcp_file::{MCP_FILE, list_beyond};
use codebutler_mcp_servers::choose::list_allowed;
use codebutler_runtime::step;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::Patch;
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::time::MissedTickBehavior;

use crate::learning::LearningOffers;
use crate::work::WorkServices;

/// Time between two rounds over the Repos, in which only those that are due are judged: a new one is at once.
const ROUND: Duration = Duration::from_secs(2);
/// Factor by which a Repo in which nobody talks is judged less often.
const QUIET: u32 = 10;
/// Attempts against other writers of the same status.
const ATTEMPTS: u32 = 8;
/// Findings that people are shown, and characters of each.
const SHOWN: usize = 10;
const MAX_SHOWN: usize = 300;

/// Reason why a Repo's guides were not judged, or nobody was told.
#[derive(Debug, thiserror::Error)]
enum JudgeError {
    #[error(transparent)]
    Mirror(#[from] MirrorError),
    #[error(transparent)]
    Slack(#[from] ApiError),
    #[error(transparent)]
    Write(#[from] kube::Error),
    /// The reason is in the log.
    #[error("the Repo's condition `{0}` is not written")]
    Condition(&'static str),
    #[error(transparent)]
    Panic(#[from] tokio::task::JoinError),
}

/// Input of the latest judgement of a Repo's guides.
struct JudgedInput {
    at: Instant,
    uid: Option<String>,
    commit: String,
    roles: Vec<String>,
    /// Servers that the Repo allows.
    servers: Vec<String>,
    /// True if the Repo's volumes are made from a prepared one.
    prepares: bool,
    /// Folders that the Repo's worktrees have.
    sparse: Vec<String>,
}

impl JudgedInput {
    /// True if both are of the same files, and of a Repo that says the same about them.
    fn is_of(&self, other: &Self) -> bool {
        self.commit == other.commit
            && self.roles == other.roles
            && self.servers == other.servers
            && self.prepares == other.prepares
            && self.sparse == other.sparse
    }
}

#[derive(Default)]
struct JudgedRepos {
    judged: HashMap<RepoKey, JudgedInput>,
    /// Time of the latest failure: it is retried, but not in each round.
    failed: HashMap<RepoKey, Instant>,
}

/// Judges until the gateway stops. `poll`: maximum age of what is known of a base branch.
pub async fn run_guides(gateway: &WorkServices, poll: Duration) {
    let mut judged = JudgedRepos::default();
    let mut learning = LearningOffers::default();
    let mut due = tokio::time::interval(poll.min(ROUND));
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while gateway.shutdown.run_until_cancelled(due.tick()).await.is_some() {
        let round = Box::pin(async {
            look_round(gateway, &mut judged, poll).await;
            learning.look(gateway, poll * QUIET).await;
        });
        if gateway.shutdown.run_until_cancelled(round).await.is_none() {
            return;
        }
    }
}

async fn look_round(gateway: &WorkServices, judged: &mut JudgedRepos, poll: Duration) {
    let talking: BTreeSet<_> = gateway
        .context
        .attended
        .all()
        .iter()
        .map(|thread| (thread.namespace(), thread.spec.repo.clone()))
        .collect();
    let repos = gateway.context.own_repos();
    let is_there = |key: &RepoKey| repos.iter().any(|repo| RepoKey::from(&**repo) == *key);
    judged.judged.retain(|key, _| is_there(key));
    judged.failed.retain(|key, at| is_there(key) && at.elapsed() < poll);
    for repo in repos.iter().filter(|repo| repo.metadata.deletion_timestamp.is_none()) {
        let key = RepoKey::from(&**repo);
        let talks = talking.contains(&(repo.namespace(), repo.name_any()));
        let last = judged.judged.get(&key).filter(|last| last.uid == repo.uid());
        let every = if talks { poll } else { poll * QUIET };
        if repo.spec.suspend
            || judged.failed.contains_key(&key)
            || last.is_some_and(|last| last.at.elapsed() < every)
        {
            continue;
        }
        match judge_guides(gateway, repo, last).await {
            Ok(Some(now)) => drop(judged.judged.insert(key, now)),
            Ok(None) => {}
            // A later round retries; the parts that work with a remote tell people why it does not answer.
            Err(error) => {
                tracing::info!(repo = repo.name_any(), %error, "guide_check_delayed");
                judged.failed.insert(key, Instant::now());
            }
        }
    }
}

/// Judges a Repo's guides if they are new, and tells what is wrong with them.
async fn judge_guides(
    gateway: &WorkServices,
    repo: &Repo,
    last: Option<&JudgedInput>,
) -> Result<Option<JudgedInput>, JudgeError> {
    let Some(base) = BaseCopy::take(&gateway.git, repo).await? else { return Ok(None) };
    let roles = own_roles(gateway, repo);
    let (at, uid, commit) = (Instant::now(), repo.uid(), base.commit.clone());
    let servers = repo.spec.mcp_servers.iter().map(|server| server.name.clone()).collect();
    let prepares = !repo.spec.worktree.prepared.is_none();
    let sparse = repo.spec.worktree.sparse.clone();
    let now = JudgedInput { at, uid, commit, roles, servers, prepares, sparse };
    if last.is_some_and(|last| last.is_of(&now)) {
        return Ok(Some(now));
    }
    let locks = if prepares { Some(base.locks().await?) } else { None };
    record_locks(&gateway.context.client, repo, locks).await?;
    tell_sparse(gateway, repo, &base).await?;
    let files = base.guides().await?;
    let beyond = find_beyond(gateway, repo, &now.commit, &files);
    let roles = now.roles.clone();
    let judging = tokio::task::spawn_blocking(move || check_guides(&files, &roles));
    let mut findings = judging.await?;
    findings.extend(beyond);
    findings.sort();
    tell_findings(gateway, repo, &now.commit, &findings).await?;
    Ok(Some(now))
}

/// Tells which folders of `spec.worktree.sparse` the base branch does not have.
async fn tell_sparse(
    gateway: &WorkServices,
    repo: &Repo,
    base: &BaseCopy,
) -> Result<(), JudgeError> {
    let wanted = &repo.spec.worktree.sparse;
    if wanted.is_empty() {
        let is_gone = gateway.conditions.forget(repo, SPARSE_CHECKOUT_VALID).await;
        return require_written(is_gone, SPARSE_CHECKOUT_VALID);
    }
    let missing = base.missing_folders(wanted).await?;
    let wrong = missing.first().map(|_| {
        format!(
            "the branch `{}` has no folder `{}`: correct it in spec.worktree.sparse; worktrees have the other folders",
            repo.spec.git.branch,
            missing.join("`, `")
        )
    });
    let is_said = gateway.conditions.sparse(repo, wrong.as_deref()).await;
    require_written(is_said, SPARSE_CHECKOUT_VALID)
}

/// Fails where a condition was not written, so that the guides are judged again before the next commit.
const fn require_written(is_written: bool, type_: &'static str) -> Result<(), JudgeError> {
    if is_written { Ok(()) } else { Err(JudgeError::Condition(type_)) }
}

/// Keeps the choice of servers, and finds those that the Repo does not allow: nothing of them is run.
fn find_beyond(
    gateway: &WorkServices,
    repo: &Repo,
    commit: &str,
    files: &GuideFiles,
) -> Vec<GuideFinding> {
    let bytes = match files.all().find(|(path, _)| *path == MCP_FILE) {
        None => None,
        Some((_, Ok(bytes))) => Some(bytes.as_slice()),
        Some((_, Err(_))) => return Vec::new(),
    };
    let choice = gateway.context.mcp.learn(repo, commit, bytes);
    let Some(file) = &choice.file else { return Vec::new() };
    let beyond = list_beyond(file, &list_allowed(repo)).into_iter();
    beyond
        .map(|server| GuideFinding {
            file: MCP_FILE.to_owned(),
            line: server.line,
            column: 0,
            severity: FindingSeverity::Warning,
            message: server.message,
        })
        .collect()
}

/// The roles that the Repo has beside CodeButler's.
fn own_roles(gateway: &WorkServices, repo: &Repo) -> Vec<String> {
    let roles = gateway.context.roles_of(repo).into_iter().map(|role| role.spec.role.clone());
    roles.filter(|role| seeds::role_names().all(|seed| seed != role)).collect()
}

/// Brings the Repo's status up to date, and its channel.
async fn tell_findings(
    gateway: &WorkServices,
    repo: &Repo,
    commit: &str,
    findings: &[GuideFinding],
) -> Result<(), JudgeError> {
    let errors = findings.iter().any(|finding| finding.severity == FindingSeverity::Error);
    let sentence = errors.then(|| one_line(findings));
    let is_said = gateway.conditions.guides(repo, sentence.as_deref()).await;
    require_written(is_said, GUIDES_VALID)?;
    let client = &gateway.context.client;
    if findings.is_empty() {
        update_status(client, repo, |_| None).await?;
        return Ok(());
    }
    let digest = findings_digest(findings);
    let found = Time(Timestamp::now());
    let is_same = |known: &GuidesStatus| known.digest == digest;
    let known = update_status(client, repo, |known| {
        let new = || GuidesStatus { digest: digest.clone(), since: found.clone(), told: false };
        Some(known.filter(|known| is_same(known)).unwrap_or_else(new))
    });
    let Some(known) = known.await?.filter(|known| !known.told) else { return Ok(()) };
    step::point("mistakes in guides are on record");
    // Whoever recorded it earlier may have announced it already.
    let before = (known.since != found).then_some(known.since.0);
    // The API server keeps whole seconds: an attempt after this one reads no more of it.
    let key = format!("guides:{}:{}", known.digest, known.since.0.as_second());
    let text = write_announcement(&repo.spec.git.branch, commit, findings);
    gateway.slack.announce(repo, &key, &text, before).await?;
    step::point("the channel knows of mistakes in guides");
    update_status(client, repo, |known| {
        let told =
            |known: GuidesStatus| GuidesStatus { told: known.told || is_same(&known), ..known };
        known.map(told)
    })
    .await?;
    Ok(())
}

/// Writes down the state of the lock files, where volumes are prepared for it.
async fn record_locks(
    client: &Client,
    repo: &Repo,
    locks: Option<String>,
) -> Result<(), kube::Error> {
    let known = repo.status.as_ref().and_then(|status| status.base_locks.as_ref());
    if known == locks.as_ref() {
        return Ok(());
    }
    let api: Api<Repo> = Api::namespaced(client.clone(), &repo.namespace().unwrap_or_default());
    // Nobody else writes this field, and nothing is said of another Repo of the same name.
    let patch = json!({"metadata": {"uid": repo.uid()}, "status": {"baseLocks": locks}});
    let params = writes::patch_params();
    api.patch_status(&repo.name_any(), &params, &Patch::Merge(patch)).await.map(drop)
}

/// Updates a Repo's status of its guides, and returns the result.
async fn update_status(
    client: &Client,
    repo: &Repo,
    change: impl Fn(Option<GuidesStatus>) -> Option<GuidesStatus> + Send + Sync,
) -> Result<Option<GuidesStatus>, kube::Error> {
    let api: Api<Repo> = Api::namespaced(client.clone(), &repo.namespace().unwrap_or_default());
    let mut attempt = 1;
    loop {
        let found = api.get_opt(&repo.name_any()).await?;
        let Some(now) = found.filter(|now| now.uid() == repo.uid()) else { return Ok(None) };
        let before = now.status.clone().unwrap_or_default().guides;
        let after = change(before.clone());
        if after == before {
            return Ok(after);
        }
        let patch = json!({
            "metadata": {"resourceVersion": now.resource_version()},
            "status": {"guides": after},
        });
        match api
            .patch_status(&repo.name_any(), &writes::patch_params(), &Patch::Merge(patch))
            .await
        {
            Ok(_) => return Ok(after),
            Err(kube::Error::Api(refused)) if refused.code == 409 && attempt < ATTEMPTS => {
                attempt += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Digest of the findings: another one means that something else is wrong.
fn findings_digest(findings: &[GuideFinding]) -> String {
    let mut hash = Sha256::new();
    for finding in findings {
        // A mistake that only moved is the same one.
        hash.update(format!("{}\0{:?}\0{}\0", finding.file, finding.severity, finding.message));
    }
    hex::encode(&hash.finalize()[..16])
}

/// The mistakes, the gravest first.
fn order_findings(findings: &[GuideFinding]) -> Vec<&GuideFinding> {
    let mut ordered: Vec<&GuideFinding> = findings.iter().collect();
    ordered.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    ordered
}

/// Short summary for a condition. Pure.
fn one_line(findings: &[GuideFinding]) -> String {
    let shown: Vec<String> =
        order_findings(findings).into_iter().take(3).map(show_finding).collect();
    let more = match findings.len().saturating_sub(shown.len()) {
        0 => String::new(),
        more => format!("; and {more} more, which `codebutler-agent validate` shows"),
    };
    format!("{}{more}", shown.join("; "))
}

/// Message for the channel. Pure.
fn write_announcement(branch: &str, commit: &str, findings: &[GuideFinding]) -> String {
    let short = commit.get(..7).unwrap_or(commit);
    let mut text = format!(
        ":warning: What this repository tells the roles has mistakes on `{branch}` ({short}). Work goes on \
         without what can't be read, or with the last good version of it:"
    );
    for finding in order_findings(findings).into_iter().take(SHOWN) {
        let _ = write!(text, "\n- {}", show_finding(finding));
    }
    if let Some(more) = findings.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        let _ = write!(text, "\n- and {more} more");
    }
    text + "\n`codebutler-agent validate` says the same in the repository's CI."
}

fn show_finding(finding: &GuideFinding) -> String {
    let line: String = finding.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_SHOWN) {
        None => line,
        Some((end, _)) => format!("{}\u{2026}", &line[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(line: usize, severity: FindingSeverity, message: &str) -> GuideFinding {
        let file = ".codebutler/policy.json".to_owned();
        GuideFinding { file, line, column: 0, severity, message: message.to_owned() }
    }

    #[test]
    fn the_gravest_come_first_and_the_rest_is_counted() {
        let mut all: Vec<_> =
            (1..12).map(|n| finding(n, FindingSeverity::Warning, &format!("odd {n}"))).collect();
        all.push(finding(40, FindingSeverity::Error, "wrong"));
        let text = write_announcement("main", "0123456789", &all);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "- .codebutler/policy.json:40: error: wrong");
        assert_eq!((lines.len(), lines[11]), (13, "- and 2 more"));
        assert!(lines[0].contains("`main` (0123456)"), "{text}");
        assert!(one_line(&all).ends_with("; and 9 more, which `codebutler-agent validate` shows"));
    }

    #[test]
    fn a_mistake_that_moved_is_the_same_one() {
        let at = |line, message| findings_digest(&[finding(line, FindingSeverity::Error, message)]);
        assert_eq!(at(1, "wrong"), at(7, "wrong"));
        assert_ne!(at(1, "wrong"), at(1, "otherwise wrong"));
    }
}
