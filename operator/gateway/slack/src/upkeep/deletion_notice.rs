//! Taking leave of a Thread that is deleted in the cluster: its conversation is told what is gone and what
//! remains, and what was said before is kept from beginning it anew.
//!
//! The Thread waits for this with its finalizer, but not for long: a conversation that can't be told in
//! time is not told.

use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::repo::EndedThread;
use codebutler_crds::thread::{SlackThread, ThreadState};
use codebutler_crds::{Repo, SlackTs, Thread, ThreadStatus};
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::threads;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;

use crate::Inner;
use crate::api::account::AccessError;
use crate::api::clock;
use crate::api::deferral::LaterError;
use crate::outbound::opening;
use crate::outbound::opening::ClaimedConversation;
use crate::outbound::post::{self, FileHanding, OutgoingText, TextAsks};
use crate::outbound::progress;
use crate::outbound::settled_messages;
use crate::outbound::settled_messages::SettledLine;
use crate::text::markdown;
use crate::text::split_text::split_text;

/// Longest time that a deleted Thread waits for its conversation to be told.
const PATIENCE: SignedDuration = SignedDuration::from_secs(60);
const ATTEMPT: Duration = opening::FULFIL;

/// Tells the conversation, and lets the Thread go.
pub(crate) async fn take_leave(inner: &Arc<Inner>, thread: &Thread) -> Result<(), LaterError> {
    let key = ThreadKey::from(thread);
    let repo = inner.context.repo(&key.namespace, &thread.spec.repo);
    let told = match &repo {
        Some(repo) if thread.spec.state == ThreadState::Active => {
            let telling = tokio::time::timeout(ATTEMPT, tell_farewell(inner, repo, thread));
            telling.await.unwrap_or(Err(LaterError::Slow))
        }
        // With its Repo, the way into Slack is gone; a closed conversation needs no more words.
        _ => Ok(None),
    };
    let ended = match told {
        Ok(ended) => ended,
        Err(error) if is_final(&error) || is_late(thread, Timestamp::now()) => {
            tracing::warn!(thread = key.name, %error, notice = "thread_end", "notice_post_failed");
            let slack = thread.conversation().cloned();
            slack.map(|slack| (slack, clock::slack_now()))
        }
        Err(error) => return Err(error),
    };
    if let (Some(repo), Some((slack, at))) = (repo, ended) {
        inner.end(&repo, &slack.channel, &EndedThread { root: slack.ts, at }).await?;
    }
    inner.sent.forget(&key);
    inner.threads.hold(&key, false).await?;
    tracing::info!(thread = key.name, "thread_released");
    Ok(())
}

/// True if Slack or the Secret said no, rather than "later".
fn is_final(error: &LaterError) -> bool {
    match error {
        LaterError::Access(AccessError::Call(call)) => call.code().is_some(),
        LaterError::Access(AccessError::Secret(_)) => true,
        _ => false,
    }
}

fn is_late(thread: &Thread, now: Timestamp) -> bool {
    let since = thread.metadata.deletion_timestamp.as_ref();
    since.is_some_and(|since| now.duration_since(since.0) > PATIENCE)
}

/// Tells the farewell; returns where and when it was told, or `None` if there is no conversation.
async fn tell_farewell(
    inner: &Arc<Inner>,
    repo: &Repo,
    thread: &Thread,
) -> Result<Option<(SlackThread, SlackTs)>, LaterError> {
    let key = ThreadKey::from(thread);
    let begun = thread.status.as_ref().is_some_and(|status| status.claim.is_some());
    if thread.conversation().is_none() && !begun {
        return Ok(None);
    }
    let account = inner.account(repo).await?;
    let (by, now) = (inner.name.as_str(), Time(Timestamp::now()));
    let take = |status: &mut ThreadStatus| Ok(opening::take_claim(status, by, &now));
    let (_, claimed) = inner.threads.try_update(&key, take).await?;
    if claimed == ClaimedConversation::Not {
        return Err(LaterError::Claimed);
    }
    let slack = match thread.conversation() {
        Some(slack) => slack.clone(),
        // The conversation was being opened.
        None => match opening::find_posted(inner, repo, &account, thread).await? {
            Some(ts) => {
                let channel = repo.channel().unwrap_or_default().to_owned();
                SlackThread { channel, ts }
            }
            None => return Ok(None),
        },
    };
    progress::clear_lines(inner, thread).await?;
    for question in open_questions(thread) {
        let told = ":wastebasket: The thread was deleted";
        settled_messages::settle_message(
            inner,
            &account,
            &slack,
            &question,
            &SettledLine::of(told),
        )
        .await?;
    }
    // Another replica may have told it since this process looked.
    inner.sent.forget(&key);
    let outgoing = OutgoingText {
        repo,
        thread,
        slack: &slack,
        key: "deleted",
        role: None,
        by: None,
        kind: post::NOTICE,
        asks: TextAsks::Nothing,
        digest: None,
        parts: split_text(&markdown::render_inline(&write_farewell(thread)), post::LIMIT),
        note: None,
        tables: Vec::new(),
        handing: FileHanding::default(),
    };
    let _turn = inner.posting.lock(&key).await;
    let sent = post::post_once(inner, &outgoing).await?;
    Ok(sent.last().map(|at| (slack.clone(), at.clone())))
}

/// Finds messages that still ask for a decision.
fn open_questions(thread: &Thread) -> Vec<SlackTs> {
    thread.status.as_ref().map(threads::open_questions).unwrap_or_default()
}

/// Text of the farewell: what is gone and what remains. Pure.
fn write_farewell(thread: &Thread) -> String {
    let status = thread.status.clone().unwrap_or_default();
    let pull = status.pull_request.filter(|pull| pull.merge_commit.is_none());
    let branch = status.branch.map(|branch| format!("branch `{branch}`"));
    let pull = pull.map(|pull| format!("pull request [#{}]({})", pull.number, pull.url));
    let left: Vec<String> = branch.into_iter().chain(pull).collect();
    let left = match left.join(" and ") {
        left if left.is_empty() => "Nothing was pushed.".to_owned(),
        left => format!("What was pushed remains: {left}."),
    };
    format!(
        "This thread was deleted in the cluster (Thread `{}`): its pods and its volume go, and with \
         them whatever was not pushed. {left}\nWrite here to begin anew: the conversation is read \
         again, and a plan has to be approved again.",
        thread.name_any()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn thread(status: &Value) -> Thread {
        serde_json::from_value(json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread",
            "metadata": {"name": "t", "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"repo": "r", "slack": {"channel": "C01", "ts": "1.000000"}},
            "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn it_is_said_what_remains() {
        assert!(write_farewell(&thread(&json!({}))).contains("Nothing was pushed."));
        let pushed = json!({"branch": "codebutler/t",
            "pullRequest": {"number": 7, "url": "https://h/7"}});
        let text = write_farewell(&thread(&pushed));
        let left = "remains: branch `codebutler/t` and pull request [#7](https://h/7).";
        assert!(text.contains(left), "{text}");
    }

    #[test]
    fn only_open_questions_lose_their_buttons() {
        let plan = |by: Option<&str>| {
            json!({"plan": {"ts": "2.000000", "hash": "h", "role": "pm",
            "approvedBy": by}})
        };
        assert_eq!(open_questions(&thread(&plan(None))).len(), 1);
        assert_eq!(open_questions(&thread(&plan(Some("U1")))).len(), 0);
    }

    #[test]
    fn it_is_not_waited_for_ever() {
        let going = thread(&json!({}));
        let after = |seconds: i64| {
            let since = going.metadata.deletion_timestamp.as_ref().unwrap().0;
            is_late(&going, since + SignedDuration::from_secs(seconds))
        };
        assert!(!after(59) && after(61));
    }
}
