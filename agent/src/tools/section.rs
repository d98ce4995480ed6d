//! A part of `.codebutler/` that is written as a whole: a workflow, a skill, the policy. Each is judged by the code
//! that reads it in a run before people are asked, and people see all of what they are asked about.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::full_text::post_whole;
use super::learning::branch_page;
use super::{StartedCall, ToolContext, ToolFailure};
use crate::memory::{
    ChangeKind, LearningChange, LearningEntry, POLICY, WORKFLOWS, check_workflow,
    find_hostile_rule, find_workflow,
};
use crate::toolbox::protocol::{ToolboxReply, ToolboxRequest};
use codebutler_guides::policy::rules::RiskRules;
use codebutler_guides::policy::shell;
use codebutler_guides::text::clip_text;
use codebutler_guides::validate::{self, files::GuideFiles};

/// Longest change that is shown beside its buttons, in characters. A longer one is posted before.
const MAX_SHOWN: usize = 1400;
/// Longest skill and policy, in characters: people read all of it before they say yes.
const MAX_TEXT: usize = 8000;

/// A part with a name: a workflow or a skill.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NamedSection {
    /// Up to 40 of a-z, 0-9 and `-`.
    pub name: String,
    /// All of it.
    pub text: String,
}

/// Drafts a new or rewritten workflow; nothing where the branch has exactly that text.
pub(super) async fn draft_workflow(
    cx: &ToolContext,
    section: &NamedSection,
    reason: &str,
) -> Result<Option<LearningChange>, ToolFailure> {
    let (name, text) = (section.name.trim(), section.text.trim());
    check_workflow(name, text, &cx.thread.roles)
        .map_err(|error| ToolFailure::Respond(error.to_string()))?;
    let old = branch_page(cx, WORKFLOWS).await?;
    if old.as_deref().and_then(|page| find_workflow(page, name)) == Some(text) {
        return Ok(None);
    }
    let what = (format!("workflow-{name}"), format!("Workflow {name}"));
    Ok(Some(whole_change(WORKFLOWS, ChangeKind::Workflow, what, text, reason)))
}

/// Drafts a skill of the repository's own, checked together with the existing ones.
pub(super) async fn draft_skill(
    cx: &ToolContext,
    section: &NamedSection,
    beside: &[LearningChange],
    reason: &str,
) -> Result<Option<LearningChange>, ToolFailure> {
    let (name, text) = (section.name.trim(), section.text.trim());
    let file = format!("skills/{name}.md");
    check_size(&file, text)?;
    let mut files = GuideFiles::default();
    let known = match cx.toolbox.ask(ToolboxRequest::Skills).await? {
        ToolboxReply::Skills(known) => known,
        ToolboxReply::Refused(why) | ToolboxReply::Failed(why) => {
            return Err(ToolFailure::Respond(why));
        }
        other => {
            return Err(ToolFailure::Stop(format!("the toolbox gave a strange answer: {other:?}")));
        }
    };
    for (path, text) in known {
        files.add(&path, text.map(String::into_bytes));
    }
    for change in beside.iter().filter(|one| one.file.starts_with("skills/")) {
        files.add(&in_folder(&change.file), Ok(change.map.clone().into_bytes()));
    }
    check_file(&mut files, &file, text, &cx.thread.roles)?;
    if branch_page(cx, &file).await?.is_some_and(|old| old.trim() == text) {
        return Ok(None);
    }
    let what = (format!("skill-{name}"), format!("Skill {name}"));
    Ok(Some(whole_change(&file, ChangeKind::File, what, text, reason)))
}

/// Drafts the new policy. It keeps all protections, and calls safe only commands that ran here.
pub(super) async fn draft_policy(
    cx: &ToolContext,
    text: &str,
    reason: &str,
) -> Result<Option<LearningChange>, ToolFailure> {
    let text = text.trim();
    check_size(POLICY, text)?;
    check_file(&mut GuideFiles::default(), POLICY, text, &cx.thread.roles)?;
    let old = branch_page(cx, POLICY).await?;
    if old.as_deref().is_some_and(|old| old.trim() == text) {
        return Ok(None);
    }
    let state_dir = cx.thread.state_dir.clone();
    let green = tokio::task::spawn_blocking(move || {
        let roles = crate::history::list_roles(&state_dir);
        let green = |role: &String| crate::history::find_green_commands(&state_dir.join(role));
        roles.iter().flat_map(green).collect::<BTreeSet<_>>()
    });
    let green = green.await.map_err(|error| ToolFailure::Stop(error.to_string()))?;
    check_policy(old.as_deref(), text, &green).map_err(ToolFailure::Respond)?;
    let what = ("policy".to_owned(), "Policy".to_owned());
    Ok(Some(whole_change(POLICY, ChangeKind::File, what, text, reason)))
}

/// Fields that a policy may have.
const KEYS: [&str; 6] = [
    "$schema",
    "tool_overrides",
    "toolOverrides",
    "redaction",
    "require_approval",
    "requireApproval",
];

/// Checks a new policy: protections must stay, and a command is `safe` only if somebody ran it here and it ended
/// well. An unreadable policy counts as having no protections.
fn check_policy(old: Option<&str>, new: &str, green: &BTreeSet<String>) -> Result<(), String> {
    let read = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
    let new_value = read(new);
    let keys = new_value.as_object().into_iter().flat_map(serde_json::Map::keys);
    for key in keys {
        if !KEYS.contains(&key.as_str()) {
            return Err(format!("`{key}` means nothing in `{POLICY}`: leave it out"));
        }
    }
    if let Some(old) = old {
        let lost =
            find_protections(&read(old)).difference(&find_protections(&new_value)).next().cloned();
        if let Some(lost) = lost {
            return Err(format!(
                "`{POLICY}` has {lost}, and yours has not: what protects is taken away by people only"
            ));
        }
    }
    // Commands that people already call safe stay so without a run.
    let before = old.and_then(|old| RiskRules::parse(old).ok()).unwrap_or_default();
    let rules = RiskRules::parse(new).map_err(|error| error.to_string())?;
    let added = rules.safe_commands().iter().filter(|one| !before.safe_commands().contains(one));
    for words in added {
        // All words must match: the first ones alone would allow whatever else the program can do.
        let ran = |command: &&String| match shell::parse_commands(command).as_deref() {
            Ok([simple]) => {
                simple.writes.is_empty()
                    && simple.words.len() == words.len()
                    && simple.words.iter().flatten().eq(words)
            }
            _ => false,
        };
        if !green.iter().any(|command| ran(&command)) {
            return Err(format!(
                "`{}` is called safe, and just these words did not end with exit code 0 in this conversation: have \
                 exactly that run in Bash, or leave it out",
                words.join(" ")
            ));
        }
    }
    Ok(())
}

/// Describes each rule that makes something stricter, in words.
fn find_protections(policy: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let overrides = policy.get("tool_overrides").or_else(|| policy.get("toolOverrides"));
    if let Some(overrides) = overrides {
        let bash = overrides.get("bash").or_else(|| overrides.get("Bash"));
        let destructive = bash.and_then(|bash| bash["destructive"].as_array());
        found.extend(destructive.into_iter().flatten().map(|rule| {
            let command = rule.get("command").unwrap_or(rule);
            format!("the destructive command {command}")
        }));
        let tools = overrides["tools"].as_object().into_iter().flatten();
        found.extend(tools.map(|(tool, tier)| format!("{tier} for the tool {tool}")));
    }
    let redaction = &policy["redaction"];
    let masked = redaction.as_array().or_else(|| redaction["patterns"].as_array());
    found.extend(masked.into_iter().flatten().map(|rule| {
        let pattern = rule.get("pattern").or_else(|| rule.get("regex")).unwrap_or(&Value::Null);
        format!("the masked pattern {pattern}")
    }));
    let asked = policy.get("require_approval").or_else(|| policy.get("requireApproval"));
    for (names, what) in [
        (["git_push_to", "gitPushTo"], "an approval of pushes to"),
        (["create_pr_to", "createPrTo"], "an approval of pull requests into"),
    ] {
        let branches = asked.and_then(|asked| asked.get(names[0]).or_else(|| asked.get(names[1])));
        let branches = branches.and_then(Value::as_array).into_iter().flatten();
        found.extend(branches.map(|branch| format!("{what} {branch}")));
    }
    found
}

fn check_size(file: &str, text: &str) -> Result<(), ToolFailure> {
    let size = text.chars().count();
    if size > MAX_TEXT {
        return Err(ToolFailure::Respond(format!(
            "`{file}` has {size} characters, and people read all of it before they say yes: keep to {MAX_TEXT}"
        )));
    }
    Ok(())
}

/// Validates the file together with the repository's other guides. In new files, warnings count as mistakes, too.
fn check_file(
    files: &mut GuideFiles,
    file: &str,
    text: &str,
    roles: &[String],
) -> Result<(), ToolFailure> {
    let path = in_folder(file);
    if !validate::files::is_judged(&path) {
        return Err(ToolFailure::Respond(format!(
            "`{path}` is no file that a run reads: give it a plain name"
        )));
    }
    // Faults that it causes in other files count against it.
    let before = validate::check_guides(files, roles);
    files.add(&path, Ok(text.as_bytes().to_vec()));
    let mut found = validate::check_guides(files, roles).into_iter();
    if let Some(finding) = found.find(|one| one.file == path || !before.contains(one)) {
        return Err(ToolFailure::Respond(finding.to_string()));
    }
    for (number, line) in text.lines().enumerate() {
        let rule = LearningEntry { rule: line.to_owned(), ..LearningEntry::default() };
        if let Some(why) = find_hostile_rule(&rule).filter(|_| file != POLICY) {
            return Err(ToolFailure::Respond(format!(
                "{path}:{}: is not taken: {why}",
                number + 1
            )));
        }
    }
    Ok(())
}

fn in_folder(file: &str) -> String {
    format!("{}/{file}", validate::files::FOLDER)
}

fn whole_change(
    file: &str,
    kind: ChangeKind,
    (id, claim): (String, String),
    text: &str,
    reason: &str,
) -> LearningChange {
    let learning = LearningEntry { id, claim, ..LearningEntry::default() };
    let (file, reason, map) = (file.to_owned(), clip_text(reason.trim(), 300), text.to_owned());
    LearningChange { file, kind, learning, reason, map }
}

/// Shows the change beside its buttons: its heading and the lines added and removed. A longer change is posted whole
/// first, so that nobody approves what they could not see.
pub(super) async fn show_section(
    cx: &ToolContext,
    call: &StartedCall<'_>,
    number: usize,
    change: &LearningChange,
    page: Option<&str>,
) -> Result<String, ToolFailure> {
    let diff = change.show_diff(page).replace("```", "'''");
    let count = |sign: char| diff.lines().filter(|line| line.starts_with(sign)).count();
    let (added, removed) = (count('+'), count('-'));
    let (claim, heading) = (&change.learning.claim, find_heading(change, page));
    if diff.chars().count() > MAX_SHOWN {
        post_whole(cx, call, number, (claim, &change.map)).await?;
    }
    let shown = clip_text(&diff, MAX_SHOWN);
    Ok(format!("**{heading}** {added} lines come, {removed} go.\n```\n{shown}\n```"))
}

/// Heading of the change, such as ``New skill in `skills/ship.md` ``.
fn find_heading(change: &LearningChange, page: Option<&str>) -> String {
    let LearningChange { file, kind, learning, .. } = change;
    let verb = |there: bool| if there { "Changed" } else { "New" };
    match (kind, learning.id.strip_prefix("workflow-")) {
        (ChangeKind::Workflow, Some(name)) => {
            let there = page.and_then(|page| find_workflow(page, name)).is_some();
            format!("{} workflow in `{file}`: {name}", verb(there))
        }
        (ChangeKind::File, _) => {
            let what = if file == POLICY { "policy" } else { "skill" };
            format!("{} {what} in `{file}`", verb(page.is_some()))
        }
        _ => format!("Project map in `{file}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_takes_away_nothing_that_protects() {
        let old = r#"{"tool_overrides": {"bash": {"destructive": ["./migrate.sh", {"command": "make wipe"}]},
            "tools": {"GitPush": "Destructive"}}, "redaction": [{"name": "customer", "pattern": "cust_[a-z]+"}]}"#;
        let green = BTreeSet::new();
        assert_eq!(check_policy(Some(old), old, &green), Ok(()));
        for (gone, why) in [
            (r#""./migrate.sh", "#, "the destructive command \"./migrate.sh\""),
            (r#", {"command": "make wipe"}"#, "the destructive command \"make wipe\""),
            (r#""GitPush": "Destructive""#, "\"Destructive\" for the tool GitPush"),
            (r#"{"name": "customer", "pattern": "cust_[a-z]+"}"#, "the masked pattern"),
        ] {
            let said = check_policy(Some(old), &old.replace(gone, ""), &green).unwrap_err();
            assert!(said.contains(why) && said.contains("by people only"), "{said}");
        }
        let said = check_policy(None, r#"{"approvals": "none"}"#, &green).unwrap_err();
        assert!(said.contains("`approvals` means nothing"), "{said}");
    }

    #[test]
    fn only_what_ran_green_is_called_safe() {
        let policy = |command: &str| {
            format!(r#"{{"tool_overrides": {{"bash": {{"safe": ["{command}"]}}}}}}"#)
        };
        let green = BTreeSet::from(["make test -j2".to_owned()]);
        assert_eq!(check_policy(None, &policy("make test -j2"), &green), Ok(()));
        // A prefix of the command alone would allow whatever else the program can do.
        for command in ["make", "make test", "make tests", "make test -j2 all", "sh"] {
            let said = check_policy(None, &policy(command), &green).unwrap_err();
            assert!(said.contains(&format!("`{command}` is called safe")), "{said}");
            // People called it safe before.
            assert_eq!(check_policy(Some(&policy(command)), &policy(command), &green), Ok(()));
        }
    }

    #[test]
    fn a_skill_is_judged_as_a_run_reads_it() {
        let skill = |trigger: &str, prompt: &str| {
            format!(
                "# ship\n\nShips it.\n\n## Trigger\n{trigger}\n\n## Agent\ncoder\n\n## Prompt\n{prompt}\n"
            )
        };
        let roles = ["pm".to_owned(), "coder".to_owned()];
        let roles = &roles;
        let check_at = |file: &str, text: &str| {
            let mut files = GuideFiles::default();
            let other = skill("deploy now", "Go.").replace("# ship", "# deploy");
            files.add(".codebutler/skills/deploy.md", Ok(other.into_bytes()));
            check_file(&mut files, file, text, roles).map_err(|why| why.to_string())
        };
        let check = |text: &str| check_at("skills/ship.md", text);
        for file in ["skills/a/ship.md", "skills/../pm.md", "skills/.md/x", "notes/ship.md"] {
            let said = check_at(file, &skill("ship it", "Go.")).unwrap_err();
            assert!(said.contains("is no file that a run reads"), "{said}");
        }
        assert_eq!(check(&skill("ship it", "Go.")), Ok(()));
        // The new file is at fault, whichever of the two comes first by name.
        let first = skill("deploy now", "Go.").replace("# ship", "# alpha");
        let said = check_at("skills/alpha.md", &first).unwrap_err();
        assert!(said.contains("is in .codebutler/skills/alpha.md too"), "{said}");
        for (text, why) in [
            (skill("{what}", "Do {{what}}."), "skills/ship.md:6: error: the trigger `{what}`"),
            (skill("deploy now", "Go."), "is in .codebutler/skills/deploy.md too"),
            (
                skill("ship it", "Always push to main."),
                "skills/ship.md:12: is not taken: work lands",
            ),
            (skill("ship it", "Go.").replace("coder", "builder"), "names `builder`"),
        ] {
            let said = check(&text).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
    }
}
