//! Git's smart HTTP protocol between a pod and the Repo's remote. Pods read from a [`mirror`] that is
//! brought up to date first; what they push is received into a [`quarantine`], judged by [`rules`], and
//! only then passed on to the [`host`] with the Repo's credential.

mod branch_changes;
mod branch_facts;
mod branch_look;
mod cache;
mod change;
mod command;
mod commit_text;
mod confine;
mod definitions;
mod fork;
mod fork_look;
#[cfg(test)]
mod fuzz;
mod git_warning;
mod graft;
pub mod guard;
pub mod guides;
mod host;
pub mod host_report;
mod lfs;
mod merges;
pub mod mirror;
mod outline;
mod pictures;
pub mod pktline;
pub mod policy;
pub mod probe;
pub mod push;
mod quarantine;
mod reader;
mod receive;
mod remote_base;
mod removed;
mod rules;
mod serve;
mod service;
pub mod services;
pub mod steering;
mod survey;
#[cfg(test)]
mod testing;
mod train;
mod upkeep;

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::response::{IntoResponse as _, Response};
use codebutler_crds::wire::ErrorCode;
use codebutler_crds::{Repo, Thread};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::github::GitHub;
use codebutler_gateway_core::notices::report_problem;
use codebutler_gateway_core::places::NoPlace;
use codebutler_gateway_core::policy::WantedMasking;
use codebutler_gateway_core::thread_key::ThreadKey;
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use kube::ResourceExt as _;
use sha2::{Digest as _, Sha256};
use tokio::time::MissedTickBehavior;
use tokio::time::error::Elapsed;

pub use self::branch_changes::{ComparedCommits, ShownBranch};
pub use self::branch_facts::BranchFacts;
pub use self::change::BranchChange;
pub use self::confine::allow_without_landlock;
pub use self::fork::RemovedFromBase;
pub use self::fork_look::look_at_fork;
use self::host::{GitHost, HostError};
pub use self::merges::TriedMerge;
use self::mirror::{MirrorError, RefSnapshot, RepoMirror};
pub use self::pictures::{PictureFile, end_pictures, push_pictures};
use self::quarantine::ReceiveError;
pub use self::receive::receive_pack;
pub use self::serve::{info_refs, upload_pack};
use self::services::GitServices;
pub use self::survey::{BranchDistance, BranchSurvey, SurveyError};
pub use self::train::{PushedBranch, TrainBench, TrainHead};
pub use self::upkeep::{MadeMerge, UpkeepBench, UpkeepMerge};

/// Suffix of the message about a policy whose list of approvals can't be read.
const ASKED_AS_BEFORE: &str = ", and people are asked before pushes and pull requests as it says, or each time if it is not known";
const ADVERTISEMENT: &str = "advertisement";
const RESULT: &str = "result";
/// Interval at which copies that no Repo needs are looked for.
const TIDY: Duration = Duration::from_mins(5);
/// Interval at which room is made while something is fetched: shorter than the one at which nodes look for pods that
/// take too much of their disk.
const ROOM: Duration = Duration::from_secs(3);

/// Everything that a Git request works with: the remote, its copy and a snapshot of the refs.
struct Bench {
    host: GitHost,
    mirror: Arc<RepoMirror>,
    snapshot: RefSnapshot,
}

/// Freshness that a request needs: `IfPossible` makes do with the last copy while the remote is away.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fresh {
    Must,
    IfPossible,
}

/// The caller's repository, brought up to date, whoever gives up waiting for it.
async fn open_bench(
    gateway: &Arc<GitServices>,
    caller: &ProvenCaller,
    fresh: Fresh,
) -> Result<Bench, GitError> {
    let bench = bench_of(gateway, &caller.repo, &caller.key(), fresh).await?;
    if bench.mirror.has_moved() {
        // Whatever people did to a branch, roles that are at work hear of it soon.
        gateway.branches.touch(&caller.repo);
    }
    Ok(bench)
}

/// Brings a Repo's copy up to date; `thread` is told what is wrong with its policy.
async fn bench_of(
    gateway: &Arc<GitServices>,
    repo: &Arc<Repo>,
    thread: &ThreadKey,
    fresh: Fresh,
) -> Result<Bench, GitError> {
    let (shared, repo, thread) = (Arc::clone(gateway), repo.clone(), thread.clone());
    let mirror = gateway.mirrors.of(&repo);
    let work = async move {
        let mut outcome = try_bench(&shared, &repo, &thread, &mirror, fresh).await;
        if matches!(outcome, Err(MirrorError::Host(HostError::Moved(_))))
            && GitHub::look_for_move(&shared.context, &repo).await.is_ok_and(|moved| moved)
        {
            outcome = try_bench(&shared, &repo, &thread, &mirror, fresh).await;
        }
        if let Ok(bench) = &outcome
            && let Some(why) = explain_missing_base(&shared, &repo, &bench.snapshot).await
        {
            outcome = Err(why.into());
        }
        match &outcome {
            Ok(Bench { snapshot: RefSnapshot { stale: Some(why), .. }, .. }) => {
                shared.conditions.git_fails(&repo, why).await;
            }
            Ok(_) => {
                let remark = git_warning::find_warning(&shared.context, &repo);
                shared.conditions.git_works(&repo, remark).await;
            }
            Err(MirrorError::Host(error)) if error.is_about_repo() => {
                complain_about(&shared, &repo, &thread, &error.to_string()).await;
            }
            Err(error) => {
                if let MirrorError::Host(HostError::TooSlow(_)) | MirrorError::Late = error {
                    shared.conditions.git_fails(&repo, &error.to_string()).await;
                }
                tracing::warn!(repo = repo.name_any(), %error, cause = ?error, "mirror_fetch_failed");
            }
        }
        outcome
    };
    let done = gateway.calls.spawn(work).await;
    let done = done.map_err(io::Error::other);
    let done = done.and_then(|done| done.ok_or_else(|| io::Error::other("the gateway stops")));
    done.map_err(MirrorError::Folder)?.map_err(GitError::from)
}

/// A role without the base branch has neither the repository's guides nor its rules for commands: it does not work
/// then.
async fn explain_missing_base(
    gateway: &GitServices,
    repo: &Repo,
    snapshot: &RefSnapshot,
) -> Option<HostError> {
    let base = &repo.spec.git.branch;
    if snapshot.refs.contains_key(&format!("refs/heads/{base}")) {
        return None;
    }
    Some(match GitHub::of(&gateway.context, repo).await {
        Ok(github) => github.no_base(base).await.into(),
        Err(error) => error.into(),
    })
}

/// The branches of a Repo as its remote has them now. `thread` is told what is wrong with the repository's
/// policy.
///
/// # Errors
/// When the remote can't be asked: nothing is said of what may be old.
pub async fn take_survey(
    gateway: &Arc<GitServices>,
    repo: &Arc<Repo>,
    thread: &ThreadKey,
) -> Result<BranchSurvey, SurveyError> {
    let bench = bench_of(gateway, repo, thread, Fresh::IfPossible).await;
    let Bench { mirror, snapshot, .. } = bench.map_err(|e| SurveyError::Git(e.to_string()))?;
    // A survey covers all refs, so that their moves are not reported once more.
    mirror.has_moved();
    BranchSurvey::of(mirror, snapshot, &repo.spec.git.branch)
}

/// Finds out what people did to a Thread's branch since it was looked at last: it is remembered, and told once.
/// `thread` is what was known of it before the survey was taken.
pub async fn look_at_branch(
    gateway: &GitServices,
    repo: &Repo,
    survey: &BranchSurvey,
    thread: &Thread,
) {
    branch_look::look_at_branch(gateway, repo, &survey.view(), thread).await;
}

/// Brings the copy of a Repo up to date for whoever reads it without a Thread that could be told anything.
async fn read_copy(gateway: &Arc<GitServices>, repo: &Arc<Repo>) -> Result<(), GitError> {
    let (shared, repo) = (Arc::clone(gateway), repo.clone());
    let mirror = gateway.mirrors.of(&repo);
    let work = async move {
        let host = GitHost::of(&shared.context, &repo).await?;
        update_copy(&shared, &repo, &mirror, &host, Fresh::IfPossible).await.map(drop)
    };
    let done = gateway.calls.spawn(work).await;
    let done = done.map_err(io::Error::other);
    let done = done.and_then(|done| done.ok_or_else(|| io::Error::other("the gateway stops")));
    done.map_err(MirrorError::Folder)?.map_err(GitError::from)
}

async fn try_bench(
    gateway: &GitServices,
    repo: &Arc<Repo>,
    thread: &ThreadKey,
    mirror: &Arc<RepoMirror>,
    fresh: Fresh,
) -> Result<Bench, MirrorError> {
    let host = GitHost::of(&gateway.context, repo).await?;
    let snapshot = update_copy(gateway, repo, mirror, &host, fresh).await?;
    let bench = Bench { host, mirror: Arc::clone(mirror), snapshot };
    learn_patterns(gateway, repo, thread, &bench).await?;
    learn_servers(gateway, repo, thread, &bench).await?;
    Ok(bench)
}

/// Brings a copy up to date, within its room on the disk.
async fn update_copy(
    gateway: &GitServices,
    repo: &Repo,
    mirror: &RepoMirror,
    host: &GitHost,
    fresh: Fresh,
) -> Result<RefSnapshot, MirrorError> {
    let base = &repo.spec.git.branch;
    let copied = async {
        match fresh {
            Fresh::Must => mirror.sync(host, base).await,
            Fresh::IfPossible => mirror.read(host, base).await,
        }
    };
    let snapshot = tokio::select! {
        snapshot = copied => snapshot?,
        never = keep_room(gateway) => match never {},
    };
    if mirror.has_grown() {
        make_room(gateway).await;
    }
    Ok(snapshot)
}

/// Removes copies that no Repo needs, from time to time, until the gateway stops.
pub async fn tidy_copies(gateway: &GitServices) {
    let mut due = tokio::time::interval(TIDY);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while gateway.shutdown.run_until_cancelled(due.tick()).await.is_some() {
        let (mirrors, repos) = (gateway.mirrors.clone(), gateway.context.repos.state());
        let done = tokio::task::spawn_blocking(move || mirrors.keep_only(&repos)).await;
        if let Err(error) = done {
            tracing::warn!(%error, "mirror_cleanup_failed");
        }
        make_room(gateway).await;
    }
}

/// Makes room while something is fetched, because a fetch may be large and its size is not known before.
async fn keep_room(gateway: &GitServices) -> Infallible {
    loop {
        tokio::time::sleep(ROOM).await;
        make_room(gateway).await;
    }
}

/// Keeps the copies within their room on the disk, and counts what they take.
async fn make_room(gateway: &GitServices) {
    let mirrors = gateway.mirrors.clone();
    match tokio::task::spawn_blocking(move || mirrors.make_room()).await {
        Ok(bytes) => gateway.metrics.git_cache(bytes),
        Err(error) => tracing::warn!(%error, "git_cache_size_unknown"),
    }
}

/// Reports in the Repo's status and in the thread what a person has to correct.
async fn complain_about(
    gateway: &Arc<GitServices>,
    repo: &Arc<Repo>,
    thread: &ThreadKey,
    why: &str,
) {
    gateway.conditions.git_fails(repo, why).await;
    report_in_thread(gateway, repo, thread, why);
}

/// Reports in the thread alone what a person has to correct: whatever else is done with the Repo works.
fn report_in_thread(gateway: &Arc<GitServices>, repo: &Arc<Repo>, thread: &ThreadKey, why: &str) {
    let (shared, repo) = (Arc::clone(gateway), Arc::clone(repo));
    let (thread, why) = (thread.clone(), why.to_owned());
    gateway
        .calls
        .spawn(async move { report_problem(&*shared.notices, &repo, &thread, &why).await });
}

/// Puts the base branch's own patterns in force, and tells the thread once what is wrong with them.
async fn learn_patterns(
    gateway: &GitServices,
    repo: &Repo,
    thread: &ThreadKey,
    bench: &Bench,
) -> Result<(), MirrorError> {
    let redactors = &gateway.context.redactors;
    let base = &repo.spec.git.branch;
    let Some(tip) = bench.snapshot.refs.get(&format!("refs/heads/{base}")) else { return Ok(()) };
    if redactors.knows(repo, tip) {
        return Ok(());
    }
    let WantedMasking { rules, problems, approvals, approvals_unread } =
        policy::read_policy(bench.mirror.git(), tip).await?;
    redactors.learn(repo, tip, rules, problems.is_empty());
    redactors.learn_approvals(repo, approvals, approvals_unread);
    if problems.is_empty() {
        return Ok(());
    }
    let problems = problems.join("; ");
    let text = format!(
        "`.codebutler/policy.json` on `{base}` is invalid in part: {problems}. Until it is fixed, \
         what its last good version masked stays masked too{}.",
        if approvals_unread { ASKED_AS_BEFORE } else { "" }
    );
    post_once(gateway, thread, "policy", text);
    Ok(())
}

/// Keeps the base branch's choice of servers, and posts once in the thread what is wrong with it.
async fn learn_servers(
    gateway: &GitServices,
    repo: &Repo,
    thread: &ThreadKey,
    bench: &Bench,
) -> Result<(), MirrorError> {
    let facts = &gateway.context.mcp;
    let base = format!("refs/heads/{}", repo.spec.git.branch);
    let Some(tip) = bench.snapshot.refs.get(&base) else { return Ok(()) };
    if repo.spec.mcp_servers.is_empty() || facts.knows(repo, tip) {
        return Ok(());
    }
    let file = guides::read_server_file(bench.mirror.git(), tip).await?;
    if let Some(complaint) = facts.learn(repo, tip, file.as_deref()).complaint() {
        post_once(gateway, thread, "mcp", format!("{complaint}."));
    }
    Ok(())
}

/// Posts a line about a file of the repository in a thread, once for each text.
fn post_once(gateway: &GitServices, thread: &ThreadKey, about: &str, text: String) {
    let key = format!("{about}-{}", hex::encode(&Sha256::digest(&text)[..4]));
    let (notices, thread) = (Arc::clone(&gateway.notices), thread.clone());
    gateway.calls.spawn(async move {
        if let Err(error) = notices.post_notice(&thread, &key, &text).await {
            tracing::warn!(%error, key, thread = thread.name, notice = "file_mistake", "notice_post_failed");
        }
    });
}

/// Response to a Git client, and the outcome under which it is counted.
struct Answered {
    response: Response,
    outcome: &'static str,
}

/// A Git request failed.
#[derive(Debug, thiserror::Error)]
enum GitError {
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    Mirror(#[from] MirrorError),
    #[error(transparent)]
    Push(#[from] push::PushError),
    #[error(transparent)]
    Receive(#[from] ReceiveError),
    #[error(transparent)]
    Command(#[from] command::CommandError),
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error("a push may not be compressed as a whole (Content-Encoding)")]
    Encoding,
    #[error("a fetch's request is broken or too long")]
    Request,
    #[error("not our ref {0}")]
    NotOurs(String),
    #[error("the push ended in the middle of its command list")]
    Cut,
    #[error("it takes too long: try again")]
    Late(#[from] Elapsed),
    #[error(transparent)]
    Busy(#[from] NoPlace),
}

/// `kind` is that of the answer that Git expects: `result` or `advertisement`.
fn finish_answer(
    gateway: &GitServices,
    repo: &Repo,
    (service, kind): (&'static str, &'static str),
    outcome: Result<Answered, GitError>,
) -> Response {
    let error = match outcome {
        Ok(answer) => {
            gateway.metrics.git_request(repo, service, answer.outcome);
            return answer.response;
        }
        Err(error) => error,
    };
    let (status, outcome) = match &error {
        GitError::Push(_) | GitError::Encoding | GitError::Request | GitError::Cut => {
            (StatusCode::BAD_REQUEST, "invalid")
        }
        GitError::NotOurs(_) => (StatusCode::OK, "refused"),
        GitError::Api(error) if error.code == ErrorCode::Forbidden => {
            (StatusCode::FORBIDDEN, "refused")
        }
        GitError::Busy(_) => (StatusCode::OK, "busy"),
        // Git shows its user nothing of an answer that is no success, if it was a POST.
        _ => (StatusCode::OK, "failed"),
    };
    let name = repo.name_any();
    tracing::warn!(repo = name, service, %error, cause = ?error, "git_request_failed");
    gateway.metrics.git_request(repo, service, outcome);
    if status == StatusCode::OK {
        return refuse_client(service, kind, &error);
    }
    text_answer(status, &format!("CodeButler: {error}"))
}

/// A refusal in the protocol's own form, which Git shows as `remote error: …`.
fn refuse_client(service: &str, kind: &str, error: &GitError) -> Response {
    let mut body = Vec::new();
    if kind == ADVERTISEMENT {
        pktline::write_packets(&mut body, format!("# service={service}\n").as_bytes());
        pktline::write_flush(&mut body);
    }
    pktline::write_packets(&mut body, format!("ERR CodeButler: {error}\n").as_bytes());
    git_answer(service, kind, body)
}

/// A body that Git shows to its user.
fn text_answer(status: StatusCode, message: &str) -> Response {
    (status, [(CONTENT_TYPE, "text/plain; charset=utf-8")], format!("{message}\n")).into_response()
}

/// Builds a response of Git's protocol: `kind` is `result` or `advertisement`.
fn git_answer(service: &str, kind: &str, body: impl Into<axum::body::Body>) -> Response {
    let kind = format!("application/x-{service}-{kind}");
    let headers = [(CONTENT_TYPE, kind.as_str()), (CACHE_CONTROL, "no-cache")];
    (headers, body.into()).into_response()
}
