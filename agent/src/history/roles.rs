//! The record of a role's work, wherever it was read. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::memory::find_ids;
use codebutler_guides::text::clip_text;

/// Activity of one role, for whoever looks back.
#[derive(Debug, Default)]
pub struct RoleHistory {
    pub runs: u32,
    pub turns: u32,
    pub tools: BTreeMap<String, u32>,
    /// Failures in order.
    pub troubles: Vec<String>,
    pub tests: Vec<String>,
    pub decisions: Vec<String>,
    /// Ids of learnings that it named to people.
    pub used: BTreeSet<String>,
}

/// One role's part in the work of all, for people.
#[derive(Debug, Default)]
pub struct RoleWork {
    pub models: BTreeMap<String, u32>,
    pub tools: BTreeMap<String, u32>,
    /// Milliseconds during which the role ran.
    pub millis: u64,
    /// Number of plans that it posted.
    pub plans: u32,
    /// Files that it changed and the plan did not name.
    pub beside: BTreeSet<String>,
    /// Messages in which each other role asked it for something.
    pub asked_by: BTreeMap<String, BTreeSet<String>>,
    /// Answers of people to plans, except for a yes.
    pub answers: Vec<String>,
}

impl RoleWork {
    /// Returns the number of answers of its models.
    pub fn turns(&self) -> u32 {
        self.models.values().sum()
    }
}

/// Ids in what an answer says to people: its words where it calls nothing, and its messages.
pub(super) fn find_spoken_ids<'a>(
    content: Option<&'a str>,
    calls: Vec<(String, &'a str)>,
) -> BTreeSet<String> {
    let said = content.filter(|_| calls.is_empty());
    let messages = calls.into_iter().filter(|(name, _)| name == "SendMessage");
    let texts = said.into_iter().chain(messages.map(|(_, arguments)| arguments));
    texts.flat_map(find_ids).map(str::to_owned).collect()
}

pub(super) fn first_line(text: &str) -> String {
    clip_text(text.lines().next().unwrap_or_default(), 200)
}

pub(super) fn count_noun(number: u32, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
