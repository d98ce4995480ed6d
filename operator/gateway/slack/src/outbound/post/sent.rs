//! Index of our messages that are in Slack, by key: read from the threads themselves once, and kept.

use std::collections::HashMap;
use std::time::Duration;

use codebutler_crds::thread::SlackThread;
use codebutler_crds::{Repo, SlackTs, Thread};
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_runtime::recent::RecentMap;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

use super::identity::MessageIdentity;
use super::streamed::streamed_identity;
use super::{handing, speaks_of};
use crate::api::account::{AccessError, SlackAccount};
use crate::api::reading::WantedReading;
use crate::api::web::CallError;
use crate::questions::action;
use crate::{Inner, own_metadata};

/// Threads whose keys are remembered.
const REMEMBERED: usize = 512;
/// Time after which a post whose caller went away, or whose answer was lost, is in Slack or never will be.
const SETTLES: Duration = Duration::from_secs(2);

/// Keys of what is in Slack, by Thread: complete for every Thread that is in the map.
pub(crate) struct SentKeys {
    threads: Mutex<RecentMap<ThreadKey, ReadKeys>>,
    /// Time before which no reading has all that is in Slack. It lies ahead while Slack may still take in what a caller
    /// that went away has posted.
    doubted: Mutex<RecentMap<ThreadKey, Instant>>,
}

/// Keys of one thread, and those that were posted since it was read.
struct ReadKeys {
    /// Time before which its reading did not begin.
    since: Instant,
    keys: HashMap<MessageIdentity, SentPart>,
    /// Time of the last post since.
    added: Option<Instant>,
}

impl Default for SentKeys {
    fn default() -> Self {
        Self {
            threads: Mutex::new(RecentMap::new(REMEMBERED)),
            doubted: Mutex::new(RecentMap::new(REMEMBERED)),
        }
    }
}

/// The thread was not read yet, or not since something went wrong in it, or since another process posted.
#[derive(Debug, PartialEq, Eq)]
struct Unread;

/// A message on its way to Slack. Dropped before its end, as with a caller that went away, nobody knows whether it
/// is there.
pub(crate) struct PostUnderWay<'a> {
    sent: &'a SentKeys,
    thread: &'a ThreadKey,
    is_known: bool,
}

impl PostUnderWay<'_> {
    /// Notes that the outcome is known, and recorded.
    pub(crate) fn end(mut self) {
        self.is_known = true;
    }

    /// Notes that the one call that posts it failed. Only where its answer is lost, it may be there all the same.
    pub(crate) fn fail(mut self, error: &CallError) {
        self.is_known = !error.is_lost();
    }

    /// Notes that one of several calls failed. Unless Slack refused it, it may be there all the same.
    pub(crate) fn fail_on_the_way(mut self, error: &CallError) {
        self.is_known = error.code().is_some();
        self.sent.forget(self.thread);
    }
}

impl Drop for PostUnderWay<'_> {
    fn drop(&mut self) {
        if !self.is_known {
            self.sent.doubt(self.thread, Instant::now() + SETTLES);
        }
    }
}

/// A message that is in Slack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SentPart {
    pub ts: SlackTs,
    /// Number of messages that the text was split into.
    pub of: usize,
    /// Roles that it is for, where that was decided when it was posted.
    pub to: Option<Vec<String>>,
    /// Role that it addresses and that does not go on.
    pub held: Option<String>,
    /// Slack's file id, where it is a file.
    pub file: Option<String>,
}

impl SentPart {
    pub(super) fn file(ts: SlackTs, file: String) -> Self {
        Self { file: Some(file), ..Self::alone(ts) }
    }

    /// One message whose text was not split, and that is for nobody.
    pub(crate) fn alone(ts: SlackTs) -> Self {
        Self { ts, of: 1, to: None, held: None, file: None }
    }
}

impl SentKeys {
    /// Finds the message that a key stands for in a thread. `from`: the earliest reading that is trusted.
    fn find(
        &self,
        thread: &ThreadKey,
        id: &MessageIdentity,
        from: Instant,
    ) -> Result<Option<SentPart>, Unread> {
        let mut threads = self.lock();
        let read = threads.get(thread).filter(|read| read.since >= from).ok_or(Unread)?;
        Ok(read.keys.get(id).cloned())
    }

    /// Keeps what a reading has, unless it may lack what was posted meanwhile. `doubted`: what
    /// [`Self::doubted_since`] said before it. `from`: as in [`Self::find`].
    fn loaded(
        &self,
        thread: &ThreadKey,
        (doubted, from): (Option<Instant>, Instant),
        read: ReadKeys,
    ) {
        let mut threads = self.lock();
        let known = threads.get(thread);
        // Those of somebody who read at the same time have what was posted since.
        let is_known = known.as_ref().is_some_and(|known| known.since >= from);
        if is_known || self.doubted_since(thread) != doubted {
            return;
        }
        let added = known.and_then(|known| known.added);
        if added.is_some_and(|added| added >= read.since) {
            drop(threads);
            self.forget(thread);
        } else {
            threads.insert(thread.clone(), read);
        }
    }

    /// Begins a post: whoever looks for its key waits for its outcome, or asks Slack.
    pub(crate) fn begin<'a>(&'a self, thread: &'a ThreadKey) -> PostUnderWay<'a> {
        PostUnderWay { sent: self, thread, is_known: false }
    }

    pub(crate) fn add(&self, thread: &ThreadKey, id: MessageIdentity, part: SentPart) {
        let (mut threads, now) = (self.lock(), Instant::now());
        if let Some(read) = threads.get(thread) {
            read.keys.insert(id, part);
            read.added = Some(now);
            return;
        }
        drop(threads);
        // A reading that is under way may lack it.
        self.doubt(thread, now);
    }

    /// Removes a message that is not there any more.
    pub(crate) fn remove(&self, thread: &ThreadKey, id: &MessageIdentity) {
        if let Some(read) = self.lock().get(thread) {
            read.keys.remove(id);
        }
    }

    /// Forgets the key of a question about an action: it is answered, and not found by its key any more.
    pub(crate) fn settle(&self, thread: &ThreadKey, ts: &SlackTs) {
        if let Some(read) = self.lock().get(thread) {
            read.keys.retain(|id, part| id.kind != action::KIND || part.ts != *ts);
        }
    }

    pub(crate) fn forget(&self, thread: &ThreadKey) {
        self.doubt(thread, Instant::now());
    }

    /// Trusts no reading that began before this time.
    fn doubt(&self, thread: &ThreadKey, until: Instant) {
        {
            let mut doubted = self.doubted.lock();
            let until = doubted.get(thread).map_or(until, |known| until.max(*known));
            doubted.insert(thread.clone(), until);
        }
        self.lock().remove(thread);
    }

    fn doubted_since(&self, thread: &ThreadKey) -> Option<Instant> {
        self.doubted.lock().get(thread).copied()
    }

    /// The same, once that time has come.
    async fn settle_doubt(&self, thread: &ThreadKey) -> Option<Instant> {
        loop {
            let doubted = self.doubted_since(thread);
            match doubted.filter(|until| *until > Instant::now()) {
                Some(until) => sleep_until(until).await,
                None => return doubted,
            }
        }
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, RecentMap<ThreadKey, ReadKeys>> {
        self.threads.lock()
    }
}

/// Finds the message with this identity, if it is in Slack.
pub(crate) async fn lookup_sent(
    inner: &Inner,
    repo: &Repo,
    thread: &Thread,
    slack: &SlackThread,
    id: &MessageIdentity,
) -> Result<Option<SlackTs>, AccessError> {
    let account = inner.account(repo).await?;
    let found = find_sent(inner, &account, thread, slack, id).await?;
    Ok(found.map(|part| part.ts))
}

/// Looks a key up, in Slack itself if this process has not read the thread yet.
pub(super) async fn find_sent(
    inner: &Inner,
    account: &SlackAccount,
    thread: &Thread,
    slack: &SlackThread,
    id: &MessageIdentity,
) -> Result<Option<SentPart>, CallError> {
    let key = ThreadKey::from(thread);
    if let Ok(known) = inner.sent.find(&key, id, inner.kept.own_posts_from()) {
        return Ok(known);
    }
    let doubted = inner.sent.settle_doubt(&key).await;
    let alone = inner.kept.alone_since();
    let since = doubted.map_or(alone, |doubted| doubted.max(alone));
    let wanted = WantedReading { since: Some(since), ..WantedReading::default() };
    let reading = inner.read_conversation(account, (&key, slack), &wanted).await?;
    let messages = reading.after(None);
    let mut keys = HashMap::new();
    for message in messages.iter().filter(|message| account.wrote(message) || message.for_person) {
        for file in &message.files {
            let part = SentPart::file(message.ts.clone(), file.id.clone());
            keys.insert(MessageIdentity::file(&file.name), part);
        }
        let Some(payload) = own_metadata(message.metadata.as_ref()) else {
            if let Some(id) = streamed_identity(message.blocks.as_ref()) {
                keys.entry(id).or_insert_with(|| SentPart::alone(message.ts.clone()));
            }
            continue;
        };
        if speaks_of(payload, thread) {
            let of = payload["of"].as_str().and_then(|of| of.parse().ok()).unwrap_or(1);
            let (to, held) = (handing::read_addressed(payload), handing::read_held(payload));
            keys.entry(MessageIdentity::read(payload)).or_insert(SentPart {
                ts: message.ts.clone(),
                of,
                to,
                held,
                file: None,
            });
        }
    }
    let found = keys.get(id).cloned();
    let known = (doubted, inner.kept.own_posts_from());
    inner.sent.loaded(&key, known, ReadKeys { since, keys, added: None });
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> ThreadKey {
        ThreadKey { namespace: "team".to_owned(), name: "shop-1".to_owned() }
    }

    fn id() -> MessageIdentity {
        MessageIdentity::of("", "notice", "k")
    }

    fn load(sent: &SentKeys, since: Instant) {
        let read = ReadKeys { since, keys: HashMap::new(), added: None };
        sent.loaded(&key(), (sent.doubted_since(&key()), since), read);
    }

    #[test]
    fn a_post_whose_caller_went_away_is_looked_for_in_slack() {
        let (sent, now) = (SentKeys::default(), Instant::now());
        load(&sent, now);
        let thread = key();
        let under_way = sent.begin(&thread);
        assert_eq!(sent.find(&thread, &id(), now), Ok(None));
        drop(under_way);
        assert_eq!(sent.find(&thread, &id(), now), Err(Unread));
        // A reading of somebody else from before Slack has taken it in does not do.
        assert!(sent.doubted_since(&thread).is_some_and(|until| until >= now + SETTLES));

        load(&sent, Instant::now());
        let under_way = sent.begin(&thread);
        let part = SentPart::alone("1.000001".parse().unwrap());
        sent.add(&thread, id(), part.clone());
        under_way.end();
        assert_eq!(sent.find(&thread, &id(), now), Ok(Some(part)));
    }

    #[test]
    fn what_was_read_before_another_process_posted_is_read_anew() {
        let (sent, before) = (SentKeys::default(), Instant::now());
        load(&sent, before);
        let took_over = before + Duration::from_secs(1);
        assert_eq!(sent.find(&key(), &id(), took_over), Err(Unread));
        load(&sent, took_over);
        assert_eq!(sent.find(&key(), &id(), took_over), Ok(None));
    }

    #[test]
    fn a_reading_that_ends_late_hides_nothing_that_was_posted_meanwhile() {
        let (sent, now) = (SentKeys::default(), Instant::now());
        load(&sent, now);
        let part = SentPart::alone("1.000001".parse().unwrap());
        sent.add(&key(), id(), part.clone());
        load(&sent, now);
        assert_eq!(sent.find(&key(), &id(), now), Ok(Some(part.clone())));

        let before = (sent.doubted_since(&key()), now);
        let read = || ReadKeys { since: now, keys: HashMap::new(), added: None };
        sent.forget(&key());
        sent.loaded(&key(), before, read());
        assert_eq!(sent.find(&key(), &id(), now), Err(Unread));

        // It was posted while nothing of the thread was known.
        let before = (sent.doubted_since(&key()), now);
        sent.add(&key(), id(), part.clone());
        sent.loaded(&key(), before, read());
        assert_eq!(sent.find(&key(), &id(), now), Err(Unread));

        // It was posted while an earlier reading was trusted, and another one was under way.
        load(&sent, now);
        sent.add(&key(), id(), part);
        let later = now + Duration::from_nanos(1);
        let read = ReadKeys { since: later, ..read() };
        sent.loaded(&key(), (sent.doubted_since(&key()), later), read);
        assert_eq!(sent.find(&key(), &id(), later), Err(Unread));
    }

    #[test]
    fn a_post_that_slack_has_not_taken_needs_no_reading() {
        let (sent, thread, now) = (SentKeys::default(), key(), Instant::now());
        let failed = |lost| CallError::Failed { method: "m", what: String::new(), lost };
        load(&sent, now);
        sent.begin(&thread).fail(&CallError::Limited { method: "m" });
        sent.begin(&thread).fail(&failed(false));
        assert_eq!(sent.find(&thread, &id(), now), Ok(None));
        sent.begin(&thread).fail(&failed(true));
        assert_eq!(sent.find(&thread, &id(), now), Err(Unread));
    }
}
