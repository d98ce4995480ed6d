//! A run's message while it is a stream: Slack takes more calls for it than for edits, and draws its tasks as
//! they go on. A role's own words are never streamed: until its run is over nobody knows which of them are
//! its last, whether they hold a secret, and whom they hand over to, and a message that others wait for has
//! to be known by its key from its first moment.
//!
//! A stream has no key before its end, and Slack ends it after five minutes whatever is added, with a mark
//! that only an edit takes away. So its place goes on record as soon as it is known, its tasks carry the run,
//! and it becomes an ordinary message before that time, or when Slack takes no more of it.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use codebutler_crds::thread::SlackThread;
use codebutler_crds::{AgentRole, SlackTs, Thread};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::refused::AppRefusals;
use crate::api::account::SlackAccount;
use crate::api::reachability;
use crate::api::web::{CallError, SlackWeb};
use crate::people::mentions;

/// Age at which we end a stream, before Slack does it.
const LIFE: Duration = Duration::from_mins(4);
/// Most streams that are begun within a minute: Slack takes twenty, and no run waits for its turn.
const BEGUN: usize = 15;
const MINUTE: Duration = Duration::from_mins(1);

/// Stage of a run's message as a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamStage {
    /// No stream, as far as this process knows.
    None,
    Open {
        since: Instant,
    },
    /// An ordinary message by now.
    Over,
}

impl StreamStage {
    /// True if the stream can be added to: it is open, and not too old.
    pub(super) fn takes_more(self) -> bool {
        matches!(self, Self::Open { since } if since.elapsed() < LIFE)
    }
}

/// Limits on the streams of apps: the refusals of Slack, and the rate.
#[derive(Default)]
pub(super) struct StreamRights {
    /// Apps that Slack lets stream nothing, with its code.
    refused: AppRefusals,
    /// Times at which each began its newest streams.
    begun: Mutex<HashMap<String, VecDeque<Instant>>>,
}

impl StreamRights {
    pub(super) fn refusal(&self, account: &SlackAccount) -> Option<String> {
        self.refused.current(account)
    }

    /// Returns true if one more stream may begin now, and counts it.
    fn take_turn(&self, account: &SlackAccount, now: Instant) -> bool {
        let mut begun = self.begun.lock();
        let own = begun.entry(account.user.clone().unwrap_or_default()).or_default();
        while own.front().is_some_and(|first| now.duration_since(*first) >= MINUTE) {
            own.pop_front();
        }
        let free = own.len() < BEGUN;
        if free {
            own.push_back(now);
        }
        free
    }

    /// Remembers a refusal where it is the app's and not this conversation's or person's: logged once.
    fn note(&self, account: &SlackAccount, code: &str) {
        let about_place = reachability::is_lasting(code)
            || ["recipient", "user", "team", "thread", "channel", "chunk", "text", "long"]
                .iter()
                .any(|word| code.contains(word));
        if !about_place && self.refused.note(account, code) {
            tracing::warn!(code, "slack_stream_refused");
        }
    }
}

#[derive(Deserialize)]
struct StartedAt {
    ts: SlackTs,
}

/// Stream that shows one run in its thread.
pub(super) struct RunStream<'a> {
    pub web: SlackWeb,
    pub account: &'a SlackAccount,
    pub slack: &'a SlackThread,
}

impl RunStream<'_> {
    /// Begins the stream; `None` where there can be none.
    pub(super) async fn begin(
        &self,
        rights: &StreamRights,
        (thread, role): (&Thread, &AgentRole),
        chunks: &[Value],
    ) -> Result<Option<SlackTs>, CallError> {
        let reader = mentions::reader_of(thread);
        let (Some(user), Some(team)) = (reader, &self.account.team) else { return Ok(None) };
        let may = self.account.is_agent() && rights.refusal(self.account).is_none();
        if !may || !rights.take_turn(self.account, Instant::now()) {
            return Ok(None);
        }
        let mut body = json!({
            "channel": self.slack.channel, "thread_ts": self.slack.ts, "chunks": chunks,
            "recipient_user_id": user, "recipient_team_id": team, "task_display_mode": "plan",
        });
        if self.account.customizes() {
            body["username"] = json!(role.spec.display.name);
            body["icon_emoji"] = json!(role.spec.display.icon);
        }
        let begun = self.web.post::<StartedAt>(&self.account.bot, "chat.startStream", &body).await;
        match begun {
            Ok(StartedAt { ts }) => Ok(Some(ts)),
            Err(error) if error.code().is_some() => {
                rights.note(self.account, error.code().unwrap_or_default());
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Adds to the stream; false where Slack takes no more.
    pub(super) async fn append(&self, ts: &SlackTs, chunks: &[Value]) -> Result<bool, CallError> {
        let body = json!({"channel": self.slack.channel, "ts": ts, "chunks": chunks});
        self.heard("chat.appendStream", &body).await
    }

    /// Ends the stream. What is left is an ordinary message, found by its key. A stream that has ended before is no
    /// error.
    pub(super) async fn end(&self, ts: &SlackTs, metadata: &Value) -> Result<(), CallError> {
        let body = json!({"channel": self.slack.channel, "ts": ts, "metadata": metadata});
        self.heard("chat.stopStream", &body).await.map(drop)
    }

    async fn heard(&self, method: &'static str, body: &Value) -> Result<bool, CallError> {
        match self.web.post::<Value>(&self.account.bot, method, body).await {
            Ok(_) => Ok(true),
            Err(error) if error.code().is_some() => {
                tracing::info!(%error, "slack_stream_closed");
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_slack_refuses_an_app_is_remembered_and_what_a_person_causes_is_not() {
        let (rights, account) = (StreamRights::default(), SlackAccount::test("U0BOT", "B0"));
        for code in
            ["missing_recipient_team_id", "user_not_found", "team_not_found", "not_in_channel"]
        {
            rights.note(&account, code);
            assert_eq!(rights.refusal(&account), None, "{code}");
        }
        rights.note(&account, "unknown_method");
        assert_eq!(rights.refusal(&account).as_deref(), Some("unknown_method"));
        assert_eq!(rights.refusal(&SlackAccount::test("U1BOT", "B1")), None);
    }

    #[test]
    fn no_more_begin_in_a_minute_than_slack_takes() {
        let (rights, account) = (StreamRights::default(), SlackAccount::test("U0BOT", "B0"));
        let now = Instant::now();
        assert!((0..BEGUN).all(|_| rights.take_turn(&account, now)));
        assert!(!rights.take_turn(&account, now));
        assert!(rights.take_turn(&SlackAccount::test("U1BOT", "B1"), now));
        assert!(rights.take_turn(&account, now + MINUTE));
    }
}
