//! Decides the next steps of a request that is built in parts: from what people approved and the Threads of the
//! parts. Pure, and the same whenever it is asked.

use std::collections::BTreeMap;

use codebutler_crds::thread::{RequestPart, RequestSplit};

use crate::roadmap::child::ChildState;

/// State of a part's Thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PartThread {
    /// Name of the part's Thread.
    pub thread: String,
    pub state: ChildState,
    /// Number and page of its pull request.
    pub pull: Option<(u64, String)>,
    /// The commit on the base branch.
    pub merged: Option<String>,
}

/// Facts that the next steps are decided from.
pub(super) struct SplitFacts<'a> {
    pub split: &'a RequestSplit,
    /// The Repo of the conversation.
    pub repo: &'a str,
    /// Threads of the parts, by number.
    pub threads: &'a BTreeMap<u32, PartThread>,
    /// Numbers of parts whose taking back has its Thread.
    pub undone: &'a [u32],
}

/// A step that is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PartStep {
    /// Create the Thread of a part.
    Start(u32),
    /// The first was merged, the second will not be: people are asked.
    AskUndo(u32, u32),
    /// A part that was merged is taken back.
    Undo(u32),
    /// Nothing is left to do: the split has ended.
    Finish,
}

/// State of a part, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PartStanding {
    Merged,
    Works,
    Ready,
    Asks,
    Failed,
    /// Its pull request was closed without being merged.
    Dropped,
    /// It begins when these parts are merged.
    Waits(Vec<u32>),
    /// This part before it was closed without being merged.
    Stuck(u32),
}

impl SplitFacts<'_> {
    /// Name of the Repo in which a part is built.
    pub(super) fn repo_of<'p>(&'p self, part: &'p RequestPart) -> &'p str {
        part.repo.as_deref().unwrap_or(self.repo)
    }

    fn state(&self, number: u32) -> Option<&ChildState> {
        self.threads.get(&number).map(|thread| &thread.state)
    }

    fn is_merged(&self, number: u32) -> bool {
        self.state(number) == Some(&ChildState::Merged)
    }

    fn shares_repo(&self, one: &RequestPart, other: u32) -> bool {
        self.split.part(other).is_some_and(|other| self.repo_of(one) == self.repo_of(other))
    }

    /// State of a part, by its Thread and those before it.
    pub(super) fn standing(&self, number: u32, part: &RequestPart) -> PartStanding {
        match self.state(number) {
            Some(ChildState::Merged) => PartStanding::Merged,
            Some(ChildState::Dropped) => PartStanding::Dropped,
            Some(ChildState::Ready(_)) => PartStanding::Ready,
            Some(ChildState::Asks(_)) => PartStanding::Asks,
            Some(ChildState::Failed { .. } | ChildState::Rests(_)) => PartStanding::Failed,
            Some(ChildState::Works) => PartStanding::Works,
            None => self.before_it_begins(part),
        }
    }

    fn before_it_begins(&self, part: &RequestPart) -> PartStanding {
        let over = |number: &&u32| {
            self.state(**number) == Some(&ChildState::Dropped) || self.is_stuck(**number)
        };
        if let Some(gone) = part.after.iter().find(over) {
            return PartStanding::Stuck(*gone);
        }
        let awaited = |number: &&u32| {
            let same = self.shares_repo(part, **number);
            if same { !self.is_merged(**number) } else { self.state(**number).is_none() }
        };
        PartStanding::Waits(part.after.iter().filter(awaited).copied().collect())
    }

    fn is_stuck(&self, number: u32) -> bool {
        let part = self.split.part(number).filter(|_| self.state(number).is_none());
        part.is_some_and(|part| matches!(self.before_it_begins(part), PartStanding::Stuck(_)))
    }

    /// Parts that have to be merged before this one can be, and are not.
    pub(super) fn unmet(&self, part: &RequestPart) -> Vec<u32> {
        let awaited = |number: &&u32| {
            !self.is_merged(**number)
                && self.state(**number) != Some(&ChildState::Dropped)
                && !self.is_stuck(**number)
        };
        part.after.iter().filter(awaited).copied().collect()
    }

    /// A part that was merged, and one of another Repo that depends on it, or on which it does, and that
    /// will not be.
    fn torn(&self) -> Option<(u32, u32)> {
        let pairs = self.split.numbered().flat_map(|(number, part)| {
            let others = part.after.iter().filter(|other| !self.shares_repo(part, **other));
            others.map(move |other| (number, *other)).collect::<Vec<_>>()
        });
        let gone = |number| {
            let part = self.split.part(number);
            let standing = part.map(|part| self.standing(number, part));
            matches!(standing, Some(PartStanding::Dropped | PartStanding::Stuck(_)))
        };
        let known = |number| self.split.halves.iter().any(|half| half.part == number);
        let both = pairs.flat_map(|(one, other)| [(one, other), (other, one)]);
        let mut both =
            both.filter(|(landed, lost)| self.is_merged(*landed) && gone(*lost) && !known(*landed));
        both.next()
    }
}

/// Steps that are to be done now, in order.
pub(super) fn decide_parts(facts: &SplitFacts<'_>) -> Vec<PartStep> {
    let split = facts.split;
    let mut steps = Vec::new();
    for half in split.halves.iter().filter(|half| half.undo == Some(true)) {
        if !facts.undone.contains(&half.part) {
            steps.push(PartStep::Undo(half.part));
        }
    }
    if !split.is_under_way() {
        return steps;
    }
    let mut open = false;
    for (number, part) in split.numbered() {
        match facts.standing(number, part) {
            PartStanding::Waits(ids) if ids.is_empty() => {
                open = true;
                steps.push(PartStep::Start(number));
            }
            PartStanding::Merged | PartStanding::Dropped | PartStanding::Stuck(_) => {}
            _ => open = true,
        }
    }
    if let Some((landed, lost)) = facts.torn() {
        steps.push(PartStep::AskUndo(landed, lost));
    } else if !open && split.halves.iter().all(|half| half.undo.is_some()) {
        steps.push(PartStep::Finish);
    }
    steps
}

#[cfg(test)]
mod tests {
    use codebutler_crds::thread::LandedHalf;

    use super::*;

    fn split(parts: &[(Option<&str>, &[u32])]) -> RequestSplit {
        let part = |(repo, after): &(Option<&str>, &[u32])| RequestPart {
            title: "t".into(),
            request: "r".into(),
            repo: repo.map(Into::into),
            after: after.to_vec(),
            linked: false,
        };
        RequestSplit {
            asked: "5.000000".parse().unwrap(),
            role: "pm".into(),
            parts: parts.iter().map(part).collect(),
            declined: false,
            approved_by: Some("U1".into()),
            halves: Vec::new(),
            ended: None,
        }
    }

    fn steps(split: &RequestSplit, states: &[(u32, ChildState)], undone: &[u32]) -> Vec<PartStep> {
        let thread = |(number, state): &(u32, ChildState)| {
            let (thread, state) = (format!("t{number}"), state.clone());
            (*number, PartThread { thread, state, pull: None, merged: None })
        };
        let threads = states.iter().map(thread).collect();
        decide_parts(&SplitFacts { split, repo: "shop", threads: &threads, undone })
    }

    use ChildState::{Dropped, Merged, Works};

    #[test]
    fn a_part_begins_when_those_before_it_are_merged() {
        let three = split(&[(None, &[]), (None, &[1]), (None, &[])]);
        assert_eq!(steps(&three, &[], &[]), [PartStep::Start(1), PartStep::Start(3)]);
        assert_eq!(steps(&three, &[(1, Works), (3, Merged)], &[]), []);
        assert_eq!(steps(&three, &[(1, Merged), (3, Merged)], &[]), [PartStep::Start(2)]);
        let all = [(1, Merged), (2, Merged), (3, Merged)];
        assert_eq!(steps(&three, &all, &[]), [PartStep::Finish]);
        // A part that can't come any more keeps nothing open, and neither do those after it.
        let chain = split(&[(None, &[]), (None, &[1]), (None, &[2])]);
        assert_eq!(steps(&chain, &[(1, Dropped)], &[]), [PartStep::Finish]);
        let stopped = RequestSplit { approved_by: None, ..three };
        assert_eq!(steps(&stopped, &[], &[]), []);
    }

    #[test]
    fn of_two_repositories_both_begin_and_half_of_it_is_asked_about() {
        let two = split(&[(Some("api"), &[]), (Some("web"), &[1])]);
        assert_eq!(steps(&two, &[], &[]), [PartStep::Start(1)]);
        assert_eq!(steps(&two, &[(1, Works)], &[]), [PartStep::Start(2)]);
        assert_eq!(steps(&two, &[(1, Merged), (2, Works)], &[]), []);
        let torn = [(1, Merged), (2, Dropped)];
        assert_eq!(steps(&two, &torn, &[]), [PartStep::AskUndo(1, 2)]);
        assert_eq!(steps(&two, &[(1, Dropped), (2, Merged)], &[]), [PartStep::AskUndo(2, 1)]);
        let asked = |undo| {
            let half = LandedHalf { part: 1, asked: "9.000000".parse().unwrap(), undo, by: None };
            RequestSplit { halves: vec![half], ..two.clone() }
        };
        assert_eq!(steps(&asked(None), &torn, &[]), []);
        assert_eq!(steps(&asked(Some(false)), &torn, &[]), [PartStep::Finish]);
        let undo = steps(&asked(Some(true)), &torn, &[]);
        assert_eq!(undo, [PartStep::Undo(1), PartStep::Finish]);
        assert_eq!(steps(&asked(Some(true)), &torn, &[1]), [PartStep::Finish]);
    }

    #[test]
    fn what_depends_on_another_waits_for_its_merge() {
        let two = split(&[(Some("api"), &[]), (Some("web"), &[1])]);
        let unmet = |state: Option<ChildState>| {
            let thread = |state| PartThread { thread: "t".into(), state, pull: None, merged: None };
            let threads = state.map(|state| (1, thread(state))).into_iter().collect();
            let facts = SplitFacts { split: &two, repo: "shop", threads: &threads, undone: &[] };
            facts.unmet(&two.parts[1])
        };
        assert_eq!(unmet(None), [1]);
        assert_eq!(unmet(Some(Works)), [1]);
        assert_eq!(unmet(Some(Merged)), [0_u32; 0]);
        // People have been told, and decide.
        assert_eq!(unmet(Some(Dropped)), [0_u32; 0]);
    }
}
