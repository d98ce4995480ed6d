//! One conversation as it was last read, and the decision when that is not enough any more. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::thread::SlackThread;
use codebutler_crds::{SlackTs, ThreadStatus};
use tokio::time::Instant;

use crate::api::stored_message::StoredMessage;

/// Seconds by which messages can appear in the history after newer ones.
const OVERLAP: u64 = 60;
/// Lag of Slack's history behind its events: what was read sooner after an edit is read once more.
const LAG: Duration = Duration::from_secs(5);
/// A message that was heard of and is not in the history is looked for after this time, then after twice
/// that, at most every `SELDOM`, until `GONE`: then it was deleted.
const SOON: Duration = Duration::from_millis(500);
const SELDOM: Duration = Duration::from_secs(5);
const GONE: Duration = Duration::from_secs(45);
/// Time for which it is remembered that a message is gone.
const REMEMBERED: Duration = Duration::from_hours(6);
/// Most messages that were heard of and not read.
const HEARD: usize = 64;
/// The largest reading that is kept whole, in bytes; of a larger one the newest part is.
const LARGEST: usize = 1 << 20;

/// A caller's requirements for a reading.
#[derive(Clone, Debug, Default)]
pub(crate) struct WantedReading {
    /// Only messages after this one; all if `None`.
    pub after: Option<SlackTs>,
    /// Messages that are known to be there.
    pub marks: BTreeSet<SlackTs>,
    /// Time of the last edit or deletion, as the Thread has it.
    pub edited: Option<SlackTs>,
    /// True if it must have what CodeButler itself has posted since.
    pub own: bool,
    /// Earliest time at which the reading may have begun.
    pub since: Option<Instant>,
}

impl WantedReading {
    /// Requires everything that the Thread's marks speak of. `reader`: the role that reads, which need not read
    /// its own words.
    pub(crate) fn of(status: &ThreadStatus, after: Option<&SlackTs>, reader: Option<&str>) -> Self {
        let mut marks: BTreeSet<SlackTs> = status.unmarked.iter().cloned().collect();
        for (name, role) in &status.roles {
            marks.extend(role.inbox.clone());
            if reader != Some(name) {
                marks.extend(role.said.clone());
            }
        }
        let own = reader.and_then(|reader| status.roles.get(reader)?.said.as_ref());
        marks.retain(|ts| Some(ts) != own);
        Self { after: after.cloned(), marks, edited: status.edited.clone(), ..Self::default() }
    }
}

/// A conversation as read from Slack.
#[derive(Debug)]
pub(crate) struct ConversationReading {
    place: SlackThread,
    /// Message after which it holds everything; `None`: from the beginning.
    from: Option<SlackTs>,
    /// Sorted by `ts`, without duplicates.
    messages: Vec<StoredMessage>,
    began: Instant,
    epoch: u64,
    edited: Option<SlackTs>,
    /// Approximate size in bytes.
    size: usize,
}

impl ConversationReading {
    /// The messages after one of them, oldest first.
    pub(crate) fn after(&self, after: Option<&SlackTs>) -> &[StoredMessage] {
        let first = after.map_or(0, |after| self.messages.partition_point(|m| m.ts <= *after));
        &self.messages[first..]
    }

    fn has(&self, ts: &SlackTs) -> bool {
        self.messages.binary_search_by(|message| message.ts.cmp(ts)).is_ok()
    }

    fn covers(&self, after: Option<&SlackTs>) -> bool {
        self.from.as_ref() <= after
    }

    /// Its newest part, where it is too large to be kept.
    fn newest_part(&self) -> Self {
        let mut size = 0;
        let sizes = self.messages.iter().rev().map(StoredMessage::size);
        let count = sizes
            .take_while(|one| {
                let fits = size + one <= LARGEST;
                size += if fits { *one } else { 0 };
                fits
            })
            .count();
        let (older, newest) = self.messages.split_at(self.messages.len() - count);
        Self {
            place: self.place.clone(),
            from: older.last().map(|message| message.ts.clone()).max(self.from.clone()),
            messages: newest.to_vec(),
            began: self.began,
            epoch: self.epoch,
            edited: self.edited.clone(),
            size,
        }
    }
}

/// A read that has to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReadOrder {
    /// Only messages after this one are read.
    pub after: Option<SlackTs>,
    /// True if the kept reading stays, up to `after`.
    adds: bool,
    from: Option<SlackTs>,
    began: Instant,
    epoch: u64,
    edited: Option<SlackTs>,
}

/// Answer to a caller: a kept reading, or the read that has to be made first.
#[derive(Debug)]
pub(super) enum ShelfAnswer {
    Kept(Arc<ConversationReading>),
    Read(ReadOrder),
}

#[derive(Debug)]
struct MissingMessage {
    since: Instant,
    tries: u32,
    /// Time of the next attempt; `None` if the message is gone.
    next: Option<Instant>,
}

/// Everything that is known of one conversation.
#[derive(Debug, Default)]
pub(super) struct ConversationShelf {
    kept: Option<Arc<ConversationReading>>,
    /// Messages that this process heard of since, and those that it posted.
    heard: BTreeSet<SlackTs>,
    posted: BTreeSet<SlackTs>,
    missing: BTreeMap<SlackTs, MissingMessage>,
    /// The newest known edit, and the time when it became known.
    edited: Option<(SlackTs, Instant)>,
}

impl ConversationShelf {
    /// Notes that a message was heard of, unless the kept reading has it.
    pub(super) fn hear(&mut self, ts: &SlackTs) {
        let known = self.kept.as_ref().is_some_and(|kept| kept.has(ts));
        if !known {
            note_newest(&mut self.heard, ts);
        }
    }

    /// Notes that CodeButler said something.
    pub(super) fn post(&mut self, ts: &SlackTs) {
        note_newest(&mut self.posted, ts);
    }

    pub(super) fn size(&self) -> usize {
        self.kept.as_ref().map_or(0, |kept| kept.size)
    }

    /// Drops the kept reading; what was heard of stays.
    pub(super) fn clear(&mut self) {
        self.kept = None;
    }

    /// Decides between the kept reading and a new read. `epoch` counts the times when everything had to be read anew.
    pub(super) fn look(
        &mut self,
        place: &SlackThread,
        wanted: &WantedReading,
        (epoch, now): (u64, Instant),
    ) -> ShelfAnswer {
        self.note_edit(wanted, now);
        // A conversation has nothing before its first message.
        let after = wanted.after.clone().filter(|after| *after >= place.ts);
        let edited = self.edited.as_ref().map(|(ts, _)| ts.clone());
        let order = |after: Option<SlackTs>, adds, from| {
            ShelfAnswer::Read(ReadOrder { after, adds, from, began: now, epoch, edited })
        };
        let Some(kept) = self.kept.clone().filter(|kept| kept.place == *place) else {
            return order(after.clone(), false, after);
        };
        let stale = kept.epoch != epoch
            || self.is_edited(&kept, now)
            || !kept.covers(after.as_ref())
            || wanted.since.is_some_and(|since| kept.began < since);
        if stale {
            let from = kept.from.clone().min(after);
            return order(from.clone(), false, from);
        }
        let own = self.posted.iter().filter(|_| wanted.own);
        let all = wanted.marks.iter().chain(&self.heard).chain(own);
        let lacks = all.filter(|ts| Some(*ts) > kept.from.as_ref() && !kept.has(ts));
        let due = lacks.filter(|ts| self.missing.get(ts).is_none_or(|one| one.is_due(now)));
        let Some(oldest) = due.min() else { return ShelfAnswer::Kept(kept) };
        let newest = kept.messages.last().map(|message| message.ts.minus_secs(OVERLAP));
        let after = newest.map(|newest| newest.min(oldest.minus_secs(1))).max(kept.from.clone());
        order(after, true, kept.from.clone())
    }

    /// Keeps what was read; returns all that is known now.
    pub(super) fn put(
        &mut self,
        place: &SlackThread,
        wanted: &WantedReading,
        order: ReadOrder,
        read: Vec<StoredMessage>,
    ) -> Arc<ConversationReading> {
        let kept = self.kept.take().filter(|_| order.adds);
        let prefix = kept.as_ref().map(|kept| {
            let end = order
                .after
                .as_ref()
                .map_or(0, |after| kept.messages.partition_point(|message| message.ts <= *after));
            &kept.messages[..end]
        });
        let mut messages = prefix.map(<[StoredMessage]>::to_vec).unwrap_or_default();
        messages.extend(read);
        // An incremental read does not refresh the older messages.
        let began = kept.as_ref().map_or(order.began, |kept| kept.began);
        let ReadOrder { from, epoch, edited, began: asked, .. } = order;
        let size = messages.iter().map(StoredMessage::size).sum();
        let place = place.clone();
        let reading = ConversationReading { place, from, messages, began, epoch, edited, size };
        self.note_missing(wanted, &reading, asked);
        let reading = Arc::new(reading);
        let fits = reading.size <= LARGEST;
        self.kept = Some(if fits { Arc::clone(&reading) } else { Arc::new(reading.newest_part()) });
        reading
    }

    fn note_edit(&mut self, wanted: &WantedReading, now: Instant) {
        let known = self.edited.as_ref().map(|(ts, _)| ts);
        if let Some(edited) = &wanted.edited
            && known.is_none_or(|known| known < edited)
        {
            self.edited = Some((edited.clone(), now));
        }
    }

    /// True after an edit or deletion that the reading may not reflect; Slack's history can lag behind.
    fn is_edited(&self, kept: &ConversationReading, now: Instant) -> bool {
        let Some((edited, heard)) = &self.edited else { return false };
        let settled = *heard + LAG;
        kept.edited.as_ref() != Some(edited) || (kept.began < settled && now >= settled)
    }

    fn note_missing(
        &mut self,
        wanted: &WantedReading,
        reading: &ConversationReading,
        asked: Instant,
    ) {
        let lacks = |ts: &SlackTs| Some(ts) > reading.from.as_ref() && !reading.has(ts);
        self.heard.retain(|ts| lacks(ts));
        self.missing.retain(|ts, one| lacks(ts) && asked.duration_since(one.since) < REMEMBERED);
        self.posted.retain(|ts| lacks(ts));
        let all: BTreeSet<SlackTs> =
            wanted.marks.iter().chain(&self.heard).chain(&self.posted).cloned().collect();
        for ts in all.into_iter().filter(lacks) {
            let one = self.missing.entry(ts).or_insert(MissingMessage {
                since: asked,
                tries: 0,
                next: None,
            });
            one.look_again(asked);
        }
        let gone = |ts: &SlackTs| self.missing.get(ts).is_some_and(|one| one.next.is_none());
        self.heard.retain(|ts| !gone(ts));
        self.posted.retain(|ts| !gone(ts));
    }
}

/// Adds a message, and keeps only the newest ones if there are too many: a read for them covers slightly older
/// ones, too.
fn note_newest(known: &mut BTreeSet<SlackTs>, ts: &SlackTs) {
    known.insert(ts.clone());
    if known.len() > HEARD {
        known.pop_first();
    }
}

impl MissingMessage {
    fn is_due(&self, now: Instant) -> bool {
        self.next.is_some_and(|next| next <= now)
    }

    fn look_again(&mut self, now: Instant) {
        let gap = (SOON * 2_u32.saturating_pow(self.tries.min(8))).min(SELDOM);
        self.tries += 1;
        self.next = (now.duration_since(self.since) < GONE).then(|| now + gap);
    }
}

#[cfg(test)]
mod tests;
