//! Build slots: `worktree.maxConcurrentBuilds` of a Repo, over all of its Threads.
//!
//! Kept in memory by the replica that serves agents. A slot belongs to a pod; it is renewed by the
//! pod, and free again when the pod gives it back, is no longer its role's, or says nothing for
//! [`BUILD_SLOT_SECONDS`]. Whoever takes over knows no slots: for that long it counts every role that
//! may build and was running as if it held one, until that role says what it has. [`BuildSlots`] decides
//! and is pure but for the clock that it is given.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use codebutler_crds::thread::RoleState;
use codebutler_crds::wire::{BUILD_SLOT_SECONDS, BuildClaim, BuildTurn, BuildWant};
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::thread_key::ThreadKey;
use kube::ResourceExt as _;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

/// The tool by which a role can build.
pub const TOOL: &str = "Bash";
/// Time for which a place in the queue is kept after its claimant's latest question.
const BETWEEN: Duration = Duration::from_secs(5);
/// Maximum number of claims that are remembered as given back.
const REMEMBERED: usize = 64;
const TERM: Duration = Duration::from_secs(BUILD_SLOT_SECONDS);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BuildClaimant {
    pub thread: ThreadKey,
    role: String,
    pod: String,
}

impl BuildClaimant {
    pub fn of(caller: &ProvenCaller) -> Option<Self> {
        let role = caller.role_name();
        let pod = caller.thread.status.as_ref()?.roles.get(role)?.pod_uid.clone()?;
        Some(Self { thread: caller.key(), role: role.to_owned(), pod })
    }

    /// True if it is still the role's pod.
    fn lives(&self, context: &GatewayContext) -> bool {
        context.thread(&self.thread).is_some_and(|thread| {
            let role = thread.status.as_ref().and_then(|status| status.roles.get(&self.role));
            role.and_then(|role| role.pod_uid.as_ref()) == Some(&self.pod) && !thread.is_going()
        })
    }
}

#[derive(Clone, Debug)]
struct HeldBuild {
    who: BuildClaimant,
    /// The pod's own name for it; none where it is only supposed.
    id: Option<String>,
    until: Instant,
}

#[derive(Debug, Default)]
struct BuildSlots {
    held: Vec<HeldBuild>,
    /// Claims that wait, in order of arrival.
    queue: Vec<HeldBuild>,
    /// The newest claims that were given back: a renewal that was overtaken brings none of them back.
    over: VecDeque<String>,
}

impl BuildSlots {
    /// Forgets what ran out, and pods that are gone.
    fn sweep(&mut self, now: Instant, lives: impl Fn(&BuildClaimant) -> bool) {
        for claims in [&mut self.held, &mut self.queue] {
            claims.retain(|claim| claim.until > now && lives(&claim.who));
        }
    }

    fn claim(
        &mut self,
        who: &BuildClaimant,
        claim: &BuildClaim,
        limit: u32,
        now: Instant,
    ) -> BuildTurn {
        let own = |known: &HeldBuild| known.who == *who;
        let id = Some(claim.id.clone());
        let granted = match claim.want {
            BuildWant::Release => {
                self.held.retain(|known| !own(known) || known.id != id);
                self.queue.retain(|known| !own(known) || known.id != id);
                self.over.extend(id);
                self.over.drain(..self.over.len().saturating_sub(REMEMBERED));
                false
            }
            BuildWant::Keep if self.over.contains(&claim.id) => false,
            BuildWant::Keep => {
                // Also if the claim had expired: the pod builds in any case, so it has to count.
                self.held.retain(|known| !own(known));
                self.held.push(HeldBuild { who: who.clone(), id, until: now + TERM });
                true
            }
            BuildWant::Slot => {
                // A slot that was presumed of this pod, or that it holds for an earlier build, becomes this claim's.
                self.held.retain(|known| !own(known) || known.id.is_some());
                let renewed = HeldBuild { who: who.clone(), id, until: now + TERM };
                if let Some(held) = self.held.iter_mut().find(|known| own(known)) {
                    *held = renewed;
                    true
                } else {
                    self.enqueue(renewed, limit)
                }
            }
        };
        BuildTurn { granted, used: count_builds(&self.held), limit }
    }

    /// Grants a slot if it is this claim's turn, and keeps its place in the queue otherwise.
    fn enqueue(&mut self, claim: HeldBuild, limit: u32) -> bool {
        let place = self.queue.iter().position(|known| known.who == claim.who);
        let place = place.unwrap_or(self.queue.len());
        let free = limit.saturating_sub(count_builds(&self.held));
        if place < free as usize {
            if place < self.queue.len() {
                self.queue.remove(place);
            }
            self.held.push(claim);
            return true;
        }
        match self.queue.get_mut(place) {
            Some(known) => *known = claim,
            None => self.queue.push(claim),
        }
        false
    }
}

fn count_builds(claims: &[HeldBuild]) -> u32 {
    u32::try_from(claims.len()).unwrap_or(u32::MAX)
}

#[derive(Debug, Default)]
pub struct BuildPlaces {
    repos: Mutex<HashMap<(String, String), BuildSlots>>,
    pub changed: Notify,
}

impl BuildPlaces {
    fn lock(&self) -> MutexGuard<'_, HashMap<(String, String), BuildSlots>> {
        self.repos.lock()
    }

    /// Presumes a slot for every running role that may build, until it says otherwise.
    pub fn inherit(&self, context: &GatewayContext) {
        let until = Instant::now() + TERM;
        let mut repos = self.lock();
        for thread in context.own_threads() {
            let key = ThreadKey::from(&*thread);
            let Some(repo) = context.repo(&key.namespace, &thread.spec.repo) else { continue };
            let roles = context.roles_of(&repo);
            let builders: BTreeSet<&str> = roles
                .iter()
                .filter(|role| role.spec.tools.offered().any(|tool| tool == TOOL))
                .map(|role| role.spec.role.as_str())
                .collect();
            for (role, own) in thread.status.iter().flat_map(|status| &status.roles) {
                let running =
                    own.state == Some(RoleState::Running) && builders.contains(role.as_str());
                let Some(pod) = own.pod_uid.clone().filter(|_| running) else { continue };
                let who = BuildClaimant { thread: key.clone(), role: role.clone(), pod };
                let slots = repos.entry((key.namespace.clone(), repo.name_any())).or_default();
                slots.held.push(HeldBuild { who, id: None, until });
            }
        }
    }

    /// Answers one question about a claim at once.
    pub fn ask(
        &self,
        context: &GatewayContext,
        caller: &ProvenCaller,
        who: &BuildClaimant,
        claim: &BuildClaim,
    ) -> BuildTurn {
        let key = (who.thread.namespace.clone(), caller.repo.name_any());
        // The Repo as it is now: people raise the limit while roles wait.
        let repo = context.repo(&key.0, &key.1).unwrap_or_else(|| caller.repo.clone());
        let limit = repo.spec.worktree.max_concurrent_builds.max(1);
        let mut repos = self.lock();
        let slots = repos.entry(key).or_default();
        let now = Instant::now();
        slots.sweep(now, |who| who.lives(context));
        slots.claim(who, claim, limit, now)
    }

    /// Keeps a place in the queue only for as long as it takes to ask again.
    pub fn leave(&self, repo: &(String, String), who: &BuildClaimant) {
        if let Some(slots) = self.lock().get_mut(repo)
            && let Some(claim) = slots.queue.iter_mut().find(|claim| claim.who == *who)
        {
            claim.until = claim.until.min(Instant::now() + BETWEEN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(name: &str) -> BuildClaimant {
        let thread = ThreadKey { namespace: "team".into(), name: name.into() };
        BuildClaimant { thread, role: "coder".into(), pod: format!("{name}-pod") }
    }

    fn say(slots: &mut BuildSlots, name: &str, id: &str, want: BuildWant, at: Instant) -> bool {
        let claim = BuildClaim { id: id.into(), want };
        slots.sweep(at, |_| true);
        slots.claim(&who(name), &claim, 1, at).granted
    }

    #[test]
    fn slots_go_round_in_order_of_arrival() {
        let (mut slots, now) = (BuildSlots::default(), Instant::now());
        assert!(say(&mut slots, "a", "1", BuildWant::Slot, now));
        assert!(say(&mut slots, "a", "1", BuildWant::Slot, now), "asked twice");
        assert!(!say(&mut slots, "b", "1", BuildWant::Slot, now));
        assert!(!say(&mut slots, "c", "1", BuildWant::Slot, now));
        // A late release of an earlier build frees nothing.
        say(&mut slots, "a", "0", BuildWant::Release, now);
        assert!(!say(&mut slots, "b", "1", BuildWant::Slot, now));
        say(&mut slots, "a", "1", BuildWant::Release, now);
        assert!(!say(&mut slots, "c", "1", BuildWant::Slot, now), "b was first");
        assert!(!say(&mut slots, "a", "2", BuildWant::Slot, now));
        assert!(say(&mut slots, "b", "1", BuildWant::Slot, now));
        say(&mut slots, "b", "1", BuildWant::Release, now);
        say(&mut slots, "c", "1", BuildWant::Release, now);
        assert!(say(&mut slots, "a", "2", BuildWant::Slot, now), "c has left the queue");
    }

    #[test]
    fn what_is_not_renewed_is_free_and_what_builds_on_is_counted() {
        let (mut slots, now) = (BuildSlots::default(), Instant::now());
        assert!(say(&mut slots, "a", "1", BuildWant::Slot, now));
        let later = now + TERM * 9 / 10;
        assert!(!say(&mut slots, "b", "1", BuildWant::Slot, later));
        assert!(say(&mut slots, "a", "1", BuildWant::Keep, later));
        let late = later + TERM * 9 / 10;
        assert!(!say(&mut slots, "b", "1", BuildWant::Slot, late));
        let later = late + TERM / 5;
        assert!(say(&mut slots, "b", "1", BuildWant::Slot, later));
        assert!(say(&mut slots, "a", "1", BuildWant::Keep, later));
        assert_eq!(slots.held.len(), 2);
        say(&mut slots, "b", "1", BuildWant::Release, later);
        assert!(!say(&mut slots, "c", "1", BuildWant::Slot, later));
        say(&mut slots, "a", "1", BuildWant::Release, later);
        assert!(!say(&mut slots, "a", "1", BuildWant::Keep, later), "overtaken by its release");
        assert!(say(&mut slots, "c", "1", BuildWant::Slot, later));
    }

    #[test]
    fn after_a_takeover_a_running_role_counts_until_it_speaks_or_is_gone() {
        let (mut slots, now) = (BuildSlots::default(), Instant::now());
        slots.held.push(HeldBuild { who: who("a"), id: None, until: now + TERM });
        assert!(!say(&mut slots, "b", "1", BuildWant::Slot, now));
        // It waits too, so it has no slot; claims go in order of arrival.
        assert!(!say(&mut slots, "a", "1", BuildWant::Slot, now));
        assert!(say(&mut slots, "b", "1", BuildWant::Slot, now));
        slots.sweep(now, |who| who.thread.name != "b");
        assert!(say(&mut slots, "a", "1", BuildWant::Slot, now));
    }
}
