//! The conversations that the scripted model can play on the chat page, and its answer to everything else.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::json;

use codebutler_testbed::models::{
    CheckedPattern, ModelScript, OtherwiseAnswers, RoleScript, ScriptStep, ScriptedConversation,
};
use codebutler_testbed::scenario::{PlayableScenario, ScenarioAction, ScenarioError};
use codebutler_testbed::slack::ChatSuggestion;

/// Scenarios on one and the same repository, and what to call them. The first one's repository is
/// used.
const SAMPLES: [(&str, &str); 3] =
    [("bugfix", "Fix a bug"), ("decimal", "Build something"), ("hours", "Ask a question")];

const REAL: &str = "For anything else it takes real models: `OPENROUTER_API_KEY=… cargo demo -- --repo \
                    PATH` lets them work on a repository of yours.";

/// Scripts, and the words that start them.
#[derive(Debug)]
pub(super) struct SampleScripts {
    /// All scripts in one, each for its own conversation.
    pub script: ModelScript,
    /// Messages that start the samples, one for each.
    pub suggestions: Vec<ChatSuggestion>,
    /// Answers in all other conversations.
    pub otherwise: OtherwiseAnswers,
}

/// The sample tasks with the scenario whose repository they are about.
///
/// # Errors
/// When a file of the project is broken.
pub(super) fn load_samples() -> Result<(PlayableScenario, SampleScripts), ScenarioError> {
    let folder = Path::new(codebutler_testbed::FOLDER).join("scenarios");
    let mut scenarios = Vec::new();
    for (file, title) in SAMPLES {
        scenarios.push((PlayableScenario::load(&folder.join(format!("{file}.yaml")))?, title));
    }
    let mut script = ModelScript::default();
    let mut suggestions = Vec::new();
    for (scenario, title) in &scenarios {
        let Some(text) = first_words(scenario) else { continue };
        for (role, one) in &scenario.models.0 {
            let all = script.0.entry(role.clone()).or_insert_with(RoleScript::default);
            all.conversations.extend(one.conversations.iter().map(|conversation| {
                ScriptedConversation {
                    // Quoted line by line where a model reads it.
                    thread: Some(text.lines().next().unwrap_or_default().into()),
                    steps: conversation.steps.clone(),
                }
            }));
        }
        suggestions.push(ChatSuggestion {
            title: (*title).to_owned(),
            text: text.to_owned(),
            replies: later_words(scenario),
        });
    }
    let otherwise = OtherwiseAnswers { can: describe_samples(&suggestions) };
    let (mut first, _) = scenarios.swap_remove(0);
    for (scenario, _) in scenarios {
        first.users.extend(scenario.users);
        first.roles.extend(scenario.roles);
    }
    drop_doubles(&mut first.users);
    drop_doubles(&mut first.roles);
    Ok((first, SampleScripts { script, suggestions, otherwise }))
}

/// Script for a repository that nobody wrote one for: the model looks around, and admits the rest.
#[must_use]
pub(super) fn unknown_repository(name: &str) -> SampleScripts {
    let look = ScriptStep::tool("GitLog", json!({"limit": 1}))
        .and_tool("Glob", json!({"pattern": "**/*"}));
    let mut say = ScriptStep::say(&format!(
        "I am a scripted model: nobody wrote down what to answer about `{name}`, and I can't think. My \
         tools are real, though, so this much I can tell you from the worktree.\n\n\
         The newest commit: {{{{newest}}}}\n\nThe first files:\n```\n{{{{files}}}}\n```\n\n{REAL} \
         `--scenario FILE` together with `--repo` plays a conversation that you write yourself \
         (`tests/scenarios/README.md`)."
    ));
    let pattern = |text: &str| text.parse().ok().map(CheckedPattern);
    for (value, text) in [
        ("newest", r"\A([0-9a-f]{7,40} [^\n]*)\n"),
        ("files", r"\A[0-9a-f]{7,40} [^\n]*\n(?:\(older[^\n]*\n)?\n*((?:[^\n]+\n){0,11}[^\n]+)\n"),
    ] {
        say.capture.extend(pattern(text).map(|pattern| (value.to_owned(), pattern)));
    }
    SampleScripts {
        script: ModelScript::of("pm", vec![look, say]),
        suggestions: vec![ChatSuggestion {
            title: "Look around".to_owned(),
            text: format!("What is in {name}?"),
            replies: Vec::new(),
        }],
        otherwise: OtherwiseAnswers { can: REAL.to_owned() },
    }
}

/// First message of a scenario, which starts its conversation.
fn first_words(scenario: &PlayableScenario) -> Option<&str> {
    scenario.conversation.iter().find_map(|action| match action {
        ScenarioAction::Says { text, .. } => Some(text.as_str()),
        _ => None,
    })
}

/// Replies that people give later in a scenario.
fn later_words(scenario: &PlayableScenario) -> Vec<String> {
    let said = scenario.conversation.iter().filter_map(|action| match action {
        ScenarioAction::Replies { text, .. } => Some(text.clone()),
        _ => None,
    });
    said.collect()
}

fn describe_samples(suggestions: &[ChatSuggestion]) -> String {
    let mut text =
        "What I can play, on this repository (the page offers it under the messages; send it \
                    as a new message to the channel):\n"
            .to_owned();
    for ChatSuggestion { title, text: first, .. } in suggestions {
        let _ = writeln!(text, "- **{title}**: “{}”", first.replace('\n', " "));
    }
    let _ = write!(text, "\n{REAL}");
    text
}

fn drop_doubles(names: &mut Vec<String>) {
    let mut seen = std::collections::BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_is_offered_and_starts_a_script_of_its_own() {
        let (scenario, samples) = load_samples().unwrap();
        assert_eq!(samples.suggestions.len(), SAMPLES.len());
        assert_eq!(samples.script.0["pm"].conversations.len(), SAMPLES.len());
        let firsts = samples.suggestions.iter().map(|s| s.text.lines().next().unwrap());
        let mut firsts: Vec<&str> = firsts.collect();
        firsts.dedup();
        assert_eq!(firsts.len(), SAMPLES.len());
        assert_eq!(scenario.repository.name, "acme/timesheet");
        for suggestion in &samples.suggestions {
            assert!(samples.otherwise.can.contains(&suggestion.title));
        }
    }
}
