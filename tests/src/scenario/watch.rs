//! Changes between two observations of the world, for spectators of a scenario.

use super::evidence::{ObservedWorld, SeenMessage, SeenReaction};
use crate::github::{PullRequest, PullState};

/// Something that a spectator wants to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpectatorEvent {
    /// A step of the conversation begins.
    Step {
        /// Number of the step, from 1.
        number: usize,
        /// Number of all steps of the scenario.
        of: usize,
        /// The step's action in words.
        what: String,
    },
    /// A new message was posted.
    Message(SeenMessage),
    /// A message's text or buttons changed.
    Edited(SeenMessage),
    /// Somebody reacted to a message.
    Reacted {
        /// Message that the reaction is on.
        message: SeenMessage,
        /// Reaction that somebody added.
        reaction: SeenReaction,
    },
    /// A Thread's phase, role or state changed.
    Thread {
        /// Name of the Thread resource.
        name: String,
        /// Phase of the Thread, or the empty text.
        phase: String,
        /// The role that runs or ran last, or the empty text.
        role: String,
        /// `Active` or `Closed`, the Thread's state.
        state: String,
    },
    /// A pull request appeared or changed its state or head.
    PullRequest {
        /// Number of the pull request.
        number: u64,
        /// Title of the pull request.
        title: String,
        /// State: open, closed or merged.
        state: PullState,
        /// Object id of the head commit.
        head: String,
    },
    /// The agent pods that are there changed.
    Pods(Vec<String>),
    /// The conversation left the models' script.
    ScriptFailure(String),
}

/// Compares two observations and lists what changed.
pub(super) fn find_changes(before: &ObservedWorld, after: &ObservedWorld) -> Vec<SpectatorEvent> {
    let mut events = Vec::new();
    for message in &after.messages {
        let same = |m: &&SeenMessage| m.ts == message.ts && m.conversation == message.conversation;
        let known = before.messages.iter().find(same);
        match known {
            None => events.push(SpectatorEvent::Message(message.clone())),
            Some(old) if old.text != message.text || old.buttons != message.buttons => {
                events.push(SpectatorEvent::Edited(message.clone()));
            }
            Some(_) => {}
        }
        let had = known.map(|m| m.reactions.as_slice()).unwrap_or_default();
        for reaction in message.reactions.iter().filter(|r| !had.contains(r)) {
            let (message, reaction) = (message.clone(), reaction.clone());
            events.push(SpectatorEvent::Reacted { message, reaction });
        }
    }
    let known: Vec<SpectatorEvent> = before.threads.iter().map(thread_event).collect();
    events.extend(after.threads.iter().map(thread_event).filter(|e| !known.contains(e)));
    let known: Vec<SpectatorEvent> = before.pull_requests.iter().map(pull_event).collect();
    events.extend(after.pull_requests.iter().map(pull_event).filter(|e| !known.contains(e)));
    if before.pods != after.pods {
        events.push(SpectatorEvent::Pods(after.pods.clone()));
    }
    let new = after.script_failures.iter().filter(|f| !before.script_failures.contains(f));
    events.extend(new.cloned().map(SpectatorEvent::ScriptFailure));
    events
}

fn thread_event(thread: &serde_json::Value) -> SpectatorEvent {
    let text = |pointer: &str| {
        let value = thread.pointer(pointer).and_then(serde_json::Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    SpectatorEvent::Thread {
        name: text("/metadata/name"),
        phase: text("/status/phase"),
        role: text("/status/activeRole"),
        state: Some(text("/spec/state")).filter(|s| !s.is_empty()).unwrap_or("Active".to_owned()),
    }
}

fn pull_event(pull: &PullRequest) -> SpectatorEvent {
    SpectatorEvent::PullRequest {
        number: pull.number,
        title: pull.title.clone(),
        state: pull.state,
        head: pull.head_sha.clone(),
    }
}
