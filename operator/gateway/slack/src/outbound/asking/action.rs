//! Asks about one action: posts the question once per key, records it, and waits for the answer. A process that
//! takes over from one that died in between finds the message by its key and goes on from there.

use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::thread::{ActionApproval, ThreadState};
use codebutler_crds::wire::{ApprovalReply, ApprovalRequest, ApprovalState, ErrorCode};
use codebutler_crds::{SlackTs, Thread, ThreadStatus};
use codebutler_gateway_core::api_error::{ApiError, require_conversation};
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::threads::{ChangeRefusal, explain_unwritten, revoke_allowances_of};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::whole;
use crate::Inner;
use crate::outbound::post::{self, FileHanding, OutgoingText, TextAsks};
use crate::outbound::uploads;
use crate::people::mentions;
use crate::questions::action::render::{ActionShown, WholeAction};
use crate::questions::action::{
    KIND, STANDING, add_question, hand_out, has_room, is_late, render, thread_approval,
};

/// Interval at which the watch cache is polled while nobody has answered.
const LOOK: Duration = Duration::from_millis(150);
/// Longest time that a caller may be kept.
const LONGEST: Duration = Duration::from_mins(1);
/// Most messages that an action may take where Slack takes no files.
const MOST_PARTS: usize = 12;
/// `kind` of those messages.
const WHOLE: &str = "action-whole";
/// Size limits of key, name of a tool, reason and action, in bytes.
const MAX: (usize, usize, usize, usize) = (64, 64, 1000, 64 * 1024);

/// Asks unless it was asked before, and returns the state of the question after at most `wait`.
pub(crate) async fn ask_action(
    inner: &Arc<Inner>,
    caller: &ProvenCaller,
    request: &ApprovalRequest,
    wait: Duration,
) -> Result<ApprovalReply, ApiError> {
    check_request(request)?;
    let key = caller.key();
    let id = format!("{}:{}", caller.role_name(), request.key);
    let deadline = Instant::now() + wait.min(LONGEST);
    // Read from the API server: a question that was asked long ago must not be missed because a cache lags
    // behind.
    let thread = inner.threads.read(&key).await.map_err(|error| explain_unwritten(&error))?;
    if let Some(by) = standing_yes(inner, caller, &thread, request, &id).await? {
        tell_standing(inner, caller, &thread, request, &by).await?;
    } else if find_approval(&thread, &id).is_none() {
        post_action(inner, caller, &thread, request, &id).await?;
    }
    loop {
        let open = inner.thread(&key).is_some_and(|thread| {
            find_approval(&thread, &id).is_some_and(|one| {
                one.answer.is_none() && !is_late(one, Timestamp::now()) && one.hash == request.hash
            })
        });
        if !open || Instant::now() >= deadline {
            let take =
                |status: &mut ThreadStatus| hand_out(status, &id, &request.hash, Timestamp::now());
            let handed = inner.threads.try_update(&key, take).await;
            let (now, (state, by)) = handed.map_err(|error| explain_unwritten(&error))?;
            let standing = find_approval(&now, &id).is_some_and(|one| one.standing);
            let reply = ApprovalReply { id: id.clone(), state, by, standing };
            if state == ApprovalState::Expired {
                inner.settle_soon(key);
                return Ok(reply);
            }
            if state != ApprovalState::Pending || Instant::now() >= deadline {
                return Ok(reply);
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn find_approval<'a>(thread: &'a Thread, id: &str) -> Option<&'a ActionApproval> {
    let status = thread.status.as_ref()?;
    status.approvals.iter().find(|one| one.id == id)
}

/// Person who has approved the same words for the thread, if there is one: it is on record then, and nobody is
/// asked.
async fn standing_yes(
    inner: &Inner,
    caller: &ProvenCaller,
    thread: &Thread,
    request: &ApprovalRequest,
    id: &str,
) -> Result<Option<String>, ApiError> {
    let users = &caller.repo.spec.access.users;
    if let Some(known) = find_approval(thread, id) {
        return Ok(known.by.clone().filter(|_| known.standing));
    }
    let is_over = thread.spec.state == ThreadState::Closed || thread.is_going();
    let status = thread.status.as_ref().filter(|_| !is_over);
    let given = thread_approval::request_words(request)
        .and_then(|words| thread_approval::find_standing(status?, &words, users).cloned());
    let Some(given) = given else { return Ok(None) };
    let refusal = match inner.standing_refusal(&caller.repo, &given.by).await {
        Ok(refusal) => refusal,
        Err(error) => return Err(inner.failed(error, &caller.repo).await),
    };
    if refusal.is_some() {
        let end = |status: &mut ThreadStatus| revoke_allowances_of(status, &given.by);
        let ended = inner.threads.update(&caller.key(), end).await;
        ended.map_err(|error| explain_unwritten(&error))?;
        return Ok(None);
    }
    let question = build_approval(caller, request, id, given.ts.clone(), Timestamp::now(), 0);
    let answer =
        |status: &mut ThreadStatus| thread_approval::answer_for_thread(status, &question, users);
    let answered = inner.threads.try_update(&caller.key(), answer).await;
    let (_, stands) = answered.map_err(|error| explain_unwritten(&error))?;
    Ok(stands.then_some(given.by))
}

/// Says in the thread, beforehand, what is done on a yes that was given before: what nobody can see is not
/// done.
async fn tell_standing(
    inner: &Inner,
    caller: &ProvenCaller,
    thread: &Thread,
    request: &ApprovalRequest,
    by: &str,
) -> Result<(), ApiError> {
    let notice = render::show_notice(&mask_request(inner, caller, request), by);
    let outgoing = action_outgoing(caller, thread, request, (STANDING, &notice))?;
    let _turn = inner.posting.lock(&caller.key()).await;
    match post::post_once(inner, &outgoing).await {
        Ok(_) => Ok(()),
        Err(error) => Err(inner.failed(error, &caller.repo).await),
    }
}

/// Message that shows an action, on its way into the thread under the request's own key.
fn action_outgoing<'a>(
    caller: &'a ProvenCaller,
    thread: &'a Thread,
    request: &'a ApprovalRequest,
    (kind, shown): (&'static str, &'a ActionShown),
) -> Result<OutgoingText<'a>, ApiError> {
    Ok(OutgoingText {
        repo: &caller.repo,
        thread,
        slack: require_conversation(thread)?,
        key: &request.key,
        role: Some(&caller.role),
        by: None,
        kind,
        asks: TextAsks::Blocks(&shown.blocks),
        digest: Some(request_digest(request)),
        note: None,
        tables: Vec::new(),
        handing: FileHanding::default(),
        parts: vec![shown.text.clone()],
    })
}

/// Digest of all that is shown and asked for.
fn request_digest(request: &ApprovalRequest) -> String {
    let ApprovalRequest { tool, summary, hash, detail, .. } = request;
    let mut all = Sha256::new();
    for part in [tool, summary, hash, detail.as_deref().unwrap_or_default()] {
        all.update(part.as_bytes());
        all.update([0]);
    }
    hex::encode(&all.finalize()[..16])
}

fn mask_request(
    inner: &Inner,
    caller: &ProvenCaller,
    request: &ApprovalRequest,
) -> ApprovalRequest {
    let redactor = inner.context.redactors.of(&caller.repo);
    ApprovalRequest {
        summary: redactor.mask(&request.summary).into_owned(),
        detail: request.detail.as_deref().map(|detail| redactor.mask(detail).into_owned()),
        ..request.clone()
    }
}

/// Posts the question and records it. A quick answer waits until it is recorded.
async fn post_action(
    inner: &Inner,
    caller: &ProvenCaller,
    thread: &Thread,
    request: &ApprovalRequest,
    id: &str,
) -> Result<(), ApiError> {
    if thread.spec.state == ThreadState::Closed || thread.is_going() {
        return Err(ApiError::new(ErrorCode::ThreadClosed, "the thread is closed"));
    }
    if !thread.status.as_ref().is_none_or(has_room) {
        return Err(ApiError::new(ErrorCode::InvalidRequest, ChangeRefusal::Asked.to_string()));
    }
    let key = caller.key();
    let masked = mask_request(inner, caller, request);
    let _turn = inner.posting.lock(&key).await;
    let whole = post_whole(inner, caller, thread, request, &masked).await?;
    let for_thread = thread_approval::request_words(request).is_some();
    let question = render::show_question(&masked, &mentions::people_of(thread), for_thread, &whole);
    let outgoing = action_outgoing(caller, thread, request, (KIND, &question))?;
    let sent = match post::post_once(inner, &outgoing).await {
        Ok(sent) => sent,
        Err(error) => return Err(inner.failed(error, &caller.repo).await),
    };
    let Some(ts) = sent.into_iter().next() else {
        return Err(ApiError::new(ErrorCode::Unavailable, "not posted: try again"));
    };
    let seconds = caller.repo.spec.policy.approval_seconds;
    let record = build_approval(caller, request, id, ts, Timestamp::now(), seconds);
    let recorded = inner.threads.try_update(&key, |status| add_question(status, &record)).await;
    recorded.map(drop).map_err(|error| explain_unwritten(&error))
}

/// Posts an action that is too long to be shown as a file before the question, or as messages where Slack takes
/// no files: nobody says yes to what can't be read.
async fn post_whole(
    inner: &Inner,
    caller: &ProvenCaller,
    thread: &Thread,
    request: &ApprovalRequest,
    masked: &ApprovalRequest,
) -> Result<WholeAction, ApiError> {
    if masked.detail.as_deref().is_none_or(render::is_whole) {
        return Ok(WholeAction::Shown);
    }
    let key = [&*request.key, &request_digest(request)].concat();
    let name = uploads::file_name("action", thread, caller.role_name(), &key, (0, "txt"));
    let content = (name, render::show_whole(masked));
    if let Some(file) = whole::attach_whole(inner, &caller.repo, thread, content).await? {
        return Ok(WholeAction::InFile(file));
    }
    let parts = render::show_in_messages(masked);
    if parts.len() > MOST_PARTS {
        let message = "this is too long to be shown: Slack takes no files here, and nobody says yes to what can't be read. \
                       Do it in smaller steps";
        return Err(ApiError::new(ErrorCode::InvalidRequest, message));
    }
    let nothing = ActionShown { text: String::new(), blocks: serde_json::Value::Null };
    let outgoing = action_outgoing(caller, thread, request, (WHOLE, &nothing))?;
    let outgoing = OutgoingText { asks: TextAsks::Nothing, parts, ..outgoing };
    match post::post_once(inner, &outgoing).await {
        Ok(_) => Ok(WholeAction::Above),
        Err(error) => Err(inner.failed(error, &caller.repo).await),
    }
}

fn build_approval(
    caller: &ProvenCaller,
    request: &ApprovalRequest,
    id: &str,
    ts: SlackTs,
    now: Timestamp,
    seconds: u32,
) -> ActionApproval {
    let patience = SignedDuration::from_secs(seconds.into());
    ActionApproval {
        id: id.to_owned(),
        role: caller.role_name().to_owned(),
        tool: request.tool.clone(),
        hash: request.hash.clone(),
        ts,
        expires: Time(now.checked_add(patience).unwrap_or(now)),
        answer: None,
        by: None,
        said: None,
        used: false,
        words: thread_approval::request_words(request),
        standing: false,
    }
}

fn check_request(request: &ApprovalRequest) -> Result<(), ApiError> {
    let invalid = |message: &str| Err(ApiError::new(ErrorCode::InvalidRequest, message));
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_.:-".contains(&b);
    let (key, tool, summary, detail) = MAX;
    if request.key.is_empty() || request.key.len() > key || !request.key.bytes().all(plain) {
        return invalid("`key` has to be 1 to 64 characters of A-Z a-z 0-9 _ . : -");
    }
    if request.tool.is_empty() || request.tool.len() > tool {
        return invalid("`tool` has to be 1 to 64 characters");
    }
    if request.summary.trim().is_empty() || request.summary.len() > summary {
        return invalid("`summary` has to say in one line what is to happen");
    }
    if request.hash.len() != 64 || !request.hash.bytes().all(|b| b.is_ascii_hexdigit()) {
        return invalid("`hash` has to be a SHA-256 in hex");
    }
    if request.detail.as_ref().is_some_and(|text| text.len() > detail) {
        return invalid("`detail` is too long: nobody can judge more than 64 KiB");
    }
    Ok(())
}
