//! Decides what an AgentRole's status says. Pure.

use std::sync::Arc;

use codebutler_crds::condition::{self, PARALLEL};
use codebutler_crds::names::LABEL_PROMPT;
use codebutler_crds::role::{SandboxKind, TOOLS, WorktreeAccess};
use codebutler_crds::wire::is_tool_pattern;
use codebutler_crds::{AgentRole, AgentRoleStatus};
use codebutler_runtime::notice::EventNotice;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;
use serde_json::{Value, json};

use crate::health::{HealthLevel, ObjectHealth};
use crate::spelling;

/// Characters that instructions may have, as in the schema.
const LONGEST: usize = 65_536;

/// Status and events to write for an AgentRole.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct RolePlan {
    /// The whole status, which nobody else writes.
    pub status: AgentRoleStatus,
    /// Events, once the status is written.
    pub notices: Vec<EventNotice>,
}

impl RolePlan {
    /// The merge patch that writes the status; nothing if it is written already.
    pub(super) fn patch(&self, before: Option<&AgentRoleStatus>) -> Option<Value> {
        (before != Some(&self.status)).then(|| {
            let mut patch = json!(self.status);
            // Said, so that one that was read before goes.
            patch["prompt"] = json!(self.status.prompt);
            patch
        })
    }
}

/// The instructions of `spec.promptFrom`, if it is used; `find` looks for a ConfigMap by name.
pub(super) fn read_prompt(
    role: &AgentRole,
    find: impl FnOnce(&str) -> Option<Arc<ConfigMap>>,
) -> Result<Option<String>, ObjectHealth> {
    let Some(source) = &role.spec.prompt_from else {
        return Ok(None);
    };
    let (name, key) = (&source.config_map, source.key());
    let stalled = |reason, message| Err(ObjectHealth::new(HealthLevel::Stalled, reason, message));
    let Some(map) = find(name) else {
        let message = format!(
            "spec.promptFrom: there is no ConfigMap `{name}` with the label `{LABEL_PROMPT}` in \
             this namespace: create or label it"
        );
        return stalled("PromptNotFound", message);
    };
    match map.data.as_ref().and_then(|data| data.get(key)) {
        None => {
            let message = format!("spec.promptFrom: ConfigMap `{name}` has no key `{key}`: add it");
            stalled("PromptNotFound", message)
        }
        Some(text) if text.chars().count() > LONGEST => {
            let message = format!(
                "spec.promptFrom: `{key}` of ConfigMap `{name}` is longer than {LONGEST} \
                 characters: shorten it"
            );
            stalled("PromptTooLong", message)
        }
        Some(text) => Ok(Some(text.clone())),
    }
}

/// Decides what to report on `role`, with the instructions that it reads, at `now`.
pub(super) fn plan_role(
    role: &AgentRole,
    prompt: Result<Option<String>, ObjectHealth>,
    now: Timestamp,
) -> RolePlan {
    let mut status = role.status.clone().unwrap_or_default();
    if role.metadata.deletion_timestamp.is_some() {
        return RolePlan { status, notices: Vec::new() };
    }
    let ready = ObjectHealth::new(HealthLevel::Ready, "Valid", "can be named by Repos");
    let (prompt, unread) = prompt.map_or_else(|unread| (None, Some(unread)), |read| (read, None));
    status.prompt = prompt;
    let wrong = unknown_tools(role).into_iter().chain(only_reads(role));
    let verdict = ObjectHealth::worst(wrong.chain(unread).collect(), ready);
    let verdicts = verdict.notice(&status.conditions);
    let generation = role.metadata.generation;
    let alone = one_by_one(role, &mut status, now);
    let old =
        spelling::tell_outdated(&role.spec.outdated(), &mut status.conditions, generation, now);
    let notices = verdicts.into_iter().chain(alone).chain(old).collect();
    verdict.write(&mut status.conditions, generation, now);
    status.observed_generation = generation;
    RolePlan { status, notices }
}

/// Says why a role that should answer several requests at once answers one after the other.
fn one_by_one(
    role: &AgentRole,
    status: &mut AgentRoleStatus,
    now: Timestamp,
) -> Option<EventNotice> {
    let wanted = role.spec.parallelism;
    if role.spec.at_once() >= wanted {
        condition::clear_condition(&mut status.conditions, PARALLEL);
        return None;
    }
    let changing = role.spec.changing().collect::<Vec<_>>().join(", ");
    let message = format!(
        "spec.parallelism: {wanted} has no effect, requests are answered one after the other: {changing} could \
         change the worktree under each other. Take these tools out of spec.tools, or set spec.parallelism to 1"
    );
    let (reason, generation) = ("ToolsChangeWorktree", role.metadata.generation);
    let known = status.conditions.iter().any(|c| c.type_ == PARALLEL && c.message == message);
    let at = Time(now);
    condition::set_condition(
        &mut status.conditions,
        PARALLEL,
        false,
        reason,
        &*message,
        generation,
        &at,
    );
    (!known).then_some(EventNotice { warning: true, reason, note: message })
}

fn unknown_tools(role: &AgentRole) -> Vec<ObjectHealth> {
    let allowed = role.spec.tools.allow.iter().enumerate();
    let unknown =
        allowed.filter(|(_, tool)| !TOOLS.contains(&tool.as_str()) && !is_tool_pattern(tool));
    let problem = |(i, tool): (usize, &String)| {
        let hint = if tool.to_ascii_lowercase().starts_with("mcp") {
            "tools of the Repo's servers are named `mcp__SERVER__TOOL`, with `*` for any, such as `mcp__sentry__*`"
                .to_owned()
        } else {
            format!("the tools are {}", TOOLS.join(", "))
        };
        let tool = codebutler_runtime::apply::shorten_text(tool, 60);
        let message = format!("spec.tools.allow[{i}]: there is no tool `{tool}`; {hint}");
        ObjectHealth::new(HealthLevel::Stalled, "UnknownTool", message)
    };
    unknown.map(problem).collect()
}

/// Whoever works in a copy of the worktree can't change the worktree.
fn only_reads(role: &AgentRole) -> Option<ObjectHealth> {
    let workspace = &role.spec.workspace;
    if *workspace.worktree != WorktreeAccess::ReadOnly {
        return None;
    }
    let changing = role.spec.changing().collect::<Vec<_>>().join(", ");
    let message = if !changing.is_empty() {
        format!(
            "spec.workspace.worktree: ReadOnly, but spec.tools has {changing}, which change the worktree: take \
             them out, or set ReadWrite"
        )
    } else if *workspace.sandbox == SandboxKind::Runtime {
        "spec.workspace.worktree: ReadOnly needs spec.workspace.sandbox: Landlock, which alone keeps commands \
         out of the worktree"
            .to_owned()
    } else {
        return None;
    };
    Some(ObjectHealth::new(HealthLevel::Stalled, "WorktreeReadOnly", message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn a_tool_that_does_not_exist_stalls_the_role_and_is_named() {
        let now = testing::now();
        let mut role = testing::role("coder");
        let fine = plan_role(&role, Ok(None), now);
        insta::assert_yaml_snapshot!("role_valid", fine);
        role.status = Some(fine.status.clone());
        let again = plan_role(&role, Ok(None), now);
        assert_eq!(again.patch(role.status.as_ref()), None, "nothing changed");

        role.spec.tools.allow.push("Teleport".to_owned());
        role.metadata.generation = Some(2);
        insta::assert_yaml_snapshot!("role_unknown_tool", plan_role(&role, Ok(None), now));
    }

    #[test]
    fn patterns_for_tools_of_servers_are_known_and_their_typing_errors_are_not() {
        let mut role = testing::role("coder");
        role.spec.tools.allow = vec!["Read".into(), "mcp__*".into(), "mcp__my-db__get_?".into()];
        assert_eq!(unknown_tools(&role), []);
        role.spec.tools.allow.push("mcp_sentry".into());
        let unknown = unknown_tools(&role);
        let [wrong] = &unknown[..] else { panic!("{unknown:?}") };
        let text = format!("{wrong:?}");
        assert!(text.contains("spec.tools.allow[3]: there is no tool `mcp_sentry`"), "{text}");
        assert!(text.contains("such as `mcp__sentry__*`"), "{text}");
    }

    #[test]
    fn a_role_that_changes_files_answers_one_by_one_and_says_why() {
        let now = testing::now();
        let mut role = testing::role("coder");
        role.spec.tools.allow = vec!["Read".into(), "Bash".into(), "GitPush".into()];
        role.spec.parallelism = 4;
        let plan = plan_role(&role, Ok(None), now);
        assert_eq!(role.spec.at_once(), 1);
        let found = plan.status.conditions.iter().find(|c| c.type_ == PARALLEL).unwrap();
        assert_eq!(
            (found.status.as_str(), found.reason.as_str()),
            ("False", "ToolsChangeWorktree")
        );
        assert!(found.message.contains("spec.parallelism: 4 has no effect"), "{found:?}");
        assert!(found.message.contains(": Bash, GitPush could change"), "{found:?}");
        assert_eq!(plan.notices.len(), 1, "{plan:?}");
        assert!(condition::is_true(&plan.status.conditions, "Ready"));

        role.status = Some(plan.status);
        let again = plan_role(&role, Ok(None), now);
        assert_eq!((again.patch(role.status.as_ref()), again.notices.len()), (None, 0));
        role.spec.tools.deny = vec!["Bash".into(), "GitPush".into()];
        let mended = plan_role(&role, Ok(None), now);
        assert_eq!(role.spec.at_once(), 4);
        assert!(!mended.status.conditions.iter().any(|c| c.type_ == PARALLEL));
    }

    #[test]
    fn instructions_are_read_from_a_config_map_or_what_is_missing_is_named() {
        let mut role = testing::role("coder");
        let source = json!({"configMap": "prompts", "key": "coder.md"});
        role.spec.prompt_from = serde_json::from_value(source).unwrap();
        let map = |data: Value| {
            let map = json!({"metadata": {"name": "prompts"}, "data": data});
            Some(Arc::new(serde_json::from_value::<ConfigMap>(map).unwrap()))
        };
        let read = |map: Option<Arc<ConfigMap>>| {
            let plan = plan_role(&role, read_prompt(&role, |_| map), testing::now());
            let stalled = plan.status.conditions.iter().find(|c| c.type_ == "Stalled").cloned();
            (plan.status.prompt, stalled.map(|c| (c.reason, c.message)))
        };
        assert_eq!(read(map(json!({"coder.md": "Be brief."}))), (Some("Be brief.".into()), None));
        for (map, reason, named) in [
            (None, "PromptNotFound", "ConfigMap `prompts` with the label"),
            (map(json!({"other.md": "x"})), "PromptNotFound", "no key `coder.md`"),
            (map(json!({"coder.md": "x".repeat(70_000)})), "PromptTooLong", "shorten it"),
        ] {
            let (prompt, stalled) = read(map);
            let (found, message) = stalled.unwrap();
            assert_eq!((prompt, found.as_str()), (None, reason));
            assert!(message.contains(named), "{message}");
        }
        role.status = Some(AgentRoleStatus { prompt: Some("old".into()), ..<_>::default() });
        let gone = plan_role(&role, read_prompt(&role, |_| None), testing::now());
        assert_eq!(gone.patch(role.status.as_ref()).unwrap()["prompt"], Value::Null);
        assert!(role.prompt().is_some() && role.spec.prompt.is_none());
    }
}
