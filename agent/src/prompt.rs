//! What the model is told before the conversation: the role's guide, the project's knowledge, the
//! house rules and the facts, always in the same order, so that the provider's cache keeps hitting.

use std::fmt::Write as _;

use codebutler_crds::wire::Session;
use serde_json::{Value, json};

use crate::text::clip;

/// Largest guide, in characters.
const MAX_GUIDE: usize = 48 * 1024;
/// Characters of conversation above which old tool results are hidden from the model.
const MAX_CHAT: usize = 600_000;
/// Old results are hidden in steps of this many characters: between steps the beginning of the
/// conversation stays as it is, and cached.
const HIDING_STEP: usize = 200_000;
/// Shorter results are never hidden.
const SHORT: usize = 500;
/// The newest messages are never touched.
const RECENT: usize = 12;

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
}

/// The system prompt of a run.
pub fn system(guides: &Guides, session: &Session) -> String {
    let parts = [
        guides.role.as_deref(),
        guides.global.as_deref(),
        guides.workflows.as_deref(),
        session.prompt.as_deref(),
        Some(HOUSE),
    ];
    let mut out = String::new();
    for part in parts.into_iter().flatten().filter(|part| !part.trim().is_empty()) {
        let _ = writeln!(out, "{}\n", clip(part.trim(), MAX_GUIDE));
    }
    out + &facts(session)
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
    out
}

/// The body of a model call.
pub fn request(model: &str, system: &str, chat: &[Value], tools: &[Value]) -> Value {
    let mut messages = vec![json!({"role": "system", "content": system})];
    messages.extend(fitted(chat, MAX_CHAT, HIDING_STEP));
    let mut body = json!({"model": model, "messages": messages});
    if !tools.is_empty() {
        body["tools"] = json!(tools);
        body["tool_choice"] = json!("auto");
    }
    body
}

/// The conversation with its oldest tool results hidden where it is too long. The record keeps
/// them.
fn fitted(chat: &[Value], max: usize, step: usize) -> Vec<Value> {
    let size = |message: &Value| message["content"].as_str().map_or(0, str::len);
    let total: usize = chat.iter().map(size).sum();
    let mut chat = chat.to_vec();
    let Some(over) = total.checked_sub(max).filter(|over| *over > 0) else { return chat };
    let mut to_hide = over.div_ceil(step) * step;
    let old = chat.len().saturating_sub(RECENT);
    for message in &mut chat[..old] {
        let length = size(message);
        if message["role"] == "tool" && length > SHORT {
            message["content"] = json!(format!(
                "[CodeButler] {length} characters of an old result are hidden: call the tool again."
            ));
            to_hide = to_hide.saturating_sub(length);
            if to_hide == 0 {
                break;
            }
        }
    }
    chat
}

#[cfg(test)]
mod tests {
    use codebutler_crds::thread::{Plan, PullRequest};
    use codebutler_crds::wire::RoleCard;

    use super::*;
    use crate::model;

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
        }
    }

    #[test]
    fn the_parts_come_in_one_order() {
        let guides = Guides {
            role: Some("# PM\nYou plan.\n".into()),
            global: Some("\n# Project\nRust.".into()),
            workflows: None,
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
    fn old_results_are_hidden_in_steps_and_recent_ones_kept() {
        let mut chat = vec![model::user(&"u".repeat(2000))];
        for n in 0..20 {
            chat.push(model::tool(&format!("c{n}"), &"x".repeat(1000)));
        }
        assert_eq!(fitted(&chat, 22_000, 4000), chat);
        let hidden = |max| {
            let fitted = fitted(&chat, max, 4000);
            assert_eq!(fitted[0], chat[0]);
            assert_eq!(fitted[9..], chat[9..]);
            fitted.iter().filter(|m| m["content"].as_str().unwrap().contains("hidden")).count()
        };
        assert_eq!(hidden(21_999), 4);
        assert_eq!(hidden(18_001), 4);
        assert_eq!(hidden(17_999), 8);
        assert_eq!(hidden(10), 8);
    }

    #[test]
    fn a_request_without_tools_names_none() {
        let body = request("m", "s", &[model::user("hi")], &[]);
        assert_eq!(
            body,
            json!({"model": "m", "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "hi"}]})
        );
        assert_eq!(request("m", "s", &[], &[json!({})])["tool_choice"], "auto");
    }
}
