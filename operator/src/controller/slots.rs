//! Who may run: a Repo's slots, given out in the order of arrival.
//!
//! A role holds a slot only while it runs or is about to; a Thread that waits, sleeps or is only
//! open holds none. What is held is told anew with every look at a Thread, so nothing leaks; what is
//! promised between two looks is remembered here, because caches lag.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use codebutler_crds::limits::LimitsSpec;
use jiff::Timestamp;

use super::index::Key;

/// Positions up to this one are kept exact; who waits further back learns its position when it
/// comes closer.
const EXACT: usize = 20;

/// Roles by short name.
pub type Roles = BTreeSet<String>;

/// What a Thread holds and wants.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Its name.
    pub thread: &'a str,
    /// Roles that run, or have mail and a pod to take it.
    pub running: Roles,
    /// Roles that would start now.
    pub starting: Roles,
    /// Since when it waits, if it is known to wait already.
    pub since: Timestamp,
}

/// What a Thread gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Roles that may start.
    pub admitted: Roles,
    /// Its place in the queue, from 1, if anything has to wait.
    pub position: Option<u32>,
    /// Threads that should ask again.
    pub others: Vec<String>,
}

/// Arrival, then the order in which it was noticed.
type Ticket = (Timestamp, u64);

#[derive(Debug, Default)]
struct Queue {
    held: BTreeMap<String, Roles>,
    waiting: BTreeMap<Ticket, String>,
    tickets: HashMap<String, Ticket>,
    count: u64,
}

/// The slots of all Repos.
#[derive(Debug, Default)]
pub struct Slots(Mutex<HashMap<Key, Queue>>);

impl Slots {
    /// A Thread tells what it holds and gets what it may start.
    pub fn ask(&self, repo: &Key, limits: &LimitsSpec, request: Request) -> Answer {
        let mut repos = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = repos.entry(repo.clone()).or_default().ask(limits, request);
        repos.retain(|_, queue| !queue.held.is_empty() || !queue.waiting.is_empty());
        answer
    }

    /// A Thread that is gone, closed or has no Repo wants nothing; the result should ask again.
    pub fn forget(&self, repo: &Key, thread: &str) -> Vec<String> {
        let (running, starting) = (Roles::new(), Roles::new());
        let request = Request { thread, running, starting, since: Timestamp::UNIX_EPOCH };
        // It asks for nothing, so no limit matters.
        self.ask(repo, &LimitsSpec::default(), request).others
    }

    /// Before the first look at any Thread: what runs already.
    pub fn prime(&self, repo: &Key, thread: &str, running: Roles) {
        if !running.is_empty() {
            let mut repos = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            repos.entry(repo.clone()).or_default().held.insert(thread.to_owned(), running);
        }
    }
}

impl Queue {
    fn ask(&mut self, limits: &LimitsSpec, request: Request) -> Answer {
        let Request { thread, running, starting, since } = request;
        let before = self.held.remove(thread).unwrap_or_default();
        let mut freed = before.difference(&running).next().is_some();
        if !running.is_empty() {
            self.held.insert(thread.to_owned(), running);
        }
        if starting.is_empty() {
            freed |= self.leave(thread);
            return Answer { others: self.front(freed), ..Answer::default() };
        }
        if !self.tickets.contains_key(thread) {
            self.count += 1;
            let ticket = (since, self.count);
            self.tickets.insert(thread.to_owned(), ticket);
            self.waiting.insert(ticket, thread.to_owned());
        }
        let (mut room, ahead, mut others) = self.room_behind(limits, thread);
        let mut admitted = Roles::new();
        for role in &starting {
            if room.take(self.held.contains_key(thread)) {
                self.held.entry(thread.to_owned()).or_default().insert(role.clone());
                admitted.insert(role.clone());
            }
        }
        let all = admitted.len() == starting.len();
        if all {
            others.clear();
            freed |= self.leave(thread) && ahead == 0;
        }
        others.extend(self.front(freed));
        others.retain(|other| other != thread);
        let position = (!all).then(|| u32::try_from(ahead + 1).unwrap_or(u32::MAX));
        Answer { admitted, position, others }
    }

    /// The room that is left for a Thread when all that came before it are served, how many those
    /// are, and who of them may start.
    fn room_behind(&self, limits: &LimitsSpec, thread: &str) -> (Room, usize, Vec<String>) {
        let held = self.held.values().map(BTreeSet::len).sum::<usize>();
        let mut room = Room {
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

struct Room {
    runs: usize,
    threads: usize,
}

impl Room {
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

    fn roles(names: &[&str]) -> Roles {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    struct Office(Slots, LimitsSpec);

    impl Office {
        fn new(threads: u32, runs: u32) -> Self {
            let limits = LimitsSpec {
                concurrent_threads: threads,
                concurrent_runs: runs,
                ..LimitsSpec::default()
            };
            Self(Slots::default(), limits)
        }

        fn ask(&self, thread: &str, running: &[&str], starting: &[&str]) -> (usize, Option<u32>) {
            let answer = self.answer(thread, running, starting);
            (answer.admitted.len(), answer.position)
        }

        fn answer(&self, thread: &str, running: &[&str], starting: &[&str]) -> Answer {
            let (running, starting) = (roles(running), roles(starting));
            let since = Timestamp::UNIX_EPOCH;
            let request = Request { thread, running, starting, since };
            self.0.ask(&Key::new("ns", "shop"), &self.1, request)
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
        // It ends; who waits is told, and only the first one may go.
        let ended = office.answer("a", &[], &[]);
        assert_eq!(ended.others, ["b", "c"]);
        let passed_over = office.answer("c", &[], &["pm"]);
        assert_eq!((passed_over.position, passed_over.others), (Some(2), vec!["b".to_owned()]));
        assert_eq!(office.ask("b", &[], &["pm"]), (1, None));
        assert_eq!(office.ask("c", &[], &["pm"]), (0, Some(1)));
        // A Thread that is deleted while it runs gives its place back too.
        assert_eq!(office.0.forget(&Key::new("ns", "shop"), "b"), ["c"]);
        assert_eq!(office.ask("c", &[], &["pm"]), (1, None));
    }

    #[test]
    fn runs_are_counted_over_all_threads() {
        let office = Office::new(5, 2);
        assert_eq!(office.ask("a", &[], &["coder", "pm", "reviewer"]), (2, Some(1)));
        assert_eq!(office.ask("b", &[], &["pm"]), (0, Some(2)));
        // One of them sleeps: the Thread that asked first gets its slot.
        assert_eq!(office.ask("a", &["coder"], &["reviewer"]), (1, None));
        assert_eq!(office.ask("b", &[], &["pm"]), (0, Some(1)));
        assert_eq!(office.answer("a", &["reviewer"], &[]).others, ["b"]);
        assert_eq!(office.ask("b", &[], &["pm"]), (1, None));
    }

    #[test]
    fn what_runs_when_a_controller_begins_is_counted_before_anybody_asks() {
        let office = Office::new(1, 6);
        office.0.prime(&Key::new("ns", "shop"), "a", roles(&["pm"]));
        assert_eq!(office.ask("b", &[], &["pm"]), (0, Some(1)));
        // Who waited longest is first again, whoever asks first.
        assert_eq!(office.ask("a", &["pm"], &[]), (0, None));
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
            let mut running = vec![Roles::new(); 8];
            let mut turns = [0; 8];
            for _ in 0..600 {
                let who = random.random_range(0..8);
                let mut wants = roles(&["pm", "coder"][..random.random_range(1..=2)]);
                if !running[who].is_empty() && random.random_bool(0.4) {
                    // All it had to do is done.
                    running[who].clear();
                    wants.clear();
                }
                let starting: Roles = wants.difference(&running[who]).cloned().collect();
                let request = Request {
                    thread: &names[who],
                    running: running[who].clone(),
                    starting,
                    since: Timestamp::UNIX_EPOCH,
                };
                let answer = office.0.ask(&Key::new("ns", "shop"), &office.1, request);
                turns[who] += answer.admitted.len();
                running[who].extend(answer.admitted);
                let busy = running.iter().filter(|roles| !roles.is_empty()).count();
                let all = running.iter().map(BTreeSet::len).sum::<usize>();
                assert!(busy <= threads as usize && all <= runs as usize, "seed {seed}");
            }
            assert!(turns.iter().all(|turns| *turns > 0), "seed {seed}: {turns:?}");
        }
    }
}
