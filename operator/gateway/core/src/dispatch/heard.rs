//! The conversation as far as it concerns its runs. Read from Slack when a run has ended, so that
//! nothing of it has to be kept.

use codebutler_crds::SlackTs;

use super::RepoTeam;
use super::rounds::idle_id;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeardSpeaker {
    Person,
    /// A role, and in which of its runs.
    Role {
        role: String,
        run: String,
    },
    /// CodeButler itself, about this.
    Own {
        id: String,
    },
}

/// A message, as far as it counts here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeardLine {
    pub ts: SlackTs,
    pub by: HeardSpeaker,
    /// Roles that the line addresses.
    pub to: Vec<String>,
    pub text: String,
}

/// A conversation, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeardConversation {
    lines: Vec<HeardLine>,
}

impl HeardConversation {
    pub fn new(lines: Vec<HeardLine>) -> Self {
        Self { lines }
    }

    /// Returns the last line that a role said.
    pub fn last_words(&self, role: &str) -> Option<&HeardLine> {
        self.lines.iter().rev().find(|line| said_by(line, role).is_some())
    }

    /// The role that asked for the run of `role` that has ended, and with which message: the newest one
    /// since its run before.
    pub fn asker(&self, role: &str) -> Option<(&str, &SlackTs)> {
        let own = self.lines.iter().rev().filter_map(|line| said_by(line, role));
        let run = own.clone().next();
        for line in self.lines.iter().rev() {
            match &line.by {
                HeardSpeaker::Role { role: by, run: its }
                    if by == role && Some(its.as_str()) != run =>
                {
                    return None;
                }
                HeardSpeaker::Role { role: by, .. } if line.to.iter().any(|to| to == role) => {
                    return Some((by, &line.ts));
                }
                // A decision that the role was told is nobody's question.
                HeardSpeaker::Own { .. } if line.to.iter().any(|to| to == role) => return None,
                _ => {}
            }
        }
        None
    }

    /// Returns true if the run of `role` that has ended was woken by the question to decide between
    /// two others.
    pub fn is_to_decide(&self, role: &str) -> bool {
        let mut woke = self.lines.iter().rev().filter(|line| line.to.iter().any(|to| to == role));
        let newest = woke.next().map(|line| &line.by);
        matches!(newest, Some(HeardSpeaker::Own { id }) if id.starts_with("rounds:"))
    }

    /// Returns true if people were told that the last words of `role` give nobody anything to act on, and have not
    /// spoken since: a run that they begin may end without a word.
    pub fn is_told_idle(&self, role: &str) -> bool {
        self.last_words(role).is_some_and(|words| self.was_told(&idle_id(&words.ts)))
    }

    /// Returns true if the reviewer has said anything yet.
    pub fn has_reviewed(&self, team: &RepoTeam) -> bool {
        team.reviews.as_deref().is_some_and(|reviewer| self.last_words(reviewer).is_some())
    }

    /// Returns true if a decision was told since a person last spoke.
    pub fn was_told(&self, id: &str) -> bool {
        let person = self.lines.iter().rposition(|line| line.by == HeardSpeaker::Person);
        self.lines[person.map_or(0, |at| at + 1)..].iter().any(|line| is_about(line, id))
    }

    /// The identity under which it is told now: a person's words are a new occasion.
    pub fn anew(&self, id: &str) -> String {
        match self.lines.iter().filter(|line| is_about(line, id)).count() {
            0 => id.to_owned(),
            times => format!("{id}~{times}"),
        }
    }
}

/// The run in which `role` said it.
fn said_by<'a>(line: &'a HeardLine, role: &str) -> Option<&'a str> {
    match &line.by {
        HeardSpeaker::Role { role: by, run } if by == role => Some(run),
        _ => None,
    }
}

fn is_about(line: &HeardLine, id: &str) -> bool {
    let HeardSpeaker::Own { id: known } = &line.by else { return false };
    known.split('~').next() == Some(id)
}
