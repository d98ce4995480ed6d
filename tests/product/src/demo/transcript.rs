//! The thread as it happens, a line or a paragraph at a time.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use codebutler_testbed::scenario::{SeenMessage, SpectatorEvent};

/// Longest message that is shown whole.
const LONG: usize = 1200;

/// Turns what a spectator hears into lines.
#[derive(Debug, Default)]
pub(super) struct DemoTranscript {
    states: BTreeMap<String, String>,
}

impl DemoTranscript {
    /// Line that shows an event, if it is worth one.
    pub(super) fn line(&mut self, event: &SpectatorEvent) -> Option<String> {
        match event {
            SpectatorEvent::Message(message) => Some(show_message(message)),
            SpectatorEvent::Edited(message) if message.buttons.is_empty() => {
                let last = message.text.lines().last().unwrap_or_default();
                Some(format!("{:>12} ✎ {last}", message.from))
            }
            SpectatorEvent::Reacted { message, reaction } => {
                let to = message.text.lines().next().unwrap_or_default();
                let to: String = to.chars().take(40).collect();
                Some(format!("{:>12} :{}: on “{to}”", reaction.by, reaction.emoji))
            }
            SpectatorEvent::Thread { name, phase, role, state } => {
                let now = [state.as_str(), phase, role].join(" ");
                let before = self.states.insert(name.clone(), now.clone());
                (before.as_ref() != Some(&now)).then(|| format!("{:>12} {name}: {now}", "thread"))
            }
            SpectatorEvent::PullRequest { number, title, state, head } => {
                let head: String = head.chars().take(10).collect();
                let state = format!("{state:?}").to_lowercase();
                Some(format!("{:>12} #{number} {title} ({state}, {head})", "pull request"))
            }
            SpectatorEvent::ScriptFailure(failure) => Some(format!("{:>12} {failure}", "script")),
            SpectatorEvent::Step { .. } | SpectatorEvent::Edited(_) | SpectatorEvent::Pods(_) => {
                None
            }
        }
    }
}

fn show_message(message: &SeenMessage) -> String {
    let mut text: String = message.text.chars().take(LONG).collect();
    if text.len() < message.text.len() {
        text.push('…');
    }
    let mut lines = text.lines();
    let mut out = format!("{:>12} │ {}", message.from, lines.next().unwrap_or_default());
    for line in lines {
        let _ = write!(out, "\n{:>12} │ {line}", "");
    }
    if !message.buttons.is_empty() {
        let _ = write!(out, "\n{:>12} │ [{}]", "", message.buttons.join("]  ["));
    }
    out
}
