//! Asking: posted once per key, recorded, and then waited for. Whoever dies in between finds the
//! message by its key and goes on from there.

use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::thread::{Approval, ThreadState};
use codebutler_crds::wire::{ApprovalReply, ApprovalRequest, ApprovalState, ErrorCode};
use codebutler_crds::{SlackTs, Thread, ThreadStatus};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio::time::Instant;

use super::super::Inner;
use super::super::effects::Effect;
use super::super::people;
use super::super::post::{self, Asks, Handing, Outgoing};
use super::{KIND, add, hand_out, has_room, is_late, shown};
use crate::gateway::context::{ApiError, Caller, conversation};
use crate::gateway::threads::{Refusal, WriteError};

/// How often the watch cache is looked at while nobody has answered.
const LOOK: Duration = Duration::from_millis(150);
/// The longest that a caller may be kept.
const LONGEST: Duration = Duration::from_mins(1);
/// Longest key, name of a tool, reason and action, in bytes.
const MAX: (usize, usize, usize, usize) = (64, 64, 1000, 64 * 1024);

/// Asks unless it was asked before, and answers how it stands after at most `wait`.
pub async fn ask(
    inner: &Arc<Inner>,
    caller: &Caller,
    request: &ApprovalRequest,
    wait: Duration,
) -> Result<ApprovalReply, ApiError> {
    check(request)?;
    let key = caller.key();
    let id = format!("{}:{}", caller.role_name(), request.key);
    let deadline = Instant::now() + wait.min(LONGEST);
    // A question that was asked long ago must not be missed because a cache lags behind.
    let thread = inner.threads.read(&key).await.map_err(|error| unwritten(&error))?;
    if find(&thread, &id).is_none() {
        post(inner, caller, &thread, request, &id).await?;
    }
    loop {
        let open = inner.thread(&key).is_some_and(|thread| {
            find(&thread, &id).is_some_and(|one| {
                one.answer.is_none() && !is_late(one, Timestamp::now()) && one.hash == request.hash
            })
        });
        if !open || Instant::now() >= deadline {
            let take =
                |status: &mut ThreadStatus| hand_out(status, &id, &request.hash, Timestamp::now());
            let handed = inner.threads.try_update(&key, take).await;
            let (_, (state, by)) = handed.map_err(|error| unwritten(&error))?;
            if state == ApprovalState::Expired {
                inner.follow_up(vec![Effect::Settled { thread: key }]);
                return Ok(ApprovalReply { id, state, by });
            }
            if state != ApprovalState::Pending || Instant::now() >= deadline {
                return Ok(ApprovalReply { id, state, by });
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn find<'a>(thread: &'a Thread, id: &str) -> Option<&'a Approval> {
    let status = thread.status.as_ref()?;
    status.approvals.iter().find(|one| one.id == id)
}

/// Posts the question and records it. A quick answer waits until it is.
async fn post(
    inner: &Inner,
    caller: &Caller,
    thread: &Thread,
    request: &ApprovalRequest,
    id: &str,
) -> Result<(), ApiError> {
    if thread.spec.state == ThreadState::Closed || thread.is_going() {
        return Err(ApiError::new(ErrorCode::ThreadClosed, "the thread is closed"));
    }
    if !thread.status.as_ref().is_none_or(has_room) {
        return Err(ApiError::new(ErrorCode::InvalidRequest, Refusal::Asked.to_string()));
    }
    let key = caller.key();
    let redactor = inner.context.redactors.of(&caller.repo);
    let masked = ApprovalRequest {
        summary: redactor.mask(&request.summary).into_owned(),
        detail: request.detail.as_deref().map(|detail| redactor.mask(detail).into_owned()),
        ..request.clone()
    };
    let question = shown::question(&masked, &people::of(thread));
    let outgoing = Outgoing {
        repo: &caller.repo,
        thread,
        slack: conversation(thread)?,
        key: &request.key,
        role: Some(&caller.role),
        kind: KIND,
        asks: Asks::Blocks(&question.blocks),
        note: None,
        handing: Handing::default(),
        parts: vec![question.text],
    };
    let _turn = inner.posting.lock(&key).await;
    let sent = match post::once(inner, &outgoing).await {
        Ok(sent) => sent,
        Err(error) => return Err(inner.failed(error, &caller.repo).await),
    };
    let Some(ts) = sent.into_iter().next() else {
        return Err(ApiError::new(ErrorCode::Unavailable, "not posted: try again"));
    };
    let seconds = caller.repo.spec.policy.approval_seconds;
    let record = record(caller, request, id, ts, Timestamp::now(), seconds);
    let recorded = inner.threads.try_update(&key, |status| add(status, &record)).await;
    recorded.map(drop).map_err(|error| unwritten(&error))
}

fn record(
    caller: &Caller,
    request: &ApprovalRequest,
    id: &str,
    ts: SlackTs,
    now: Timestamp,
    seconds: u32,
) -> Approval {
    let patience = SignedDuration::from_secs(seconds.into());
    Approval {
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
    }
}

fn check(request: &ApprovalRequest) -> Result<(), ApiError> {
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

fn unwritten(error: &WriteError) -> ApiError {
    tracing::warn!(%error, "a question about an action is not recorded");
    match error {
        WriteError::Missing(_) => {
            ApiError::new(ErrorCode::ThreadClosed, "the Thread does not exist any more")
        }
        WriteError::Refused(why) => ApiError::new(ErrorCode::InvalidRequest, why.to_string()),
        WriteError::Contended(_) | WriteError::Api(_) => ApiError::new(
            ErrorCode::Unavailable,
            "the Thread can't be written right now: ask again with the same key",
        ),
    }
}
