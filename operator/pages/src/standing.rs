//! Corrects a summary by the Thread's current state, and describes it. Pure.

use crate::UserNames;
use crate::now::{LOST, ThreadNow};
use crate::summary::{ThreadSummary, TimeSpan};

impl ThreadSummary {
    /// Applies the Thread's current state, which takes precedence over its history.
    pub fn stand(&mut self, now: ThreadNow) {
        for span in &mut self.spans {
            if span.ended.is_none() && now.away.contains(&span.role) {
                (span.ended, span.what) = (Some(self.last.max(span.began)), LOST.to_owned());
                span.doing.clear();
            }
        }
        self.closed |= now.closed;
        // A history tells each state once: of one that is opened again it says that it is closed.
        if let (Some(pull), Some((number, state))) = (&mut self.pull, now.pull)
            && pull.number == number
        {
            state.clone_into(&mut pull.state);
        }
        self.people.extend(now.wait.iter().flat_map(|wait| wait.people.iter().cloned()));
        self.now = Some(now);
    }

    /// One of [`crate::STATES`].
    pub fn state(&self) -> &'static str {
        match &self.now {
            _ if self.closed => "done",
            None => self.told_state(),
            Some(now) => now.state().unwrap_or(match self.told_state() {
                "waiting for people" if self.has_failed() => "waiting for people",
                _ => "done",
            }),
        }
    }

    /// The reason for a wait, with those who can end it, and its start.
    pub fn pause(&self, names: &UserNames) -> Option<(String, u64)> {
        if matches!(self.state(), "running" | "done") {
            return None;
        }
        let wait = self.now.as_ref().and_then(|now| now.wait.as_ref());
        match wait {
            Some(wait) => Some((wait.words(names), wait.since)),
            None => self.told_pause().map(|(words, since)| (words.to_owned(), since)),
        }
    }

    /// Roles that are about to begin.
    pub fn beginning(&self) -> Vec<&str> {
        let Some(now) = self.now.as_ref().filter(|now| now.state() == Some("running")) else {
            return Vec::new();
        };
        let is_open = |role: &str| self.open_runs().any(|span| span.role == role);
        let roles = now.working.union(&now.starting).map(String::as_str);
        roles.filter(|role| !is_open(role)).collect()
    }

    /// Runs that stopped without an end.
    pub(crate) fn lost_runs(&self) -> impl Iterator<Item = &TimeSpan> {
        self.spans.iter().filter(|span| span.what == LOST && !span.role.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::now::{WaitCause, WaitNow};
    use codebutler_wire::history::{HistoryEvent, HistoryLine};

    fn line(at: u64, role: &str, event: HistoryEvent) -> HistoryLine {
        let (source, role) = ("gateway".to_owned(), Some(role.to_owned()));
        HistoryLine { v: 1, at, source, seq: None, key: None, role, run: None, event }
    }

    fn set(roles: &[&str]) -> BTreeSet<String> {
        roles.iter().map(|role| (*role).to_owned()).collect()
    }

    fn answer(deed: &str, people: &[&str]) -> WaitNow {
        let people = people.iter().map(|user| (*user).to_owned()).collect();
        WaitNow { cause: WaitCause::Answer(deed.to_owned()), people, since: 70 }
    }

    #[test]
    fn between_a_slot_and_the_first_run_a_thread_is_not_done() {
        let mut summary = ThreadSummary::default();
        let opened = HistoryEvent::Opened { repo: "r".into(), channel: "C".into(), by: None };
        summary.add(Some(&line(10, "", opened)));
        assert_eq!(summary.state(), "done", "as far as its history goes");
        summary.stand(ThreadNow { starting: set(&["pm"]), ..ThreadNow::default() });
        assert_eq!((summary.state(), summary.beginning()), ("running", vec!["pm"]));
        summary.stand(ThreadNow { closed: true, ..ThreadNow::default() });
        assert_eq!(summary.state(), "done");
    }

    #[test]
    fn a_role_whose_pod_is_lost_does_not_work() {
        let mut summary = ThreadSummary::default();
        summary.add(Some(&line(10, "pm", HistoryEvent::RunStarted)));
        summary.add(Some(&line(20, "pm", HistoryEvent::Todo { items: Vec::new() })));
        assert_eq!(summary.state(), "running");
        let mut here = summary.clone();
        here.stand(ThreadNow { working: set(&["pm"]), ..ThreadNow::default() });
        assert_eq!((here.state(), here.open_runs().count()), ("running", 1));
        let (starting, away) = (set(&["pm"]), set(&["pm"]));
        summary.stand(ThreadNow { starting, away, ..ThreadNow::default() });
        assert_eq!((summary.open_runs().count(), summary.lost_runs().count()), (0, 1));
        assert_eq!((summary.state(), summary.beginning()), ("running", vec!["pm"]));
    }

    #[test]
    fn a_pull_request_that_was_opened_again_is_open() {
        let pull = |number, state: &str| HistoryEvent::PullRequest {
            number,
            url: String::new(),
            state: state.to_owned(),
        };
        let mut summary = ThreadSummary::default();
        for (at, state) in [(10, "open"), (20, "closed")] {
            summary.add(Some(&line(at, "", pull(7, state))));
        }
        summary.stand(ThreadNow { pull: Some((6, "merged")), ..ThreadNow::default() });
        assert_eq!(summary.pull.as_ref().unwrap().state, "closed", "another one");
        summary.stand(ThreadNow { pull: Some((7, "open")), ..ThreadNow::default() });
        assert_eq!(summary.pull.as_ref().unwrap().state, "open");
    }

    #[test]
    fn a_wait_says_for_whom_and_for_what() {
        let names = [("U1", "Ana"), ("U2", "Ben"), ("U3", "Cia"), ("U4", "Dan"), ("U5", "Eva")];
        let names = names.map(|(user, name)| (user.to_owned(), name.to_owned())).into();
        let says = |people: &[&str]| {
            let mut summary = ThreadSummary::default();
            let wait = Some(answer("to approve the plan", people));
            summary.stand(ThreadNow { wait, ..ThreadNow::default() });
            assert_eq!(summary.state(), "waiting for people");
            assert!(people.iter().all(|user| summary.people.contains(*user)));
            summary.pause(&names)
        };
        for (people, words) in [
            (&["U1"][..], "waits for Ana to approve the plan"),
            (&["U1", "U2"], "waits for Ana or Ben to approve the plan"),
            (&["U1", "U2", "U3"], "waits for Ana, Ben or Cia to approve the plan"),
            (
                &["U1", "U2", "U3", "U4", "U5"],
                "waits for Ana, Ben, Cia or 2 others to approve the plan",
            ),
            (&["U9"], "waits for people to approve the plan"),
            (&[], "waits for people to approve the plan"),
        ] {
            assert_eq!(says(people), Some((words.to_owned(), 70)));
        }
        let mut budget = ThreadSummary::default();
        let people = vec!["U1".to_owned()];
        let wait = Some(WaitNow { cause: WaitCause::Budget, people, since: 5 });
        budget.stand(ThreadNow { wait, ..ThreadNow::default() });
        let words = "waits for Ana to raise the budget".to_owned();
        assert_eq!(budget.pause(&names), Some((words, 5)));
        let limit = |is_budget| {
            let mut summary = ThreadSummary::default();
            let cause = WaitCause::Limit { until: Some(3_600_000), is_budget };
            let wait = Some(WaitNow { cause, people: Vec::new(), since: 5 });
            summary.stand(ThreadNow { wait, ..ThreadNow::default() });
            (summary.state(), summary.pause(&names).unwrap().0)
        };
        let until = "waits until 1970-01-01 01:00 UTC";
        let used = format!("{until}: the budget of a person or a team is used up");
        assert_eq!(limit(true), ("waiting for people", used));
        assert_eq!(
            limit(false),
            ("queued", format!("{until}: the limit of model calls is reached"))
        );
    }
}
