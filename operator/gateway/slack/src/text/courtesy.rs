//! Words of thanks, in English, Spanish and German, and whether a conversation waits for more than that. Pure.

use codebutler_crds::ThreadStatus;
use codebutler_crds::thread::RoleState;
use codebutler_gateway_core::dispatch::asks_people;

/// Whole messages that ask for nothing.
const THANKS: &[&str] = &[
    "thanks",
    "thanks a lot",
    "thanks so much",
    "thanks again",
    "thanks all",
    "many thanks",
    "ok thanks",
    "okay thanks",
    "great thanks",
    "perfect thanks",
    "cool thanks",
    "nice thanks",
    "awesome thanks",
    "thank you",
    "thank you very much",
    "thank you so much",
    "great thank you",
    "perfect thank you",
    "thx",
    "ty",
    "cheers",
    "great work",
    "good work",
    "nice work",
    "great job",
    "good job",
    "nice job",
    "well done",
    "nice one",
    "awesome",
    "done",
    "all done",
    "gracias",
    "muchas gracias",
    "mil gracias",
    "ok gracias",
    "perfecto gracias",
    "genial gracias",
    "buen trabajo",
    "bien hecho",
    "hecho",
    "danke",
    "danke dir",
    "danke euch",
    "danke schön",
    "dankeschön",
    "vielen dank",
    "ok danke",
    "super danke",
    "perfekt danke",
    "gute arbeit",
    "gut gemacht",
    "erledigt",
];

/// True for a text that is thanks and nothing else, in small letters and without punctuation.
pub(crate) fn is_thanks(words: &str) -> bool {
    THANKS.contains(&words)
}

/// True if thanks can stand without an answer: somebody has spoken here, and waits for nothing.
pub(crate) fn needs_no_answer(status: &ThreadStatus) -> bool {
    let waits = |state| matches!(state, Some(RoleState::Waiting | RoleState::Failed));
    status.roles.values().any(|role| role.said.is_some())
        && !status.roles.values().any(|role| waits(role.state))
        && !asks_people(status)
}
