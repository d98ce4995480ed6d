//! Questions that are settled: their messages lose the buttons and say what became of them. Which ones
//! still have to is kept in the Thread, so that a restart in between leaves no dead button behind.

use codebutler_crds::SlackTs;
use codebutler_crds::thread::{Settled, SlackThread};
use serde_json::{Value, json};

use super::account::{AccessError, Account};
use super::approval::{self, Answer};
use super::decision::Choice;
use super::money::Money;
use super::{Inner, blocks, history};
use crate::gateway::context::ThreadKey;
use crate::gateway::threads::done_settling;

/// Edits what is to be edited, and takes it off the list.
pub async fn all(inner: &Inner, key: &ThreadKey) -> Result<(), AccessError> {
    let Some((thread, repo)) = inner.known(key) else { return Ok(()) };
    let settled = thread.status.as_ref().map(|status| status.settled.clone()).unwrap_or_default();
    let Some(slack) = thread.conversation().filter(|_| !settled.is_empty()) else { return Ok(()) };
    let account = inner.account(&repo).await?;
    for one in &settled {
        match edit(inner, &account, slack, &one.ts, &told(one)).await {
            // It is gone, or too old to be edited.
            Err(error) if error.code().is_some() => {
                tracing::info!(%error, "a settled question keeps its buttons");
            }
            other => other?,
        }
    }
    let written = inner.threads.update(key, |status| done_settling(status, &settled)).await;
    if let Err(error) = written {
        tracing::warn!(%error, "settled questions are looked at again");
    }
    Ok(())
}

fn told(settled: &Settled) -> String {
    if settled.choice.as_deref() == Some(approval::EXPIRED) {
        return ":hourglass: Nobody answered in time: it was not done".to_owned();
    }
    let told = settled.choice.as_deref().and_then(|id| {
        let money = Money::by_action_id(id).map(Money::told);
        let answer = Answer::by_action_id(id).map(Answer::told);
        Choice::by_action_id(id).map(Choice::told).or(money).or(answer)
    });
    match (told, &settled.user) {
        (Some(told), Some(user)) => format!("{told} <@{user}>"),
        _ => ":arrow_down: Replaced by a newer one below".to_owned(),
    }
}

/// Puts a line in the place of a message's buttons, if it has any.
pub async fn edit(
    inner: &Inner,
    account: &Account,
    slack: &SlackThread,
    ts: &SlackTs,
    told: &str,
) -> Result<(), super::web::CallError> {
    let SlackThread { channel, ts: root } = slack;
    let found = history::message(&inner.web, &account.bot, channel, root, ts).await?;
    let Some(message) = found.filter(|message| account.wrote(message)) else { return Ok(()) };
    let blocks = message.blocks.as_ref().and_then(|blocks| blocks::settled(blocks, told));
    let Some(blocks) = blocks else { return Ok(()) };
    let mut body = json!({"channel": channel, "ts": ts, "text": message.text, "blocks": blocks});
    // Said again, so that the message keeps its key.
    if let Some(metadata) = &message.metadata {
        body["metadata"] = json!({
            "event_type": metadata.event_type, "event_payload": metadata.event_payload,
        });
    }
    inner.web.post::<Value>(&account.bot, "chat.update", &body).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_settled_question_says_how() {
        let settled = |choice: Option<&str>| Settled {
            ts: "1.000000".parse().unwrap(),
            choice: choice.map(str::to_owned),
            user: choice.map(|_| "U1".to_owned()),
        };
        assert_eq!(told(&settled(Some("plan:reject"))), ":x: Rejected by <@U1>");
        assert!(told(&settled(None)).contains("newer"));
        // Of a later version.
        assert!(told(&settled(Some("plan:postpone"))).contains("newer"));
    }
}
