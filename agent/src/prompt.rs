//! What the model is told before the conversation: the role's guide, the project's knowledge, the
//! house rules and the facts, always in the same order, so that the provider's cache keeps hitting.

mod window;

use std::fmt::Write as _;

use codebutler_crds::wire::Session;
use serde_json::Value;

use crate::text::clip;
use crate::tools::args::{TodoItem, TodoState};

pub use window::{
    Look, Request, has_pictures, is_marked, limits, overlong, request, room, squeezed,
    summary_request, tokens, told,
};

/// Largest guide, in characters.
pub const MAX_GUIDE: usize = 48 * 1024;
const HOUSE: &str = include_str!("prompt/house.md");

/// The parts that come from files.
#[derive(Clone, Debug, Default)]
pub struct Guides {
    /// `<role>.md`
    pub role: Option<String>,
    /// `global.md`
    pub global: Option<String>,
    /// `workflows.md`, for the role that users talk to first.
    pub workflows: Option<String>,
    /// What there is in `skills/`, for the same.
    pub skills: Option<String>,
    /// How the worktree was set up.
    pub set_up: Option<String>,
}

/// The system prompt of a run.
pub fn system(guides: &Guides, session: &Session) -> String {
    let parts = [
        guides.role.as_deref(),
        guides.global.as_deref(),
        guides.workflows.as_deref(),
        guides.skills.as_deref(),
        session.prompt.as_deref(),
        Some(HOUSE),
    ];
    let mut out = String::new();
    for part in parts.into_iter().flatten().map(without_archive) {
        if !part.trim().is_empty() {
            let _ = writeln!(out, "{}\n", clip(part.trim(), MAX_GUIDE));
        }
    }
    let set_up = guides.set_up.as_ref().map(|fact| format!("- {fact}\n"));
    out + &facts(session) + &set_up.unwrap_or_default()
}

/// A guide without its section of archived learnings: those are history.
fn without_archive(guide: &str) -> String {
    let level = |line: &str| {
        let hashes = line.bytes().take_while(|byte| *byte == b'#').count();
        (hashes > 0 && line[hashes..].starts_with(' ')).then_some(hashes)
    };
    let mut archived = None;
    let mut kept = String::new();
    for line in guide.lines() {
        if let Some(level) = level(line) {
            if archived.is_some_and(|from| level <= from) {
                archived = None;
            }
            let title = line.trim_start_matches('#').trim();
            if title.eq_ignore_ascii_case("archived learnings") {
                archived = archived.or(Some(level));
            }
        }
        if archived.is_none() {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

/// The titles of a guide's sections.
pub fn sections(guide: &str) -> Vec<String> {
    let titles = without_archive(guide);
    let titles = titles.lines().filter_map(|line| line.strip_prefix("## "));
    titles.map(|title| clip(title.trim(), 60)).collect()
}

fn facts(session: &Session) -> String {
    let mut out = String::from("# Facts\n\n");
    let Session { namespace, thread, repo, role, branch, base_branch, .. } = session;
    let _ = writeln!(
        out,
        "- You are `{role}`, in conversation `{namespace}/{thread}` about the repository `{repo}`."
    );
    let _ = writeln!(out, "- Branch of this conversation: `{branch}`, made from `{base_branch}`.");
    let _ = writeln!(out, "- The team:");
    for card in &session.roles {
        let you = if card.role == *role { " (you)" } else { "" };
        let _ = writeln!(
            out,
            "  - `@codebutler.{}`{you}: {}. {}",
            card.role, card.name, card.description
        );
    }
    let plan = match &session.plan {
        None => "none was proposed yet".to_owned(),
        Some(plan) => match (&plan.approved_by, &plan.declined_by) {
            (Some(user), _) => format!("proposed by {} and approved by user {user}", plan.role),
            (None, Some(user)) => format!("proposed by {} and declined by user {user}", plan.role),
            (None, None) => format!("proposed by {}, not approved", plan.role),
        },
    };
    let _ = writeln!(out, "- Plan: {plan}.");
    let request = match &session.pull_request {
        None => "none yet".to_owned(),
        Some(request) => format!("#{}, {}", request.number, request.url),
    };
    let _ = writeln!(out, "- Pull request: {request}.");
    if let Some(test) = &session.test {
        let _ = writeln!(
            out,
            "- Test command: `{test}`. Run exactly this after your last change and before you push: people \
             are shown whether what is pushed was tested with it."
        );
    }
    out
}

/// What changes from run to run, for a message of its own: what stands before it stays cached.
pub fn changing_facts(_guides: &Guides, _session: &Session) -> String {
    String::new()
}

/// The words of a message.
pub fn text_of(message: &Value) -> &str {
    let parts = || message["content"].as_array()?.iter().find_map(|part| part["text"].as_str());
    message["content"].as_str().or_else(parts).unwrap_or_default()
}

/// The role's own list, if anything on it is left to do.
pub fn list(items: &[TodoItem]) -> Option<String> {
    if items.iter().all(|item| item.state == TodoState::Done) {
        return None;
    }
    let line = |item: &TodoItem| {
        let sign = match item.state {
            TodoState::Open => " ",
            TodoState::Doing => "~",
            TodoState::Done => "x",
        };
        format!("- [{sign}] {}", item.text)
    };
    let lines: Vec<_> = items.iter().map(line).collect();
    Some(format!("[CodeButler] Your list:\n{}", lines.join("\n")))
}

#[cfg(test)]
mod tests {
    use codebutler_crds::thread::{Plan, PullRequest};
    use codebutler_crds::wire::RoleCard;

    use super::*;

    fn session() -> Session {
        let card = |role: &str, name: &str, description: &str| RoleCard {
            role: role.into(),
            name: name.into(),
            description: description.into(),
        };
        Session {
            namespace: "team".into(),
            thread: "shop-1-000001".into(),
            repo: "shop".into(),
            role: "pm".into(),
            model: "m".into(),
            context_tokens: None,
            max_tokens: None,
            facts: std::collections::BTreeMap::default(),
            tools: vec![],
            max_turns: 50,
            timeout_seconds: 60,
            idle_timeout_seconds: 60,
            prompt: Some("Speak Spanish.".into()),
            roles: vec![card("pm", "PM", "Plans"), card("coder", "Coder", "Builds")],
            branch: "codebutler/shop-1-000001".into(),
            base_branch: "main".into(),
            base_commit: None,
            plan: None,
            pull_request: None,
            done: None,
            root: "1.000001".parse().unwrap(),
            usage: vec![],
            models: vec![],
            stronger: None,
            tool_overrides: std::collections::BTreeMap::default(),
            test: None,
            planned: vec![],
            complexity: None,
            setup: None,
            parallelism: 1,
        }
    }

    #[test]
    fn the_parts_come_in_one_order() {
        let guides = Guides {
            role: Some("# PM\nYou plan.\n".into()),
            global: Some("\n# Project\nRust.".into()),
            workflows: None,
            skills: None,
            set_up: Some("The worktree was set up.".into()),
        };
        let mut session = session();
        let prompt = system(&guides, &session);
        let (told, facts) = prompt.split_once("# Facts").unwrap();
        let order = [
            "# PM\nYou plan.\n\n",
            "# Project\nRust.\n\n",
            "Speak Spanish.\n\n",
            "# How you work here",
        ];
        let places: Vec<_> = order.iter().map(|part| told.find(part).unwrap()).collect();
        assert!(places.is_sorted(), "{told}");
        insta::assert_snapshot!(facts.trim(), @r"
        - You are `pm`, in conversation `team/shop-1-000001` about the repository `shop`.
        - Branch of this conversation: `codebutler/shop-1-000001`, made from `main`.
        - The team:
          - `@codebutler.pm` (you): PM. Plans
          - `@codebutler.coder`: Coder. Builds
        - Plan: none was proposed yet.
        - Pull request: none yet.
        - The worktree was set up.
        ");
        let hash = String::new();
        let ts = session.root.clone();
        let approved_by = Some("U1".into());
        session.plan = Some(Plan { ts, hash, role: "pm".into(), approved_by, declined_by: None });
        session.pull_request = Some(PullRequest {
            number: 7,
            url: "https://x/7".into(),
            merge_commit: None,
            state: None,
            seen: None,
        });
        let later = system(&guides, &session);
        assert!(later.contains(
            "- Plan: proposed by pm and approved by user U1.\n- Pull request: #7, https://x/7."
        ));
        let same = prompt.bytes().zip(later.bytes()).take_while(|(a, b)| a == b).count();
        assert!(same > prompt.find("- Plan").unwrap(), "only facts differ");
    }

    #[test]
    fn archived_learnings_are_left_out() {
        let guide = "# Coder\nBuild.\n## Archived Learnings\nOld.\n### One\nOld too.\n## Now\nNew.\n#archived\n";
        assert_eq!(without_archive(guide), "# Coder\nBuild.\n## Now\nNew.\n#archived\n");
        assert_eq!(without_archive("# A\n### archived learnings\nx\n# B\n"), "# A\n# B\n");
    }

    #[test]
    fn a_list_is_shown_while_something_is_left() {
        let item = |text: &str, state| TodoItem { text: text.into(), state };
        let mut items = vec![item("read", TodoState::Done), item("write", TodoState::Doing)];
        assert_eq!(list(&items).unwrap(), "[CodeButler] Your list:\n- [x] read\n- [~] write");
        items.pop();
        assert_eq!(list(&items), None);
    }
}
