//! Text of approved plans, which roles are told beside their mail. Kept in memory only, so that it is written
//! nowhere else than in Slack.

use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::thread::PostedPlan;
use codebutler_crds::wire::AskedDecision;
use codebutler_crds::{Repo, SlackTs, Thread};
use codebutler_gateway_core::thread_key::ThreadKey;

use crate::api::account::SlackAccount;
use crate::api::conversation_pages;
use crate::api::stored_message::StoredMessage;
use crate::bounded_memory::BoundedMemory;
use crate::text::mrkdwn;
use crate::{Inner, own_metadata};

/// Longest wait of a run for what it can do without.
const PATIENCE: Duration = Duration::from_secs(3);
const MAX_PLAN: usize = 16_000;
/// Most parts of a long message that are looked through.
const PARTS: usize = 20;

pub(crate) type PinnedPlans = BoundedMemory<(ThreadKey, SlackTs), Arc<str>>;

impl Inner {
    /// Keeps what a plan says as it was posted, which is what its hash is of.
    pub(crate) fn keep_plan(&self, thread: &ThreadKey, plan: &SlackTs, text: &str) {
        let text: String = text.chars().take(MAX_PLAN).collect();
        self.plans.keep((thread.clone(), plan.clone()), text.into());
    }

    /// Text of the approved plan; read back from Slack where this process did not post it.
    pub(crate) async fn plan_text(&self, repo: &Repo, thread: &Thread) -> Option<String> {
        let plan =
            thread.status.as_ref()?.plan.as_ref().filter(|plan| plan.approved_by.is_some())?;
        let key = (ThreadKey::from(thread), plan.ts.clone());
        if let Some(text) = self.plans.get(&key) {
            return Some(text.to_string());
        }
        let read = tokio::time::timeout(PATIENCE, self.read_plan(repo, thread, plan)).await;
        let text = read.ok().flatten()?;
        self.keep_plan(&key.0, &key.1, &text);
        Some(text)
    }

    /// Reads the plan's message, and the parts before it where it was a long one. Only what this app posted for
    /// the role counts: nobody else can write or change such a message.
    async fn read_plan(&self, repo: &Repo, thread: &Thread, plan: &PostedPlan) -> Option<String> {
        let account = self.account(repo).await.ok()?;
        let slack = thread.conversation()?;
        let (web, bot) = (&self.web, &account.bot);
        let last =
            conversation_pages::read_message(web, bot, &slack.channel, &slack.ts, &plan.ts).await;
        let last = last.ok().flatten().filter(|stored| is_of(&account, stored, &plan.role))?;
        let keys = part_keys(&last).filter(|keys| keys.len() <= PARTS)?;
        if keys.len() == 1 {
            return pinned_words(&[last]);
        }
        let all = conversation_pages::read_replies(web, bot, &slack.channel, &slack.ts, None)
            .await
            .ok()?;
        let own = |stored: &StoredMessage| {
            stored.ts <= plan.ts
                && is_of(&account, stored, &plan.role)
                && message_key(stored).is_some_and(|key| keys.iter().any(|known| known == key))
        };
        pinned_words(&all.into_iter().filter(own).collect::<Vec<_>>())
    }
}

fn is_of(account: &SlackAccount, stored: &StoredMessage, role: &str) -> bool {
    account.wrote(stored)
        && own_metadata(stored.metadata.as_ref()).is_some_and(|payload| {
            payload["role"] == role && payload["kind"] == AskedDecision::Plan.kind()
        })
}

fn message_key(stored: &StoredMessage) -> Option<&str> {
    own_metadata(stored.metadata.as_ref())?["key"].as_str()
}

/// Keys of all parts of a message, by its last one: the first has the message's own, the others their number
/// behind it.
fn part_keys(last: &StoredMessage) -> Option<Vec<String>> {
    let (key, of) = (message_key(last)?, count_parts(last));
    let base = if of > 1 { key.strip_suffix(&format!(".{of}"))? } else { key };
    let others = (2..=of).map(|part| format!("{base}.{part}"));
    Some(std::iter::once(base.to_owned()).chain(others).collect())
}

/// Number of parts that a message was split into.
fn count_parts(stored: &StoredMessage) -> usize {
    let of = own_metadata(stored.metadata.as_ref()).map(|payload| &payload["of"]);
    of.and_then(|of| of.as_str()?.parse().ok()).unwrap_or(1)
}

/// Joins the parts as text, without the mentions of people under it.
fn pinned_words(parts: &[StoredMessage]) -> Option<String> {
    let texts = parts.iter().map(|part| mrkdwn::to_text(part.text.as_deref().unwrap_or_default()));
    let text = texts.collect::<Vec<_>>().join("\n");
    let mut text = text.trim();
    while !text.is_empty() {
        let (before, last) = text.rsplit_once('\n').unwrap_or(("", text));
        if !last.split_whitespace().all(|word| word.starts_with("<@") && word.ends_with('>')) {
            break;
        }
        text = before.trim_end();
    }
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stored(ts: &str, key: &str, of: &str, text: &str) -> StoredMessage {
        serde_json::from_value(json!({"ts": ts, "text": text, "metadata": {
            "event_type": "codebutler", "event_payload": {"key": key, "of": of, "kind": "plan"},
        }}))
        .unwrap()
    }

    #[test]
    fn the_parts_of_a_plan_are_found_and_put_together() {
        let parts = [
            stored("1.000000", "r1.2", "2", "1. Fix <https://x/y|it>."),
            stored("2.000000", "r1.2.2", "2", "2. Test.\n<@U1> <@U2>"),
        ];
        // A key may end in a number itself.
        assert_eq!(part_keys(&parts[1]).unwrap(), ["r1.2", "r1.2.2"]);
        assert_eq!(part_keys(&stored("1.000000", "r1.2", "1", "x")).unwrap(), ["r1.2"]);
        let text = pinned_words(&parts).unwrap();
        assert!(text.starts_with("1. Fix ") && text.ends_with("\n2. Test."), "{text}");
        assert_eq!(pinned_words(&[stored("1.000000", "k", "1", "\n<@U1>")]), None);
    }
}
