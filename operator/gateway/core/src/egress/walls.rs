//! Findings of agent pods that tried to get past the gateway, and the verdict on their Repo. One
//! pod's bad moment is not the Repo's condition, and a good one does not hide a bad node.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use codebutler_crds::wire::{EgressReport, EgressTrial, EgressWay};
use parking_lot::Mutex;

use crate::caller::ProvenCaller;
use crate::thread_key::ThreadKey;

/// Time for which a report counts when its pod is not heard of again.
const REMEMBERED: Duration = Duration::from_mins(15);
/// Number of pods that get out from which it is no accident.
const ENOUGH: usize = 2;

/// A role of a Thread: its pods follow one another.
type ThreadRole = (ThreadKey, String);

/// Newest report of each role's pod, for all Repos. Cheap to clone.
#[derive(Clone, Default)]
pub struct EgressWalls(Arc<Mutex<HashMap<ThreadRole, WallWord>>>);

struct WallWord {
    /// UID of the pod that reported.
    pod: Option<String>,
    repo: String,
    at: Instant,
    report: EgressReport,
}

/// Verdict on a Repo from the reports of all its pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WallVerdict {
    /// The pods reach the gateway and nothing else.
    Enforced,
    Open(BTreeSet<EgressWay>),
    Unsettled,
}

impl EgressWalls {
    /// Takes a pod's word in, and forgets what was said of Threads that are no more.
    pub fn hear(
        &self,
        caller: &ProvenCaller,
        report: &EgressReport,
        is_there: impl Fn(&ThreadKey) -> bool,
    ) -> WallVerdict {
        let word = WallWord {
            pod: caller_pod(caller),
            repo: caller.thread.spec.repo.clone(),
            at: Instant::now(),
            report: report.clone(),
        };
        let mut words = self.0.lock();
        // The report of a pod that can't get out counts for its own sessions for as long as it
        // lives.
        words.retain(|(thread, _), word| {
            is_there(thread) && (!word.report.reached || word.at.elapsed() < REMEMBERED)
        });
        let ((thread, role), repo) = (caller_seat(caller), word.repo.clone());
        words.insert((thread.clone(), role), word);
        let of_repo = |key: &ThreadKey, word: &WallWord| {
            key.namespace == thread.namespace && word.repo == repo
        };
        if caller.repo.spec.egress.allow_own_node {
            // Earlier reports, too: the condition that they led to would outlast the decision.
            for (_, word) in words.iter_mut().filter(|((key, _), word)| of_repo(key, word)) {
                forgive_node(&mut word.report);
            }
        }
        judge_walls(
            words.iter().filter(|((key, _), word)| of_repo(key, word)).map(|(_, word)| word),
        )
    }

    /// Returns true if the pod itself found nothing open.
    pub fn keep(&self, caller: &ProvenCaller) -> bool {
        let words = self.0.lock();
        let word = words.get(&caller_seat(caller));
        word.is_some_and(|word| word.pod == caller_pod(caller) && !word.report.reached)
    }
}

fn caller_seat(caller: &ProvenCaller) -> ThreadRole {
    (caller.key(), caller.role_name().to_owned())
}

fn caller_pod(caller: &ProvenCaller) -> Option<String> {
    let status = caller.thread.status.as_ref()?;
    status.roles.get(caller.role_name())?.pod_uid.clone()
}

fn judge_walls<'a>(words: impl Iterator<Item = &'a WallWord>) -> WallVerdict {
    let (mut out, mut kept_in) = (Vec::new(), false);
    for word in words {
        let fresh = word.at.elapsed() < REMEMBERED;
        match &word.report {
            report if !report.reached => kept_in |= fresh,
            report => out.push(report),
        }
    }
    let sure: Vec<_> = out.iter().filter(|report| report.trial >= EgressTrial::Long).collect();
    let alone = !kept_in && sure.iter().any(|report| report.trial == EgressTrial::Overdue);
    if sure.len() >= ENOUGH || alone {
        return WallVerdict::Open(sure.iter().flat_map(|report| reported_ways(report)).collect());
    }
    if kept_in && sure.is_empty() { WallVerdict::Enforced } else { WallVerdict::Unsettled }
}

/// Takes the own node out of a report on a Repo that allows it.
pub fn forgive_node(report: &mut EgressReport) {
    if report.ways.remove(&EgressWay::Node) {
        report.reached = !report.ways.is_empty();
    }
}

/// Agents of before named none.
pub fn reported_ways(report: &EgressReport) -> BTreeSet<EgressWay> {
    if report.ways.is_empty() { [EgressWay::ApiServer].into() } else { report.ways.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(trial: Option<EgressTrial>, age: Duration) -> WallWord {
        let ways = trial.map(|_| EgressWay::Metadata).into_iter().collect();
        let trial_ = trial.unwrap_or_default();
        let report = EgressReport { reached: trial.is_some(), ways, trial: trial_ };
        let at = Instant::now().checked_sub(age).unwrap();
        WallWord { pod: None, repo: "shop".to_owned(), at, report }
    }

    fn verdict(trials: &[Option<EgressTrial>]) -> WallVerdict {
        let words: Vec<_> = trials.iter().map(|trial| word(*trial, Duration::ZERO)).collect();
        judge_walls(words.iter())
    }

    #[test]
    fn one_bad_moment_is_no_verdict_and_two_bad_pods_are() {
        let open = WallVerdict::Open([EgressWay::Metadata].into());
        assert_eq!(verdict(&[None]), WallVerdict::Enforced);
        assert_eq!(verdict(&[Some(EgressTrial::Begun)]), WallVerdict::Unsettled);
        assert_eq!(verdict(&[Some(EgressTrial::Begun), None]), WallVerdict::Enforced);
        assert_eq!(
            verdict(&[Some(EgressTrial::Long)]),
            WallVerdict::Unsettled,
            "it may still come"
        );
        assert_eq!(verdict(&[Some(EgressTrial::Overdue)]), open, "nobody says otherwise");
        assert_eq!(
            verdict(&[Some(EgressTrial::Overdue), None]),
            WallVerdict::Unsettled,
            "one node of many"
        );
        assert_eq!(verdict(&[Some(EgressTrial::Long), Some(EgressTrial::Long), None]), open);
    }

    #[test]
    fn what_a_pod_said_long_ago_contradicts_nobody() {
        let words =
            [word(None, REMEMBERED), word(Some(EgressTrial::Overdue), Duration::from_secs(1))];
        assert_eq!(judge_walls(words.iter()), WallVerdict::Open([EgressWay::Metadata].into()));
    }
}
