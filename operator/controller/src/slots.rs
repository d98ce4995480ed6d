//! Admission of roles to a Repo's slots, which limit how many run at once. Slots are given out in the order of
//! arrival.
//!
//! A role holds a slot only while it runs or is about to; a Thread that waits, sleeps or is only
//! open holds none. A slot is given here first and then written into the Thread (`admitted`), and
//! taken back the other way round: whatever a cache or a failed write hides, a slot that some gateway
//! may still see as given is not given twice.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use codebutler_crds::limits::LimitsSpec;
use jiff::Timestamp;
use parking_lot::Mutex;

use super::index::ObjectKey;

/// Positions up to this one are kept exact; who waits further back learns its position when it
/// comes closer.
const EXACT: usize = 20;

pub(crate) type RoleSet = BTreeSet<String>;

/// Slots that a Thread holds and wants.
#[derive(Clone, Debug)]
pub(crate) struct SlotRequest<'a> {
    pub thread: &'a str,
    /// Roles that have a slot by what is written in the Thread.
    pub admitted: RoleSet,
    /// Roles that run, or would if they had a slot.
    pub wanted: RoleSet,
    /// Time since which it waits, if it is known to wait already.
    pub since: Timestamp,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SlotAnswer {
    /// Wanted roles that have a slot.
    pub admitted: RoleSet,
    /// Place in the queue, from 1, if anything has to wait.
    pub position: Option<u32>,
    /// Threads that should ask again.
    pub others: Vec<String>,
}

/// Arrival, then the order in which it was noticed.
type SlotTicket = (Timestamp, u64);

#[derive(Debug, Default)]
struct SlotQueue {
    held: BTreeMap<String, RoleSet>,
    waiting: BTreeMap<SlotTicket, String>,
    tickets: HashMap<String, SlotTicket>,
    count: u64,
}

#[derive(Debug, Default)]
pub(crate) struct RepoSlots(Mutex<HashMap<ObjectKey, SlotQueue>>);

impl RepoSlots {
    /// Forgets everything, because another replica gives out slots now.
    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }

    /// A Thread tells what it holds and gets what it may run.
    pub(crate) fn ask(
        &self,
        repo: &ObjectKey,
        limits: &LimitsSpec,
        request: SlotRequest,
    ) -> SlotAnswer {
        self.with(repo, |queue| queue.ask(limits, request))
    }

    /// Slots that are given back: no longer written in the Thread. The result should ask again.
    pub(crate) fn release(&self, repo: &ObjectKey, thread: &str, roles: &RoleSet) -> Vec<String> {
        self.with(repo, |queue| queue.release(thread, roles))
    }

    /// A Thread that is gone holds and wants nothing; the result should ask again.
    pub(crate) fn forget(&self, repo: &ObjectKey, thread: &str) -> Vec<String> {
        self.with(repo, |queue| {
            let left = queue.leave(thread);
            let freed = queue.held.remove(thread).is_some();
            queue.front(freed || left)
        })
    }

    /// Numbers of Threads and of roles that hold a slot, by Repo as `namespace/name`.
    pub(crate) fn used(&self) -> HashMap<String, (usize, usize)> {
        let repos = self.0.lock();
        let used =
            |queue: &SlotQueue| (queue.held.len(), queue.held.values().map(BTreeSet::len).sum());
        repos.iter().map(|(key, queue)| (key.to_string(), used(queue))).collect()
    }

    /// Counts slots that were given before this replica acts, ahead of the first look at any Thread.
    pub(crate) fn prime(&self, repo: &ObjectKey, thread: &str, admitted: RoleSet) {
        self.with(repo, |queue| {
            queue.held.remove(thread);
            if !admitted.is_empty() {
                queue.held.insert(thread.to_owned(), admitted);
            }
        });
    }

    fn with<T>(&self, repo: &ObjectKey, change: impl FnOnce(&mut SlotQueue) -> T) -> T {
        let mut repos = self.0.lock();
        let queue = repos.entry(repo.clone()).or_default();
        let result = change(queue);
        if queue.held.is_empty() && queue.waiting.is_empty() {
            repos.remove(repo);
        }
        result
    }
}

impl SlotQueue {
    fn ask(&mut self, limits: &LimitsSpec, request: SlotRequest) -> SlotAnswer {
        let SlotRequest { thread, admitted: written, wanted, since } = request;
        let before = self.held.remove(thread).unwrap_or_default();
        // A slot that is written in the Thread is held until another write takes it back. One that is neither written
        // nor wanted any more will never be written.
        let held: RoleSet =
            before.iter().filter(|role| wanted.contains(*role)).chain(&written).cloned().collect();
        let mut freed = before.difference(&held).next().is_some();
        let mut admitted: RoleSet = held.intersection(&wanted).cloned().collect();
        if !held.is_empty() {
            self.held.insert(thread.to_owned(), held);
        }
        let starting: Vec<_> = wanted.difference(&admitted).cloned().collect();
        if starting.is_empty() {
            freed |= self.leave(thread);
            return SlotAnswer { admitted, position: None, others: self.front(freed) };
        }
        if !self.tickets.contains_key(thread) {
            self.count += 1;
            let ticket = (since, self.count);
            self.tickets.insert(thread.to_owned(), ticket);
            self.waiting.insert(ticket, thread.to_owned());
        }
        let (mut room, ahead, mut others) = self.room_behind(limits, thread);
        for role in starting {
            if room.take(self.held.contains_key(thread)) {
                self.held.entry(thread.to_owned()).or_default().insert(role.clone());
                admitted.insert(role);
            }
        }
        let all = admitted.len() == wanted.len();
        if all {
            others.clear();
            freed |= self.leave(thread) && ahead == 0;
        }
        others.extend(self.front(freed));
        others.retain(|other| other != thread);
        let position = (!all).then(|| u32::try_from(ahead + 1).unwrap_or(u32::MAX));
        SlotAnswer { admitted, position, others }
    }

    fn release(&mut self, thread: &str, roles: &RoleSet) -> Vec<String> {
        let Some(held) = self.held.get_mut(thread) else { return Vec::new() };
        let before = held.len();
        held.retain(|role| !roles.contains(role));
        let freed = held.len() < before;
        if held.is_empty() {
            self.held.remove(thread);
        }
        self.front(freed)
    }

    /// The room that is left for a Thread when all that came before it are served, how many those
    /// are, and who of them may start.
    fn room_behind(&self, limits: &LimitsSpec, thread: &str) -> (RepoCapacity, usize, Vec<String>) {
        let held = self.held.values().map(BTreeSet::len).sum::<usize>();
        let mut room = RepoCapacity {
            runs: usize::try_from(limits.concurrent_runs).unwrap_or(0).saturating_sub(held),
            threads: usize::try_from(limits.concurrent_threads)
                .unwrap_or(0)
                .saturating_sub(self.held.len()),
        };
        let ahead: Vec<_> = self.waiting.values().take_while(|other| *other != thread).collect();
        let may = ahead.iter().filter(|other| room.take(self.held.contains_key(**other)));
        let may = may.map(|other| (*other).clone()).collect();
        (room, ahead.len(), may)
    }

    fn leave(&mut self, thread: &str) -> bool {
        let ticket = self.tickets.remove(thread);
        ticket.is_some_and(|ticket| self.waiting.remove(&ticket).is_some())
    }

    fn front(&self, moved: bool) -> Vec<String> {
        let front = self.waiting.values().take(if moved { EXACT } else { 0 });
        front.cloned().collect()
    }
}

struct RepoCapacity {
    runs: usize,
    threads: usize,
}

impl RepoCapacity {
    /// Takes a slot for a role of a Thread that `holds` one already, or does not.
    fn take(&mut self, holds: bool) -> bool {
        let fits = self.runs > 0 && (holds || self.threads > 0);
        if fits {
            self.runs -= 1;
            self.threads -= usize::from(!holds);
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roles(names: &[&str]) -> RoleSet {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    struct Office(RepoSlots, LimitsSpec);

    impl Office {
        fn new(threads: u32, runs: u32) -> Self {
            let limits = LimitsSpec {
                concurrent_threads: threads,
                concurrent_runs: runs,
                ..LimitsSpec::default()
            };
            Self(RepoSlots::default(), limits)
        }

        fn ask(&self, thread: &str, running: &[&str], starting: &[&str]) -> (usize, Option<u32>) {
            let answer = self.answer(thread, running, starting);
            (answer.admitted.len() - running.len(), answer.position)
        }

        fn answer(&self, thread: &str, running: &[&str], starting: &[&str]) -> SlotAnswer {
            let (admitted, since) = (roles(running), Timestamp::UNIX_EPOCH);
            let wanted = admitted.union(&roles(starting)).cloned().collect();
            let request = SlotRequest { thread, admitted, wanted, since };
            self.0.ask(&ObjectKey::new("ns", "shop"), &self.1, request)
        }
    }

    #[test]
    fn slots_go_out_in_order_of_arrival_and_come_back() {
        let office = Office::new(1, 6);
        assert_eq!(office.ask("a", &[], &["pm"]), (1, None));
        assert_eq!(office.ask("b", &[], &["pm"]), (0, Some(1)));
        assert_eq!(office.ask("c", &[], &["pm"]), (0, Some(2)));
        // A second role of a Thread that runs needs no second place, and waits for nobody.
        assert_eq!(office.ask("a", &["pm"], &["coder"]), (1, None));
        assert_eq!(office.ask("b", &[], &["pm"]), (0, Some(1)));
        // The role ends; waiting Threads are told, and only the first one gets the slot.
        let ended = office.answer("a", &[], &[]);
        assert_eq!(ended.others, ["b", "c"]);
        let passed_over = office.answer("c", &[], &["pm"]);
        assert_eq!((passed_over.position, passed_over.others), (Some(2), vec!["b".to_owned()]));
        assert_eq!(office.ask("b", &[], &["pm"]), (1, None));
        assert_eq!(office.ask("c", &[], &["pm"]), (0, Some(1)));
        // A Thread that is deleted while it runs gives its place back too.
        assert_eq!(office.0.forget(&ObjectKey::new("ns", "shop"), "b"), ["c"]);
        assert_eq!(office.ask("c", &[], &["pm"]), (1, None));
    }

    #[test]
    fn runs_are_counted_over_all_threads() {
        let office = Office::new(5, 2);
        assert_eq!(office.ask("a", &[], &["coder", "pm", "reviewer"]), (2, Some(1)));
        assert_eq!(office.ask("b", &[], &["pm"]), (0, Some(2)));
        // One of the roles sleeps: the Thread that asked first gets its slot.
        assert_eq!(office.ask("a", &["coder"], &["reviewer"]), (1, None));
        assert_eq!(office.ask("b", &[], &["pm"]), (0, Some(1)));
        assert_eq!(office.answer("a", &["reviewer"], &[]).others, ["b"]);
        assert_eq!(office.ask("b", &[], &["pm"]), (1, None));
    }

    #[test]
    fn what_runs_when_a_controller_begins_is_counted_before_anybody_asks() {
        let office = Office::new(1, 6);
        office.0.prime(&ObjectKey::new("ns", "shop"), "a", roles(&["pm"]));
        assert_eq!(office.ask("b", &[], &["pm"]), (0, Some(1)));
        // The Thread that waited longest is first again, whoever asks first.
        assert_eq!(office.ask("a", &["pm"], &[]), (0, None));
    }

    #[test]
    fn a_slot_is_free_once_it_is_written_so() {
        let office = Office::new(1, 1);
        let key = ObjectKey::new("ns", "shop");
        let ask = |thread: &str, admitted: &[&str], wanted: &[&str]| {
            let (admitted, wanted) = (roles(admitted), roles(wanted));
            let request = SlotRequest { thread, admitted, wanted, since: Timestamp::UNIX_EPOCH };
            office.0.ask(&key, &office.1, request)
        };
        assert_eq!(ask("a", &[], &["pm"]).admitted, roles(&["pm"]));
        // The role has done its work, but a gateway may still see it admitted.
        assert_eq!(ask("a", &["pm"], &[]).admitted, RoleSet::new());
        assert_eq!(ask("b", &[], &["pm"]).position, Some(1));
        assert_eq!(office.0.release(&key, "a", &roles(&["pm"])), ["b"]);
        assert_eq!(ask("b", &[], &["pm"]).admitted, roles(&["pm"]));
        // Asked for again before the write that gives it is seen: it is the same slot.
        assert_eq!(ask("b", &[], &["pm"]).admitted, roles(&["pm"]));
        assert_eq!(ask("a", &[], &["pm"]).position, Some(1));
    }

    #[test]
    fn no_limit_is_ever_exceeded_and_everybody_gets_a_turn() {
        use rand::rngs::StdRng;
        use rand::{RngExt as _, SeedableRng as _};
        for seed in 0..30 {
            let mut random = StdRng::seed_from_u64(seed);
            let (threads, runs) = (random.random_range(1..4), random.random_range(1..6));
            let office = Office::new(threads, runs);
            let names: Vec<String> = (0..8).map(|i| format!("t{i}")).collect();
            let mut written = vec![RoleSet::new(); 8];
            let mut wanted = vec![RoleSet::new(); 8];
            let mut turns = [0; 8];
            for _ in 0..900 {
                let who = random.random_range(0..8);
                let (key, name) = (ObjectKey::new("ns", "shop"), &names[who]);
                match random.random_range(0..4) {
                    // Mail for one or both of its roles, or all that it had to do is done.
                    0 => wanted[who] = roles(&["pm", "coder"][..random.random_range(1..=2)]),
                    1 if !written[who].is_empty() => wanted[who].clear(),
                    _ => {}
                }
                let request = SlotRequest {
                    thread: name,
                    admitted: written[who].clone(),
                    wanted: wanted[who].clone(),
                    since: Timestamp::UNIX_EPOCH,
                };
                let answer = office.0.ask(&key, &office.1, request);
                if random.random_bool(0.2) {
                    // The write failed: the next look begins where this one did.
                    continue;
                }
                let dropped = written[who].difference(&answer.admitted).cloned().collect();
                turns[who] += answer.admitted.difference(&written[who]).count();
                written[who] = answer.admitted;
                office.0.release(&key, name, &dropped);
                let busy = written.iter().filter(|roles| !roles.is_empty()).count();
                let all = written.iter().map(BTreeSet::len).sum::<usize>();
                assert!(busy <= threads as usize && all <= runs as usize, "seed {seed}");
            }
            assert!(turns.iter().all(|turns| *turns > 0), "seed {seed}: {turns:?}");
        }
    }
}
