//! The message of one run: posted, brought up to date, taken away.

use std::sync::Arc;

use codebutler_crds::thread::{RunMessage, SlackThread};
use codebutler_crds::{AgentRole, Repo, SlackTs, Thread, ThreadStatus};
use codebutler_gateway_core::masks;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::render::{self, ProgressWords};
use super::session::{ConversationSession, SessionPlace};
use super::stream::{RunStream, StreamStage};
use super::tasks::{TaskList, plan_title};
use super::{KIND, RunKey, ShownRun, lock};
use crate::Inner;
use crate::api::account::{AccessError, SlackAccount};
use crate::api::deferral::LaterError;
use crate::api::web::CallError;
use crate::outbound::post::{self, FileHanding, OutgoingText, SentPart, TextAsks};

/// Place of a run's message, and the role of the run.
struct RunPlace<'a> {
    inner: &'a Arc<Inner>,
    account: &'a SlackAccount,
    repo: &'a Repo,
    thread: &'a Thread,
    slack: &'a SlackThread,
    key: &'a RunKey,
    run: &'a str,
}

/// Posts the message, or brings it up to date.
pub(super) async fn show_run(
    inner: &Arc<Inner>,
    thread: &Thread,
    key: &RunKey,
) -> Result<(), LaterError> {
    let Some((_, repo)) = inner.known(&key.0) else { return Ok(()) };
    let Some(slack) = thread.conversation() else { return Ok(()) };
    let run = lock(&inner.progress.runs).get(key).cloned();
    let entry = thread.status.as_ref().and_then(|status| status.roles.get(&key.1));
    let (Some(run), Some(entry)) = (run, entry) else { return Ok(()) };
    let Some(shown) = &entry.shown else { return Ok(()) };
    let roles = inner.context.roles_of(&repo);
    let Some(role) = roles.iter().find(|role| role.spec.role == key.1) else { return Ok(()) };
    let account = &*inner.account(&repo).await?;
    let redactor = masks::as_known(&inner.context, &repo).await;
    let doing = redactor.mask(&run.line()).into_owned();
    let words = ProgressWords {
        doing: &doing,
        name: (!account.customizes()).then_some(role.spec.display.name.as_str()),
        turns: run.turns,
        cost: entry.usage.cost.less(shown.cost),
        elapsed: Timestamp::now().duration_since(shown.since.0),
    };
    let place = RunPlace { inner, account, repo: &repo, thread, slack, key, run: &shown.run };
    let known = match run.ts.clone().or_else(|| shown.stream.clone()) {
        Some(ts) => Some(ts),
        None => post::lookup_sent(inner, &repo, thread, slack, &place.identity()).await?,
    };
    if let Some(ts) = known {
        inner.progress.with(key, |run| run.ts = Some(ts.clone()));
        if !place.bring_up_to_date(&ts, &run, shown, &words).await? && !run.is_second {
            place.replace(&ts, role, &words).await?;
        }
    } else {
        place.begin(role, &words).await?;
        let now = ConversationSession::Processing;
        if let Err(error) = place.session().show(now).await {
            tracing::info!(%error, "session_status_failed");
        }
    }
    let now = Instant::now();
    inner.progress.with(key, |known| known.told = Some((now, run.turns, run.line())));
    Ok(())
}

impl RunPlace<'_> {
    /// By which the message is found.
    fn identity(&self) -> post::MessageIdentity {
        run_identity(&self.key.1, self.run)
    }

    fn metadata(&self) -> Value {
        post::build_metadata(self.thread, &self.key.1, &post::run_key(self.run), KIND, 1)
    }

    fn session(&self) -> SessionPlace<'_> {
        let Self { inner, account, repo, thread, slack, .. } = *self;
        SessionPlace { inner, account, repo, thread, slack }
    }

    fn stream(&self) -> RunStream<'_> {
        let web = self.inner.web.upkeep();
        RunStream { web, account: self.account, slack: self.slack }
    }

    /// As a stream where there can be one, else as a line.
    async fn begin(&self, role: &AgentRole, words: &ProgressWords<'_>) -> Result<(), LaterError> {
        let (inner, key) = (self.inner, self.key);
        let mut tasks = TaskList::default();
        let mut chunks = vec![plan_title(&render::plan_words(words))];
        chunks.extend(tasks.go_on((&key.1, self.run), &render::task_title(words)));
        let refused = inner.progress.refused_stream(self.account);
        let under_way = inner.sent.begin(&key.0);
        let begun =
            self.stream().begin(&inner.progress.streams, (self.thread, role), &chunks).await;
        let begun = match begun {
            Ok(begun) => begun,
            Err(error) => {
                under_way.fail(&error);
                return Err(error.into());
            }
        };
        if let Some(ts) = &begun {
            inner.sent.add(&key.0, self.identity(), SentPart::alone(ts.clone()));
        }
        under_way.end();
        if refused != inner.progress.refused_stream(self.account) {
            inner.reach.tell(self.repo, inner.standing(self.account, self.repo)).await;
        }
        let Some(ts) = begun else {
            let _turn = inner.posting.lock(&key.0).await;
            let ts = self.post_line(role, words).await?;
            inner.progress.with(key, |run| run.ts = Some(ts.clone()));
            return Ok(());
        };
        let stage = StreamStage::Open { since: Instant::now() };
        inner.progress.with(key, |run| {
            (run.ts, run.stream, run.tasks) = (Some(ts.clone()), stage, tasks.clone());
        });
        self.record_stream(Some(&ts)).await
    }

    /// Whoever comes next finds it there.
    async fn record_stream(&self, ts: Option<&SlackTs>) -> Result<(), LaterError> {
        let record = |status: &mut ThreadStatus| {
            let shown = status.roles.get_mut(&self.key.1).and_then(|role| role.shown.as_mut());
            if let Some(shown) = shown.filter(|shown| shown.run == self.run) {
                shown.stream = ts.cloned();
            }
        };
        self.inner.threads.update(&self.key.0, record).await?;
        Ok(())
    }

    /// False where Slack takes no edit of the message.
    async fn bring_up_to_date(
        &self,
        ts: &SlackTs,
        run: &ShownRun,
        shown: &RunMessage,
        words: &ProgressWords<'_>,
    ) -> Result<bool, LaterError> {
        if run.stream.takes_more() {
            if shown.stream.is_none() {
                self.record_stream(Some(ts)).await?;
            }
            let mut tasks = run.tasks.clone();
            let mut chunks = tasks.go_on((&self.key.1, self.run), &render::task_title(words));
            chunks.push(plan_title(&render::plan_words(words)));
            if self.stream().append(ts, &chunks).await? {
                self.inner.progress.with(self.key, |run| run.tasks = tasks);
                return Ok(true);
            }
        }
        // One that an earlier process has begun may be open.
        let open = match run.stream {
            StreamStage::Open { .. } => true,
            StreamStage::None => shown.stream.is_some(),
            StreamStage::Over => false,
        };
        if open {
            self.stream().end(ts, &self.metadata()).await?;
            self.inner.progress.with(self.key, |run| run.stream = StreamStage::Over);
        }
        Ok(self.edit_line(ts, words).await?)
    }

    /// Posts the line anew in the place of a message that Slack lets nobody edit. Once: the next one may fare no better,
    /// and people are not to be told of each step.
    async fn replace(
        &self,
        ts: &SlackTs,
        role: &AgentRole,
        words: &ProgressWords<'_>,
    ) -> Result<(), LaterError> {
        let (inner, key) = (self.inner, self.key);
        self.record_stream(None).await?;
        self.delete(ts, false).await?;
        let _turn = inner.posting.lock(&key.0).await;
        inner.sent.remove(&key.0, &self.identity());
        // If the post fails, the next look posts it. With the old `ts`, it would seem that somebody deleted the line.
        inner.progress.with(key, |run| {
            (run.ts, run.is_second) = (None, true);
        });
        let ts = self.post_line(role, words).await?;
        inner.progress.with(key, |run| run.ts = Some(ts.clone()));
        Ok(())
    }

    async fn post_line(
        &self,
        role: &AgentRole,
        words: &ProgressWords<'_>,
    ) -> Result<SlackTs, LaterError> {
        let text = render::progress_text(words);
        let blocks = render::progress_blocks(&text);
        let outgoing = OutgoingText {
            repo: self.repo,
            thread: self.thread,
            slack: self.slack,
            key: &post::run_key(self.run),
            role: Some(role),
            by: None,
            kind: KIND,
            asks: TextAsks::Blocks(&blocks),
            digest: None,
            parts: vec![text],
            note: None,
            tables: Vec::new(),
            handing: FileHanding::default(),
        };
        let sent = post::post_once(self.inner, &outgoing).await?;
        sent.into_iter().next().ok_or(LaterError::Slow)
    }

    /// False where Slack takes no edit of the message.
    async fn edit_line(&self, ts: &SlackTs, words: &ProgressWords<'_>) -> Result<bool, CallError> {
        let text = render::progress_text(words);
        let body = json!({
            "channel": self.slack.channel, "ts": ts, "text": text,
            "blocks": render::progress_blocks(&text), "metadata": self.metadata(),
        });
        let web = self.inner.web.upkeep();
        let edit = || web.post::<Value>(&self.account.bot, "chat.update", &body);
        let edited = match edit().await {
            // Found by its tasks alone.
            Err(error) if error.code() == Some("streaming_state_conflict") => {
                self.stream().end(ts, &self.metadata()).await?;
                edit().await
            }
            other => other,
        };
        match edited {
            // Somebody took it away: it is posted no second time.
            Err(error) if error.code() == Some("message_not_found") => Ok(true),
            Err(error) if error.closes_edits() => Ok(false),
            other => other.map(|_| true),
        }
    }

    /// A stream that is open is ended first: Slack deletes none.
    async fn delete(&self, ts: &SlackTs, open: bool) -> Result<(), CallError> {
        let body = json!({"channel": self.slack.channel, "ts": ts});
        let mut open = open;
        loop {
            if open {
                self.stream().end(ts, &self.metadata()).await?;
            }
            match self.inner.web.post::<Value>(&self.account.bot, "chat.delete", &body).await {
                Err(error)
                    if !open
                        && matches!(
                            error.code(),
                            Some("cant_delete_message" | "streaming_state_conflict")
                        ) =>
                {
                    open = true;
                }
                Err(error) if error.code().is_some() => {
                    tracing::info!(%error, "progress_removal_failed");
                    return Ok(());
                }
                other => return other.map(drop),
            }
        }
    }
}

fn run_identity(role: &str, run: &str) -> post::MessageIdentity {
    post::MessageIdentity::of(role, KIND, &post::run_key(run))
}

/// Takes a run's message away.
pub(super) async fn remove_run(
    inner: &Arc<Inner>,
    thread: &Thread,
    key: &RunKey,
    run: &str,
) -> Result<(), LaterError> {
    if let (Some((_, repo)), Some(slack)) = (inner.known(&key.0), thread.conversation()) {
        let account = &*inner.account(&repo).await?;
        let place = RunPlace { inner, account, repo: &repo, thread, slack, key, run };
        let id = place.identity();
        let entry = thread.status.as_ref().and_then(|status| status.roles.get(&key.1));
        let shown = entry.and_then(|entry| entry.shown.as_ref()).filter(|shown| shown.run == run);
        let streamed = shown.and_then(|shown| shown.stream.clone());
        let found = match streamed.clone() {
            Some(ts) => Some(ts),
            None => match post::lookup_sent(inner, &repo, thread, slack, &id).await {
                // The conversation is gone, or nobody may read it any more.
                Err(AccessError::Call(error)) if error.code().is_some() => None,
                other => other?,
            },
        };
        if let Some(ts) = found {
            let stage = lock(&inner.progress.runs)
                .get(key)
                .filter(|known| known.id == run)
                .map(|known| known.stream);
            let open = match stage {
                Some(StreamStage::Over) => false,
                // Known here, even where it could not be recorded.
                Some(StreamStage::Open { .. }) => true,
                Some(StreamStage::None) | None => streamed.is_some(),
            };
            place.delete(&ts, open).await?;
            inner.sent.remove(&key.0, &id);
        }
        let roles = thread.status.iter().flat_map(|status| &status.roles);
        let alone = !roles.into_iter().any(|(role, own)| *role != key.1 && own.shown.is_some());
        let session = ConversationSession::at_rest(thread);
        // That it waits for people goes on record first, once no run is shown: the next look does both.
        if alone && session != ConversationSession::Suspended {
            place.session().show(session).await.map_err(AccessError::from)?;
        }
    }
    inner.progress.with(key, |known| {
        if known.id == run {
            (known.ts, known.told, known.stream) = (None, None, StreamStage::None);
        }
    });
    let cleared = |status: &mut ThreadStatus| {
        if let Some(entry) = status.roles.get_mut(&key.1)
            && entry.shown.as_ref().is_some_and(|shown| shown.run == run)
        {
            entry.shown = None;
        }
    };
    inner.threads.update(&key.0, cleared).await?;
    Ok(())
}
