//! In-memory state of seats that no object holds: refusals, failures, and since when work waits for room. It is lost
//! with the process; the next one just tries again.

use std::collections::HashMap;

use codebutler_crds::Repo;
use codebutler_runtime::apply::ApplyRefusal;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

use crate::index::ObjectKey;

/// Time after a refusal in which no seats are made.
const REFUSED: SignedDuration = SignedDuration::from_mins(1);
/// Time in which work that finds no node may have the room of seats; if that helped, it would have a node by then.
const ROOM: SignedDuration = SignedDuration::from_mins(10);
/// After a seat that failed none is made in its place for so long. Doubled with each that fails after that.
const FAILED: SignedDuration = SignedDuration::from_mins(1);
const LONGEST: SignedDuration = SignedDuration::from_mins(30);

#[derive(Debug, Default)]
pub(crate) struct SeatMemory {
    refusals: Mutex<HashMap<ObjectKey, SeatRefusal>>,
    /// By Repo and role.
    failures: Mutex<HashMap<(ObjectKey, String), FailureRecord>>,
    waiting: Mutex<HashMap<ObjectKey, Timestamp>>,
}

#[derive(Debug)]
struct SeatRefusal {
    at: Timestamp,
    /// A changed Repo is tried at once.
    generation: Option<i64>,
    refusal: ApplyRefusal,
}

/// A seat that no Thread has had, and none can.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SeatFailure {
    /// UID of the seat's pod.
    pub uid: String,
    pub made: Timestamp,
    pub at: Timestamp,
    /// Reason as a sentence without its end.
    pub why: String,
    /// True for a cause outside of the seat: the gateway was away, or the cluster took it away.
    pub passes: bool,
    /// False where it still has its room on a node.
    pub ended: bool,
}

/// Seats of a role that failed one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FailedSeats {
    /// Number of failed rounds: seats that failed together count once, and those that failed for a passing cause
    /// never.
    pub rounds: u32,
    /// The number of seats in whose place none is made before `due`.
    pub places: u32,
    /// Earliest time of the next try.
    pub due: Timestamp,
    /// The last time that counts.
    pub last: Timestamp,
    /// The reason of the last failure.
    pub why: String,
}

#[derive(Debug)]
struct FailureRecord {
    /// Fingerprint of everything that seats are made from: after a change seats are tried at once.
    made_from: String,
    /// UIDs of pods that are counted and still there.
    counted: Vec<String>,
    failed: Option<FailedSeats>,
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

    /// Counts the failures of a role's seats that are to be seen now, each once; what there is to go by then. `served`
    /// is when the newest seat was made that was of use: failures from before it was made are over.
    pub(crate) fn count_failures(
        &self,
        (repo, role): (&ObjectKey, &str),
        made_from: String,
        seen: Vec<SeatFailure>,
        served: Option<Timestamp>,
    ) -> Option<FailedSeats> {
        let mut all = self.failures.lock();
        let key = (repo.clone(), role.to_owned());
        if seen.is_empty() && !all.contains_key(&key) {
            return None;
        }
        let record = all.entry(key.clone()).or_insert_with(|| FailureRecord {
            made_from: made_from.clone(),
            counted: Vec::new(),
            failed: None,
        });
        let is_over = |failed: &FailedSeats| served.is_some_and(|made| made > failed.last);
        if record.made_from != made_from || record.failed.as_ref().is_some_and(is_over) {
            (record.made_from, record.failed) = (made_from, None);
        }
        record.counted.retain(|uid| seen.iter().any(|failure| failure.uid == *uid));
        for failure in seen {
            if !record.counted.contains(&failure.uid) {
                record.counted.push(failure.uid.clone());
                record.failed = Some(FailedSeats::after(record.failed.take(), failure));
            }
        }
        let failed = record.failed.clone();
        if failed.is_none() && record.counted.is_empty() {
            all.remove(&key);
        }
        failed
    }

    /// True if one of these, which find no node, has not waited for long; of those only that lack what the seats in
    /// question take.
    pub(crate) fn waits(&self, owners: &[(ObjectKey, bool)], now: Timestamp) -> bool {
        let mut waiting = self.waiting.lock();
        waiting.retain(|owner, _| owners.iter().any(|(known, _)| known == owner));
        let since = owners.iter().map(|(owner, counts)| {
            let since = *waiting.entry(owner.clone()).or_insert(now);
            *counts && now.duration_since(since) < ROOM
        });
        // No short circuit: each owner has to be recorded from now on.
        since.fold(false, |waits, one| waits | one)
    }
}

impl FailedSeats {
    fn after(before: Option<Self>, failure: SeatFailure) -> Self {
        let SeatFailure { made, at, why, passes, .. } = failure;
        let known = before.unwrap_or_else(|| Self {
            rounds: 0,
            places: 0,
            due: at,
            last: at,
            why: String::new(),
        });
        let is_new = !passes && (known.rounds == 0 || made > known.last);
        let rounds = known.rounds.saturating_add(u32::from(is_new));
        let wait = if passes { FAILED } else { wait_after(rounds) };
        let due = at.saturating_add(wait).unwrap_or(at).max(known.due);
        let places = if at < known.due { known.places.saturating_add(1) } else { 1 };
        let last = if passes { known.last } else { known.last.max(at) };
        Self { rounds, places, due, last, why }
    }
}

fn wait_after(rounds: u32) -> SignedDuration {
    FAILED.saturating_mul(1 << rounds.saturating_sub(1).min(10)).min(LONGEST)
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
    fn a_failure_counts_once_and_those_of_one_round_together() {
        let (memory, repo, now) =
            (SeatMemory::default(), ObjectKey::new("team", "shop"), testing::now());
        let later = |seconds| now + SignedDuration::from_secs(seconds);
        let failure = |uid: &str, made, at| SeatFailure {
            uid: uid.to_owned(),
            made: later(made),
            at: later(at),
            why: uid.to_owned(),
            passes: false,
            ended: true,
        };
        let count = |made_from: &str, seen: &[SeatFailure], lasting| {
            let of = (&repo, "pm");
            let failed = memory.count_failures(of, made_from.to_owned(), seen.to_vec(), lasting);
            failed.map(|failed| (failed.rounds, failed.places, failed.due))
        };
        assert_eq!(count("1", &[], None), None);
        let first = [failure("a", 0, 5), failure("b", 0, 7)];
        assert_eq!(count("1", &first, None), Some((1, 2, later(67))));
        assert_eq!(count("1", &first, None), Some((1, 2, later(67))), "seen before");
        let second = [failure("c", 70, 80)];
        assert_eq!(count("1", &second, None), Some((2, 1, later(200))));
        let away = [SeatFailure { passes: true, ..failure("d", 300, 310) }];
        assert_eq!(count("1", &away, None), Some((2, 1, later(370))), "for a minute");
        assert_eq!(count("1", &[], Some(later(80))), Some((2, 1, later(370))));
        assert_eq!(count("1", &[], Some(later(81))), None, "one was of use");
        assert_eq!(count("1", &second, None), Some((1, 1, later(140))));
        assert_eq!(count("2", &second, None), None, "it was changed");
        assert_eq!(count("2", &away, None), Some((0, 1, later(370))));
        let more = [away[0].clone(), failure("e", 320, 330)];
        assert_eq!(count("2", &more, None), Some((1, 2, later(390))));
    }

    #[test]
    fn who_finds_no_node_for_long_has_no_seats_room_any_more() {
        let (memory, now) = (SeatMemory::default(), testing::now());
        let one = (ObjectKey::new("team", "a"), true);
        let other = (ObjectKey::new("team", "b"), true);
        let elsewhere = (ObjectKey::new("team", "c"), false);
        assert!(!memory.waits(&[elsewhere], now), "for what no seat has");
        let later = |minutes| now + SignedDuration::from_mins(minutes);
        assert!(memory.waits(std::slice::from_ref(&one), now));
        assert!(!memory.waits(std::slice::from_ref(&one), later(10)));
        assert!(memory.waits(&[one.clone(), other], later(11)), "a new one counts");
        assert!(!memory.waits(&[], later(12)));
        assert!(memory.waits(&[one], later(13)), "it waits anew");
    }
}
