//! Decisions that a role may ask people for, and their arguments. The agent offers no others to its
//! model; what counts is here. Pure.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use codebutler_crds::AgentRole;
use codebutler_crds::wire::{AskedDecision, ErrorCode, PostMessage, RoleDecision};
use codebutler_guides::policy::shell::parse_commands;

use crate::api_error::ApiError;
use crate::dispatch::RepoTeam;

/// Programs that succeed whatever the state of the worktree is.
const SUCCEEDING: [&str; 6] = ["true", ":", "exit", "echo", "printf", "return"];
/// Words that stand before the program that a command runs.
const RUNNERS: [&str; 8] = ["env", "command", "builtin", "exec", "nice", "time", "sh", "bash"];

/// The decisions that the roles of a Repo may ask people for.
pub struct DecisionRights {
    team: RepoTeam,
    /// Rights that AgentRoles name themselves.
    given: BTreeMap<String, Vec<RoleDecision>>,
}

impl DecisionRights {
    /// Reads the rights of a Repo's roles, in its order.
    pub fn of<R: Borrow<AgentRole>>(roles: &[R]) -> Self {
        let given = roles.iter().filter_map(|role| {
            let spec = &role.borrow().spec;
            let given = spec.decisions.as_ref()?.iter().map(|decision| **decision);
            Some((spec.role.clone(), given.collect()))
        });
        Self { team: RepoTeam::of(roles), given: given.collect() }
    }

    /// Returns the decisions of one role: those that its AgentRole names, or else those of its
    /// place in the team.
    pub fn of_role(&self, role: &str) -> Vec<RoleDecision> {
        if let Some(given) = self.given.get(role) {
            return given.clone();
        }
        let plans = self.team.first() == Some(role);
        // Where no role closes conversations, the first role speaks for the team.
        let merges = self.team.leads.as_deref().or(self.team.first()) == Some(role);
        let of = |may: bool, decision| may.then_some(decision);
        let all = [
            of(plans, RoleDecision::Plan),
            of(merges, RoleDecision::Merge),
            of(plans || merges, RoleDecision::Choice),
        ];
        all.into_iter().flatten().collect()
    }
}

/// Refuses a decision that the role has no right to, or that nobody could take now. `open` is whether the
/// conversation has an open pull request, where that was asked.
///
/// # Errors
/// A sentence for the role: who may, or what to do first.
pub fn check_decision(
    rights: &DecisionRights,
    role: &str,
    message: &PostMessage,
    open: Option<bool>,
) -> Result<(), ApiError> {
    let own = rights.of_role(role);
    for wanted in wanted_decisions(message) {
        if !own.contains(&wanted) {
            return Err(ApiError::new(ErrorCode::Forbidden, refuse_decision(rights, wanted)));
        }
    }
    let plans = own.contains(&RoleDecision::Plan);
    if !plans
        && (message.test.is_some() || message.complexity.is_some() || !message.files.is_empty())
    {
        let what = "`test`, `complexity` and `files` belong to a plan";
        let text = format!("{what}: {}", refuse_decision(rights, RoleDecision::Plan));
        return Err(ApiError::new(ErrorCode::Forbidden, text));
    }
    if message.decision == Some(AskedDecision::Plan)
        && message.test.as_deref().is_some_and(always_succeeds)
    {
        let text = "`test` succeeds whatever was done: name the command whose success shows that the work is \
                    done, or leave it out";
        return Err(ApiError::new(ErrorCode::InvalidRequest, text));
    }
    if message.decision == Some(AskedDecision::Merge) && open == Some(false) {
        let text = "there is no open pull request to merge: open one first, or say in plain words that the work \
                    is done";
        return Err(ApiError::new(ErrorCode::InvalidRequest, text));
    }
    Ok(())
}

fn wanted_decisions(message: &PostMessage) -> impl Iterator<Item = RoleDecision> {
    let decision = message.decision.map(|decision| match decision {
        AskedDecision::Plan => RoleDecision::Plan,
        AskedDecision::Merge => RoleDecision::Merge,
    });
    decision.into_iter().chain((!message.choices.is_empty()).then_some(RoleDecision::Choice))
}

fn refuse_decision(rights: &DecisionRights, wanted: RoleDecision) -> String {
    let may: Vec<String> = rights
        .team
        .roles
        .iter()
        .filter(|role| rights.of_role(role).contains(&wanted))
        .map(|role| format!("@codebutler.{role}"))
        .collect();
    let what = match wanted {
        RoleDecision::Plan => "propose a plan",
        RoleDecision::Merge => "ask whether to merge",
        RoleDecision::Choice => "ask people to choose with buttons",
    };
    match &may[..] {
        [] => format!("no role of this team may {what}: say it in plain words"),
        _ => format!(
            "only {} may {what}: hand over what you have found, with a line that begins with that address",
            may.join(" or ")
        ),
    }
}

/// True for a test command that succeeds whatever was done: it is nothing but a success, or ends with one.
pub fn always_succeeds(command: &str) -> bool {
    let last = command.replace("&&", "\u{1}");
    let last = last.rsplit([';', '|', '&', '\n']).map(str::trim).find(|part| !part.is_empty());
    let last = last.unwrap_or_default().replace('\u{1}', "&&");
    is_success(command) || (last.trim() != command.trim() && is_success(&last))
}

/// True for a script that does nothing that could fail.
fn is_success(script: &str) -> bool {
    let script = script.trim().trim_end_matches(['}', ')', ';', ' ']);
    let script = script.trim_start_matches(['{', '(', ' ']);
    let Ok(commands) = parse_commands(script) else { return false };
    commands.iter().all(|command| {
        let mut words = command.words.iter().map(|word| word.as_deref().unwrap_or("?"));
        let program = words
            .by_ref()
            .map(base_name)
            .find(|word| !RUNNERS.contains(word) && !word.starts_with('-') && !word.contains('='));
        match program {
            Some("exit" | "return") => words.next().is_none_or(|code| code == "0"),
            Some(program) => SUCCEEDING.contains(&program) || is_quoted_success(program),
            None => true,
        }
    })
}

/// A script in quotes: `bash -c 'exit 0'`.
fn is_quoted_success(word: &str) -> bool {
    word.contains(' ') && is_success(word)
}

fn base_name(word: &str) -> &str {
    if word.contains(' ') { word } else { word.rsplit_once('/').map_or(word, |(_, name)| name) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn role(name: &str, tools: &[&str], decisions: Option<&[&str]>) -> AgentRole {
        let mut spec = json!({"role": name, "display": {"name": name, "icon": ":x:"},
            "model": {"default": "m"}, "tools": {"allow": tools}});
        if let Some(decisions) = decisions {
            spec["decisions"] = json!(decisions);
        }
        serde_json::from_value(json!({"apiVersion": "codebutler.dev/v1alpha1", "kind": "AgentRole",
            "metadata": {"name": name}, "spec": spec}))
        .unwrap()
    }

    fn team(researcher: Option<&[&str]>) -> DecisionRights {
        DecisionRights::of(&[
            role("pm", &["SendMessage"], None),
            role("coder", &["GitPush", "SendMessage"], None),
            role("lead", &["CloseThread", "SendMessage"], None),
            role("researcher", &["SendMessage"], researcher),
            role("artist", &["SendMessage"], None),
        ])
    }

    fn plan() -> PostMessage {
        PostMessage { decision: Some(AskedDecision::Plan), ..PostMessage::default() }
    }

    fn merge() -> PostMessage {
        PostMessage { decision: Some(AskedDecision::Merge), ..PostMessage::default() }
    }

    fn refusal(team: &DecisionRights, role: &str, message: &PostMessage) -> Option<String> {
        check_decision(team, role, message, Some(true)).err().map(|error| error.message)
    }

    #[test]
    fn each_decision_is_asked_for_by_who_may() {
        let team = team(None);
        assert_eq!(refusal(&team, "pm", &plan()), None);
        assert_eq!(refusal(&team, "lead", &merge()), None);
        for role in ["researcher", "artist", "coder", "lead"] {
            let said = refusal(&team, role, &plan()).unwrap();
            assert!(said.starts_with("only @codebutler.pm may propose a plan"), "{role}: {said}");
        }
        for role in ["researcher", "artist", "coder", "pm"] {
            let said = refusal(&team, role, &merge()).unwrap();
            assert!(said.starts_with("only @codebutler.lead may ask whether to merge"), "{said}");
        }
        let choice =
            PostMessage { choices: vec!["a".into(), "b".into()], ..PostMessage::default() };
        assert_eq!(refusal(&team, "pm", &choice), None);
        assert!(refusal(&team, "researcher", &choice).unwrap().contains("@codebutler.pm"));
        for role in ["researcher", "artist", "coder", "lead", "pm"] {
            assert_eq!(refusal(&team, role, &PostMessage::default()), None, "words are free");
        }
    }

    #[test]
    fn what_belongs_to_a_plan_is_refused_without_the_right_to_one() {
        let team = team(None);
        let tested = PostMessage { test: Some("make test".into()), ..PostMessage::default() };
        let named = PostMessage { files: vec!["a".into()], ..PostMessage::default() };
        for message in [tested, named] {
            assert!(refusal(&team, "researcher", &message).unwrap().contains("belong to a plan"));
            assert_eq!(refusal(&team, "pm", &message), None);
        }
    }

    #[test]
    fn a_team_says_itself_who_may() {
        let own = team(Some(&["plan"]));
        assert_eq!(refusal(&own, "researcher", &plan()), None);
        assert!(refusal(&own, "researcher", &merge()).is_some());
        let artist = refusal(&own, "artist", &plan()).unwrap();
        assert!(artist.contains("@codebutler.pm or @codebutler.researcher"), "{artist}");
        let alone = DecisionRights::of(&[role("solo", &["SendMessage"], None)]);
        assert_eq!(refusal(&alone, "solo", &merge()), None, "nobody else could");
        let none = DecisionRights::of(&[role("solo", &["SendMessage"], Some(&[]))]);
        assert!(refusal(&none, "solo", &plan()).unwrap().starts_with("no role of this team may"));
    }

    #[test]
    fn nothing_is_merged_without_a_pull_request() {
        let team = team(None);
        let error = check_decision(&team, "lead", &merge(), Some(false)).unwrap_err();
        assert!(error.message.contains("no open pull request"), "{}", error.message);
        check_decision(&team, "lead", &merge(), Some(true)).unwrap();
    }

    #[test]
    fn a_command_that_can_not_fail_is_no_test() {
        for command in [
            "true",
            ":",
            "exit 0",
            " exit ",
            "/bin/true",
            "bash -c true",
            "sh -c 'exit 0'",
            "(true)",
            "{ :; }",
            "true && true",
            "echo ok",
            "env A=1 true",
            "cargo test || true",
            "make; exit 0",
            "cargo test; true",
            "# nothing",
            "npm test || :",
            "A=1",
        ] {
            assert!(always_succeeds(command), "{command}");
            let plan = PostMessage { test: Some(command.into()), ..plan() };
            assert!(refusal(&team(None), "pm", &plan).is_some(), "{command}");
        }
        for command in [
            "cargo test",
            "make test",
            "exit 1",
            "false",
            "sh check.sh",
            "test -f a && true",
            "cargo test && echo ok",
            "! grep -q x a",
            "cd web && npm test",
            "bash -c 'cargo test'",
            "git diff --exit-code",
            "pytest -k 'a or b'",
            "[ -f a ]",
        ] {
            assert!(!always_succeeds(command), "{command}");
        }
    }
}
