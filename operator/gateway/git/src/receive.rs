//! A push: read, judged, and passed on or refused in Git's own words.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::extract::State;
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use codebutler_crds::thread::{BranchPush, RemovedCommit};
use codebutler_crds::wire::history::HistoryEvent;
use codebutler_crds::{Thread, ThreadStatus, names};
use codebutler_gateway_core::approval;
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::consent::GuardedEffect;
use codebutler_gateway_core::extract::OpenCaller;
use codebutler_gateway_core::history::ToldEvent;
use codebutler_gateway_core::low_priority::{run_low_priority, spawn_low_priority};
use codebutler_gateway_core::redact::SecretRedactor;
use codebutler_runtime::step;
use futures::StreamExt as _;
use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use kube::ResourceExt as _;

use super::branch_look;
use super::command::CommandError;
use super::guard::{PathGuard, UnusablePatterns};
use super::host::{GitHost, HostError, PushVerdict, RefUpdate};
use super::lfs;
use super::outline::ChangeOutline;
use super::push::{self, PushCommand, PushRequest, PusherRights};
use super::quarantine::{PushBase, PushQuarantine, ReceiveError};
use super::rules::{self, IncomingPush, PushRules};
use super::service::PUSH;
use super::survey::RemoteView;
use super::{Answered, Bench, Fresh, GitError, RESULT, finish_answer, git_answer, open_bench};
use crate::services::GitServices;

/// Most bytes of a refused push that are read and thrown away, so that Git reads the refusal
/// instead of a broken connection.
const MAX_DRAIN: usize = 256 * 1024 * 1024;

/// New commits that are told of by name.
const SUBJECTS: usize = 50;
/// The folder of what the team remembers.
const MEMORY: &str = ".codebutler/";
/// Time limit for the list of refs, and for reading the rest of a refused push.
const STALL: Duration = Duration::from_mins(2);
/// Longest wait until the copy has the commits of a push.
const KEEPING: Duration = Duration::from_secs(5);
/// Time limit of a push, however slowly it comes.
const PATIENCE: Duration = Duration::from_mins(20);

/// `POST git-receive-pack`: a push.
pub async fn receive_pack(
    State(gateway): State<Arc<GitServices>>,
    OpenCaller(caller): OpenCaller,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let mut stream = body.into_data_stream();
    let outcome = receive_push(&gateway, &caller, &headers, &mut stream).await;
    // Whatever is answered: Git reads nothing before it has sent all of the push.
    let _ = tokio::time::timeout(STALL, drain_body(stream)).await;
    finish_answer(&gateway, &caller.repo, (PUSH, RESULT), outcome)
}

/// Outcome of the one ref of a push.
struct Told {
    /// Reason why the ref did not change; empty if it did.
    reason: String,
    /// Message shown to people.
    message: String,
    /// True after a failure, as opposed to a refusal.
    failed: bool,
}

impl Told {
    fn new(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { reason: reason.into(), message: message.into(), failed: false }
    }
}

async fn receive_push(
    gateway: &Arc<GitServices>,
    caller: &ProvenCaller,
    headers: &HeaderMap,
    stream: &mut BodyDataStream,
) -> Result<Answered, GitError> {
    // Git compresses fetch requests only. A push that hides its command list is not looked into.
    if headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        return Err(GitError::Encoding);
    }
    let (head, push, used) = tokio::time::timeout(STALL, read_commands(stream)).await??;
    if push.commands.is_empty() {
        // Git's probe before a large push: it changes nothing and needs no remote.
        return Ok(Answered { response: git_answer(PUSH, RESULT, Vec::new()), outcome: "ok" });
    }
    let rest = head.slice(used..);
    let branch = names::branch_name(&caller.thread.name_any());
    let rights = push_rights(
        caller,
        &branch,
        approval::lacks_approved_plan(&gateway.context, caller).await?,
    );
    let refused = push::judge_push(&push, &rights);
    let outcome = match push.commands.as_slice() {
        [command] if refused.is_empty() => {
            let passed = async {
                let _place =
                    gateway.mirrors.pushers.place(&caller.key(), &(&*caller.repo).into()).await?;
                pass_push(gateway, caller, command, rest, stream).await
            };
            let passed = tokio::time::timeout(PATIENCE, passed).await;
            let told = match passed.map_err(GitError::from).and_then(|passed| passed) {
                Ok(told) => told,
                Err(error) => report_failure(caller, &error),
            };
            (vec![(command.name.clone(), told.reason)], told.message, told.failed)
        }
        _ => (push::refusal_reasons(&refused), push::explain_refusals(&refused, &rights), false),
    };
    let (refs, message, failed) = outcome;
    Ok(respond_push(caller, &push, (&refs, &message), failed))
}

/// Git shows nothing of an answer that is no report: the report says what went wrong.
fn report_failure(caller: &ProvenCaller, error: &GitError) -> Told {
    let repo = caller.repo.name_any();
    tracing::warn!(repo, %error, cause = ?error, "push_failed");
    let message = format!("CodeButler: nothing was pushed: {error}.");
    Told { failed: true, ..Told::new("the push failed", message) }
}

fn respond_push(
    caller: &ProvenCaller,
    push: &PushRequest,
    (refs, message): (&[(String, String)], &str),
    failed: bool,
) -> Answered {
    let refused = refs.iter().filter(|(_, reason)| !reason.is_empty()).count();
    if refused > 0 && !failed {
        let thread = caller.thread.name_any();
        tracing::warn!(thread, role = caller.role_name(), refused, "push_refused");
    }
    let outcome = match refused {
        _ if failed => "failed",
        0 => "ok",
        _ => "refused",
    };
    Answered { response: git_answer(PUSH, RESULT, push::report_refs(push, refs, message)), outcome }
}

/// Judges a push to the thread's branch, and passes it on.
async fn pass_push(
    gateway: &Arc<GitServices>,
    caller: &ProvenCaller,
    command: &PushCommand,
    rest: Bytes,
    stream: &mut BodyDataStream,
) -> Result<Told, GitError> {
    let known = known_thread(gateway, caller);
    let Bench { host, mirror, snapshot } = open_bench(gateway, caller, Fresh::Must).await?;
    let view = RemoteView { git: mirror.git(), refs: &snapshot.refs };
    branch_look::look_at_branch(gateway, &caller.repo, &view, &known).await;
    let current = snapshot.refs.get(&command.name).cloned();
    if current.as_ref() == Some(&command.new) {
        // An earlier try of this push has succeeded but its answer was lost, or somebody else has pushed the same.
        return Ok(Told::new("", "CodeButler: the branch is there already."));
    }
    if current.as_deref().unwrap_or_default() != believed_commit(command) {
        let message = "CodeButler: the branch has moved since you looked: fetch first.";
        return Ok(Told::new("fetch first", message));
    }
    let update = RefUpdate { name: command.name.clone(), old: current, new: command.new.clone() };
    let (refs, base) = (Arc::clone(&snapshot.refs), caller.repo.spec.git.branch.clone());
    let place = PushBase { update: update.clone(), refs, base };
    let quarantine =
        PushQuarantine::new(mirror.git(), &caller.repo.spec.policy).map_err(ReceiveError::from)?;
    let quarantine = Arc::new(quarantine);
    let redactor = gateway.context.redactors.of(&caller.repo);
    let images = approval::image_paths(&gateway.context, caller).await?;
    let guard = PathGuard::new(&caller.repo.spec.policy, caller.role.spec.push.as_ref(), &images);
    let judged = (guard, &redactor);
    let radar = known_thread(gateway, caller).status.as_ref().and_then(|known| known.radar.clone());
    let removed = radar.map(|radar| radar.removed.clone()).unwrap_or_default();
    let push = (&quarantine, place.clone(), removed);
    let looked = look_into(caller, push, judged, (rest, stream)).await;
    let incoming = match looked {
        Ok(Ok(incoming)) => incoming,
        Ok(Err(refused)) => return Ok(refused),
        Err(ReceiveError::Refused(why)) => {
            let why = redactor.mask(&why);
            return Ok(Told::new(why.clone(), format!("CodeButler refused the push: {why}")));
        }
        Err(error) => return Err(error.into()),
    };
    let (files, incoming) = find_large(&quarantine, incoming, &redactor).await?;
    let lacking = lfs::lacking_contents(&host, &files).await?;
    let branch = update.name.trim_start_matches("refs/heads/");
    if let Some((reason, message)) = lfs::lfs_refusal(&files, &lacking, (branch, host.host())) {
        return Ok(Told::new(reason, message));
    }
    let exactly = [&*update.name, update.old.as_deref().unwrap_or_default(), &update.new];
    let outlined = update.clone();
    let outline = move || (ChangeOutline::of(&incoming, &outlined), incoming);
    let (outline, incoming) = in_background(outline).await?;
    let approvals = gateway.context.redactors.approvals(&caller.repo);
    let effect =
        GuardedEffect { is_required: approvals.guards_push(branch), ..outline.effect(&exactly) };
    let standing = Box::pin(gateway.consent.ask(caller, &effect)).await?;
    if let Some((reason, message)) = standing.refusal() {
        return Ok(Told::new(reason, format!("CodeButler has not pushed this: {message}.")));
    }
    // Looking may have taken minutes.
    if approval::lacks_approved_plan(&gateway.context, caller).await? {
        let message = "CodeButler has not pushed this: the plan is not approved any more.";
        return Ok(Told::new("the plan is not approved", message));
    }
    let own = BranchPush { from: update.old.clone(), to: update.new.clone() };
    branch_look::announce_push(gateway, &caller.key(), &own).await;
    step::point("a push is passed on");
    let sent = send_push(&host, &update, &quarantine, &place).await?;
    step::point("a push was passed on");
    let told = match sent {
        Ok(verdict) => match verdict.refused {
            None => {
                gateway.consent.spend(caller, &standing).await;
                carry_receipt(gateway, caller, &update, &incoming).await;
                branch_look::note_push(gateway, &caller.key(), &own, true).await;
                gateway.branches.touch(&caller.repo);
                Told::new("", redactor.mask(verdict.said.trim()))
            }
            Some(why) => {
                branch_look::note_push(gateway, &caller.key(), &own, false).await;
                tell_refusal(gateway, caller, &host, (&why, &verdict.said))
            }
        },
        Err(error) if error.is_about_repo() => {
            super::complain_about(gateway, &caller.repo, &caller.key(), &error.to_string()).await;
            return Err(error.into());
        }
        Err(error) => {
            let told = look_again(&host, &update, &error).await;
            if told.reason.is_empty() {
                branch_look::note_push(gateway, &caller.key(), &own, true).await;
                gateway.branches.touch(&caller.repo);
                gateway.consent.spend(caller, &standing).await;
            }
            told
        }
    };
    if told.reason.is_empty() {
        keep_copy(gateway, caller).await;
        tell_history(gateway, caller, &update, &incoming, &redactor);
    }
    Ok(told)
}

/// Passes a push on, once more where the credential has become another one.
async fn send_push(
    host: &GitHost,
    update: &RefUpdate,
    quarantine: &PushQuarantine,
    place: &PushBase,
) -> Result<Result<PushVerdict, HostError>, CommandError> {
    let sent = host.push(update, quarantine.request(place)?).await;
    let is_renewed = match &sent {
        Ok(verdict) => host.renew_for_workflows(verdict).await,
        Err(error) => matches!(error, HostError::Renewed(_)),
    };
    if is_renewed { Ok(host.push(update, quarantine.request(place)?).await) } else { Ok(sent) }
}

/// Tells of a push that the host itself refused; people hear of what they have to do about it.
fn tell_refusal(
    gateway: &Arc<GitServices>,
    caller: &ProvenCaller,
    host: &GitHost,
    (why, said): (&str, &str),
) -> Told {
    let redactor = gateway.context.redactors.of(&caller.repo);
    let (why, mut said) = (redactor.mask(why), redactor.mask(said.trim()).into_owned());
    if let Some(error) = host.explain_refusal(&format!("{why} {said}")) {
        let error = error.to_string();
        super::report_in_thread(gateway, &caller.repo, &caller.key(), &error);
        format!("{said}\nCodeButler: {error}.").trim_start().clone_into(&mut said);
    }
    Told::new(why, said)
}

/// Fetches the pushed commits into the copy, so that they can be named if people remove them a moment later.
async fn keep_copy(gateway: &Arc<GitServices>, caller: &ProvenCaller) {
    match tokio::time::timeout(KEEPING, super::read_copy(gateway, &caller.repo)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "mirror_update_failed"),
        Err(_) => tracing::warn!("mirror_update_timed_out"),
    }
}

/// Puts a push into the Thread's history.
fn tell_history(
    gateway: &Arc<GitServices>,
    caller: &ProvenCaller,
    update: &RefUpdate,
    incoming: &IncomingPush,
    redactor: &SecretRedactor,
) {
    let subjects = incoming.commits.iter().map(|commit| commit_subject(&commit.text));
    let (branch, commit) = (update.name.trim_start_matches("refs/heads/"), update.new.clone());
    let event = HistoryEvent::Pushed {
        branch: branch.to_owned(),
        commit,
        subjects: subjects.take(SUBJECTS).collect(),
    };
    let (key, role) = (format!("push:{}", update.new), Some(caller.role_name().to_owned()));
    let told = ToldEvent { key, at: None, role, run: None, event };
    gateway.context.history.tell(&caller.key(), redactor, told);
}

/// The first line of a commit's message.
fn commit_subject(commit: &str) -> String {
    let message = commit.split_once("\n\n").map_or("", |(_, message)| message);
    message.lines().next().unwrap_or_default().to_owned()
}

/// A commit of nothing but what the team remembers leaves tested what was tested before it.
async fn carry_receipt(
    gateway: &Arc<GitServices>,
    caller: &ProvenCaller,
    update: &RefUpdate,
    incoming: &IncomingPush,
) {
    let mut changes = incoming.commits.iter().flat_map(|commit| commit.changes.iter());
    if !incoming.fast_forward || !changes.all(|change| change.path.starts_with(MEMORY)) {
        return;
    }
    let carry = |status: &mut ThreadStatus| {
        if let Some(receipt) = &mut status.receipt
            && Some(&receipt.commit) == update.old.as_ref()
        {
            receipt.commit.clone_from(&update.new);
        }
    };
    if let Err(error) = gateway.threads.update(&caller.key(), carry).await {
        // People are told that it was not tested, which is the careful side.
        tracing::warn!(%error, part = "test_receipt", "thread_status_write_failed");
    }
}

/// The Thread as it is known now: who pushes may have begun long ago.
fn known_thread(gateway: &GitServices, caller: &ProvenCaller) -> Arc<Thread> {
    let known = gateway.threads.freshest(&caller.key(), gateway.context.thread(&caller.key()));
    known.unwrap_or_else(|| Arc::clone(&caller.thread))
}

/// Takes the pack in and looks at all of it; tells what it would bring, or why it is refused.
async fn look_into(
    caller: &ProvenCaller,
    (quarantine, place, removed): (&Arc<PushQuarantine>, PushBase, Vec<RemovedCommit>),
    (guard, redactor): (Result<PathGuard, UnusablePatterns>, &Arc<SecretRedactor>),
    (rest, stream): (Bytes, &mut BodyDataStream),
) -> Result<Result<IncomingPush, Told>, ReceiveError> {
    let policy = &caller.repo.spec.policy;
    let rights = caller.role.spec.push.as_ref();
    let guard = guard.map_err(|error| ReceiveError::Refused(error.to_string()))?;
    let max_bytes = u64::from(policy.push_mib()) << 20;
    quarantine.receive(rest, stream, max_bytes).await?;
    let rules = PushRules {
        branch: place.update.name.trim_start_matches("refs/heads/").to_owned(),
        rewrite: rights.is_some_and(|rights| rights.rewrite),
        max_file_mib: policy.file_mib(),
        guard,
        redactor: Arc::clone(redactor),
    };
    let judging = judge_push(Arc::clone(quarantine), place, removed, (rules, max_bytes));
    spawn_low_priority(judging).await?
}

/// Reads what a push would bring, and judges it.
async fn judge_push(
    quarantine: Arc<PushQuarantine>,
    place: PushBase,
    removed: Vec<RemovedCommit>,
    (rules, max_bytes): (PushRules, u64),
) -> Result<Result<IncomingPush, Told>, ReceiveError> {
    let mut incoming = quarantine.incoming(&place, &rules.guard).await?;
    incoming.back = quarantine.brought_back(&place, &removed, &incoming).await?;
    // Judging a large push takes long, so it has a thread of its own: other pushes wait for none of its steps.
    let judge = move || (rules::judge_rules(&incoming, &rules), incoming, rules);
    let (mut wrong, incoming, rules) = in_background(judge).await?;
    if wrong.is_empty() {
        wrong = quarantine.leaks(&incoming, &rules, &rules.redactor, max_bytes).await?;
    }
    let wrong: Vec<_> = wrong.into_iter().collect();
    let told = |first: &rules::PushViolation| {
        Told::new(first.reason(), rules::explain_violations(&wrong, &rules))
    };
    Ok(match wrong.first().map(told) {
        Some(refused) => Err(refused),
        None => Ok(incoming),
    })
}

/// The push's files that have to do with Git LFS, and the push.
async fn find_large(
    quarantine: &Arc<PushQuarantine>,
    incoming: IncomingPush,
    redactor: &Arc<SecretRedactor>,
) -> Result<(lfs::LfsFiles, IncomingPush), ReceiveError> {
    let (quarantine, redactor) = (Arc::clone(quarantine), Arc::clone(redactor));
    let finding = async move {
        let files = quarantine.large_files(&incoming, &redactor).await?;
        Ok((files, incoming))
    };
    spawn_low_priority(finding).await?
}

async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ReceiveError> {
    Ok(run_low_priority(work).await?)
}

/// Looks at the remote's branch to find out what became of a push whose answer is unknown.
async fn look_again(host: &GitHost, update: &RefUpdate, error: &HostError) -> Told {
    tracing::warn!(%error, "push_outcome_unknown");
    match host.refs().await {
        Ok(refs) if refs.get(&update.name) == Some(&update.new) => Told::new(
            "",
            format!("CodeButler: {} broke off, but it has taken the push.", host.host()),
        ),
        Ok(_) => Told::new(
            "the Git host broke off",
            format!("CodeButler: {error}. The branch has not moved: fetch, then push again."),
        ),
        Err(_) => Told::new(
            "the Git host broke off",
            format!(
                "CodeButler: {error}. Whether it has taken the push is not known: fetch to see, \
                 before you push again."
            ),
        ),
    }
}

/// Commit that the client believes the branch to be at; empty for a new branch.
fn believed_commit(command: &PushCommand) -> &str {
    if push::is_zero(&command.old) { "" } else { &command.old }
}

/// Reads until the command list is complete: all bytes read, the list, and its length.
async fn read_commands(
    stream: &mut BodyDataStream,
) -> Result<(Bytes, PushRequest, usize), GitError> {
    let mut head = BytesMut::new();
    loop {
        if let Some((push, used)) = push::parse_push(&head)? {
            return Ok((head.freeze(), push, used));
        }
        match stream.next().await {
            Some(Ok(chunk)) => head.extend_from_slice(&chunk),
            Some(Err(_)) | None => return Err(GitError::Cut),
        }
    }
}

async fn drain_body(mut stream: BodyDataStream) {
    let mut read = 0;
    while read < MAX_DRAIN
        && let Some(Ok(chunk)) = stream.next().await
    {
        read += chunk.len();
    }
}

/// Returns what the caller may push.
pub(crate) fn push_rights<'a>(
    caller: &ProvenCaller,
    branch: &'a str,
    lacks_approval: bool,
) -> PusherRights<'a> {
    PusherRights { may_push: caller.role.spec.push.is_some(), lacks_approval, branch }
}
