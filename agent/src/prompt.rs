//! What the model is told before the conversation: the role's guide, the project's knowledge, the
//! house rules and the facts, always in the same order, so that the provider's cache keeps hitting.

use std::fmt::Write as _;

use codebutler_crds::wire::Session;
use serde_json::{Value, json};

use crate::text::clip;
use crate::tools::args::{TodoItem, TodoState};

/// Largest guide, in characters.
pub const MAX_GUIDE: usize = 48 * 1024;
/// Characters that count as a token: less than in most texts, so that estimates are on the safe side.
const PER_TOKEN: usize = 3;
/// Tokens that the model can be shown where nobody says.
const DEFAULT_CONTEXT: u32 = 128_000;
/// Tokens that are left for the answer.
const ANSWER: usize = 16_000;
/// Least room for a conversation, in characters, however long the instructions are.
const LEAST_ROOM: usize = 8_000;
/// What a picture counts as, in characters.
const PICTURE: usize = 4_000;
/// Newest pictures that the model is shown again with each answer.
const PICTURES: usize = 4;
/// Characters of a message in what a summary is made from, where even that is too long.
const SQUEEZED: usize = 2_000;
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

/// The body of a model call; `room` is what the conversation may take, in characters.
pub fn request(model: &str, system: &str, chat: &[Value], tools: &[Value], room: usize) -> Value {
    let mut messages = vec![json!({"role": "system", "content": system})];
    messages.extend(fitted(chat, room, room / 3));
    let mut body = json!({"model": model, "messages": messages});
    if !tools.is_empty() {
        body["tools"] = json!(tools);
        body["tool_choice"] = json!("auto");
    }
    body
}

/// Characters of conversation that fit beside instructions and tools.
pub fn room(context_tokens: Option<u32>, system: &str, tools: &[Value]) -> usize {
    let context = context_tokens.unwrap_or(DEFAULT_CONTEXT) as usize;
    let answer = ANSWER.min(context / 4);
    let told = system.len() + tools.iter().map(|tool| tool.to_string().len()).sum::<usize>();
    (context - answer).saturating_mul(PER_TOKEN).saturating_sub(told).max(LEAST_ROOM)
}

/// Where the older part of the conversation ends, if all of it is too long even with old results
/// hidden. What is kept begins with no result of a call before it.
pub fn overlong(chat: &[Value], room: usize) -> Option<usize> {
    let shown = fitted(chat, room, room / 3);
    if shown.iter().map(size).sum::<usize>() <= room {
        return None;
    }
    let mut left = room / 4;
    let newest = shown.iter().rev().take_while(|message| {
        let size = size(message);
        let fits = size <= left;
        left = left.saturating_sub(size);
        fits
    });
    let mut upto = chat.len() - newest.count().min(chat.len() - 1);
    while upto < chat.len() && chat[upto]["role"] == "tool" {
        upto += 1;
    }
    // One message stands for them: fewer than two are no gain.
    (upto >= 2).then_some(upto)
}

/// What a summary is made from: as much as fits, without results and pictures.
pub fn squeezed(chat: &[Value], room: usize) -> Vec<Value> {
    let mut chat: Vec<Value> =
        chat.iter().map(|message| without_picture(message, HIDDEN)).collect();
    let last = chat.len();
    hide(&mut chat, last, usize::MAX);
    if chat.iter().map(size).sum::<usize>() > room {
        for message in &mut chat {
            if let Some(text) = message["content"].as_str().map(|text| clip(text, SQUEEZED)) {
                message["content"] = json!(text);
            }
        }
    }
    let mut total: usize = chat.iter().map(size).sum();
    let mut first = 0;
    while first < chat.len() && (total > room || chat[first]["role"] == "tool") {
        total -= size(&chat[first]);
        first += 1;
    }
    chat.split_off(first)
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

/// Whether a conversation holds a picture.
pub fn has_pictures(chat: &[Value]) -> bool {
    chat.iter().any(|message| message["content"].is_array())
}

/// The conversation with its newest pictures only, or none.
pub fn with_pictures(chat: &[Value], blind: bool) -> Vec<Value> {
    let mut left = if blind { 0 } else { PICTURES };
    let mut shown: Vec<Value> = chat
        .iter()
        .rev()
        .map(|message| {
            if !message["content"].is_array() {
                return message.clone();
            }
            let keep = left > 0;
            left = left.saturating_sub(1);
            match (keep, blind) {
                (true, _) => message.clone(),
                (false, true) => without_picture(message, UNSEEN),
                (false, false) => without_picture(message, HIDDEN),
            }
        })
        .collect();
    shown.reverse();
    shown
}

const HIDDEN: &str = "[a picture that is not shown here]";
const UNSEEN: &str = "[a picture: the model that you are can't be shown any. If it matters, say so, and ask \
                      for its content in words.]";

fn without_picture(message: &Value, instead: &str) -> Value {
    let mut message = message.clone();
    if message["content"].is_array() {
        let text = format!("{} {instead}", text_of(&message));
        message["content"] = json!(text);
    }
    message
}

fn size(message: &Value) -> usize {
    let calls = message["tool_calls"].as_array().into_iter().flatten();
    let calls = calls.filter_map(|call| call["function"]["arguments"].as_str()).map(str::len);
    let content = match &message["content"] {
        Value::Array(_) => PICTURE,
        content => content.as_str().map_or(0, str::len),
    };
    content + calls.sum::<usize>()
}

/// The conversation with its oldest tool results hidden where it is too long. The record keeps
/// them. They are hidden in steps: between steps the beginning of the conversation stays as it is,
/// and cached.
fn fitted(chat: &[Value], max: usize, step: usize) -> Vec<Value> {
    let total: usize = chat.iter().map(size).sum();
    let mut chat = chat.to_vec();
    let Some(over) = total.checked_sub(max).filter(|over| *over > 0) else { return chat };
    let old = chat.len().saturating_sub(RECENT);
    hide(&mut chat, old, over.div_ceil(step) * step);
    chat
}

/// Hides results among the first `old` messages, until so much is gone.
fn hide(chat: &mut [Value], old: usize, mut to_hide: usize) {
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
            context_tokens: None,
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
        let body = request("m", "s", &[model::user("hi")], &[], 1000);
        assert_eq!(
            body,
            json!({"model": "m", "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "hi"}]})
        );
        assert_eq!(request("m", "s", &[], &[json!({})], 1000)["tool_choice"], "auto");
    }

    #[test]
    fn archived_learnings_are_left_out() {
        let guide = "# Coder\nBuild.\n## Archived Learnings\nOld.\n### One\nOld too.\n## Now\nNew.\n#archived\n";
        assert_eq!(without_archive(guide), "# Coder\nBuild.\n## Now\nNew.\n#archived\n");
        assert_eq!(without_archive("# A\n### archived learnings\nx\n# B\n"), "# A\n# B\n");
    }

    #[test]
    fn a_conversation_that_is_too_long_is_cut_between_messages() {
        let said = |text: &str| json!({"role": "assistant", "content": text});
        let mut chat = vec![model::user(&"u".repeat(500))];
        for n in 0..20 {
            chat.push(said(&"x".repeat(400)));
            chat.push(model::tool(&format!("c{n}"), &"x".repeat(100)));
        }
        assert_eq!(overlong(&chat, 11_000), None);
        let upto = overlong(&chat, 9_000).unwrap();
        assert_eq!((upto, chat[upto]["role"].as_str()), (33, Some("assistant")));
        // A single message that is too long can't be helped.
        assert_eq!(overlong(&[model::user(&"u".repeat(500))], 100), None);
        let squeezed = squeezed(&chat[..upto], 4_000);
        assert!(squeezed.iter().map(size).sum::<usize>() <= 4_000);
        assert_ne!(squeezed[0]["role"], "tool");
    }

    #[test]
    fn room_is_what_instructions_leave() {
        assert_eq!(room(Some(8_000), &"s".repeat(2_000), &[]), 16_000);
        assert_eq!(room(Some(8_000), &"s".repeat(90_000), &[]), LEAST_ROOM);
        assert_eq!(room(None, "", &[]), 336_000);
    }

    #[test]
    fn the_newest_pictures_are_shown_to_models_that_see() {
        let picture = |n: u32| model::picture(&format!("p{n}"), "data:image/png;base64,AA==");
        let chat: Vec<_> = (0..6).map(picture).collect();
        assert!(has_pictures(&chat) && !has_pictures(&with_pictures(&chat, true)));
        let shown = with_pictures(&chat, false);
        assert_eq!(shown[0]["content"], "p0 [a picture that is not shown here]");
        assert_eq!(shown[2..], chat[2..]);
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
