//! Current state of a Thread, from its object: a history lacks what nobody has written down yet, such as
//! a pod that is gone. Pure.

use std::collections::BTreeSet;

use crate::UserNames;
use crate::moment::format_moment;

/// Outcome of a run whose end is not in the history.
pub(crate) const LOST: &str = "lost";
/// Maximum number of names in one line.
const NAMES: usize = 3;

/// Current state of a Thread, as its object has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadNow {
    pub closed: bool,
    /// Roles that are in a run now.
    pub working: BTreeSet<String>,
    /// Roles that have something to do and begin soon.
    pub starting: BTreeSet<String>,
    /// Roles without a pod: whatever they did has stopped.
    pub away: BTreeSet<String>,
    pub wait: Option<WaitNow>,
    /// Number and state of the pull request.
    pub pull: Option<(u64, &'static str)>,
}

/// A wait, with those who can end it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitNow {
    pub cause: WaitCause,
    /// Slack user ids of the people who are waited for.
    pub people: Vec<String>,
    /// Start of the wait, in milliseconds since 1970.
    pub since: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitCause {
    Slot,
    Budget,
    /// A limit that nobody raises in the thread.
    Limit {
        /// Time at which it gives way, in milliseconds since 1970.
        until: Option<u64>,
        /// It is a budget of a person or a team, else a number of calls.
        is_budget: bool,
    },
    /// An answer of people, in words such as `to approve the plan`.
    Answer(String),
    /// A failure that blocks all progress, with its reason.
    Trouble(String),
}

impl WaitNow {
    pub(crate) fn words(&self, names: &UserNames) -> String {
        let known: Vec<&str> =
            self.people.iter().filter_map(|user| names.get(user)).map(String::as_str).collect();
        let who = match known.as_slice() {
            [] => "people".to_owned(),
            [one] => (*one).to_owned(),
            [first @ .., last] if first.len() <= NAMES => format!("{} or {last}", first.join(", ")),
            many => format!("{} or {} others", many[..NAMES].join(", "), many.len() - NAMES),
        };
        match &self.cause {
            WaitCause::Slot => "waits for a free slot".to_owned(),
            WaitCause::Budget => format!("waits for {who} to raise the budget"),
            WaitCause::Limit { until, is_budget } => describe_limit(*until, *is_budget),
            WaitCause::Answer(deed) => format!("waits for {who} {deed}"),
            WaitCause::Trouble(why) => format!("can't go on: {why}"),
        }
    }
}

fn describe_limit(until: Option<u64>, is_budget: bool) -> String {
    let until = until.map(|at| format!(" until {}", format_moment(at, "%Y-%m-%d %H:%M UTC")));
    let until = until.unwrap_or_default();
    if is_budget {
        format!("waits{until}: the budget of a person or a team is used up")
    } else {
        format!("waits{until}: the limit of model calls is reached")
    }
}

impl ThreadNow {
    /// One of [`crate::STATES`]; none where the object says nothing of it.
    pub(crate) fn state(&self) -> Option<&'static str> {
        Some(match &self.wait {
            _ if self.closed => "done",
            _ if !self.working.is_empty() => "running",
            Some(WaitNow {
                cause: WaitCause::Slot | WaitCause::Limit { is_budget: false, .. },
                ..
            }) => "queued",
            Some(_) => "waiting for people",
            None if !self.starting.is_empty() => "running",
            None => return None,
        })
    }
}
