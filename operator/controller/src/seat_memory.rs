//! What this process remembers of seats, and no object says: refusals, and since when work waits for room. Lost with
//! the process, which tries again then.

use std::collections::HashMap;

use codebutler_crds::Repo;
use codebutler_runtime::apply::ApplyRefusal;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

use crate::index::ObjectKey;

/// Nothing is made again so long after a refusal.
const REFUSED: SignedDuration = SignedDuration::from_mins(1);
/// For so long work that finds no node has the room of seats: it would have it by then.
const ROOM: SignedDuration = SignedDuration::from_mins(10);

#[derive(Debug, Default)]
pub(crate) struct SeatMemory {
    refusals: Mutex<HashMap<ObjectKey, SeatRefusal>>,
    waiting: Mutex<HashMap<ObjectKey, Timestamp>>,
}

#[derive(Debug)]
struct SeatRefusal {
    at: Timestamp,
    /// A changed Repo is tried at once.
    generation: Option<i64>,
    refusal: ApplyRefusal,
}

impl SeatMemory {
    /// The API server has refused a seat.
    pub(crate) fn refuse(&self, repo: &Repo, refusal: &ApplyRefusal, now: Timestamp) {
        let (generation, refusal) = (repo.metadata.generation, refusal.clone());
        let refused = SeatRefusal { at: now, generation, refusal };
        self.refusals.lock().insert(ObjectKey::of(repo), refused);
    }

    /// The refusal that counts still.
    pub(crate) fn refusal(&self, repo: &Repo, now: Timestamp) -> Option<ApplyRefusal> {
        let mut all = self.refusals.lock();
        all.retain(|_, known| now.duration_since(known.at) < REFUSED);
        let known = all.get(&ObjectKey::of(repo))?;
        (known.generation == repo.metadata.generation).then(|| known.refusal.clone())
    }

    /// True if one of these Threads, which find no node, has not waited for long.
    pub(crate) fn waits(&self, threads: &[ObjectKey], now: Timestamp) -> bool {
        let mut waiting = self.waiting.lock();
        waiting.retain(|thread, _| threads.contains(thread));
        let since = threads.iter().map(|thread| *waiting.entry(thread.clone()).or_insert(now));
        // Each is to be known from now on.
        let since: Vec<_> = since.collect();
        since.into_iter().any(|since| now.duration_since(since) < ROOM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn a_refusal_counts_for_a_while_or_until_the_repo_is_changed() {
        let (memory, mut repo, now) = (SeatMemory::default(), testing::repo(), testing::now());
        let refusal = ApplyRefusal::NameTaken { kind: "Pod".into(), name: "p".into() };
        memory.refuse(&repo, &refusal, now);
        let later = |seconds| now + SignedDuration::from_secs(seconds);
        assert_eq!(memory.refusal(&repo, later(59)), Some(refusal.clone()));
        repo.metadata.generation = Some(99);
        assert_eq!(memory.refusal(&repo, later(59)), None);
        repo.metadata.generation = testing::repo().metadata.generation;
        assert_eq!(memory.refusal(&repo, later(60)), None);
    }

    #[test]
    fn who_finds_no_node_for_long_has_no_seats_room_any_more() {
        let (memory, now) = (SeatMemory::default(), testing::now());
        let one = ObjectKey::new("team", "a");
        let other = ObjectKey::new("team", "b");
        let later = |minutes| now + SignedDuration::from_mins(minutes);
        assert!(memory.waits(std::slice::from_ref(&one), now));
        assert!(!memory.waits(std::slice::from_ref(&one), later(10)));
        assert!(memory.waits(&[one.clone(), other], later(11)), "a new one counts");
        assert!(!memory.waits(&[], later(12)));
        assert!(memory.waits(&[one], later(13)), "it waits anew");
    }
}
