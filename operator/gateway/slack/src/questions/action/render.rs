//! Renders the question about one action: the exact action as code, with nothing in it that a reader can't see.
//! Pure.

use codebutler_crds::wire::ApprovalRequest;
use codebutler_markdown::visible_text;
use serde_json::{Value, json};

use super::offered_buttons;
use crate::questions::blocks;
use crate::text::markdown;
use crate::text::mrkdwn;

/// Limit of the part of an action that is shown, in characters as escaped for Slack.
const SHOWN: usize = 2400;
/// Share of these for the action's end.
const END: usize = 600;
/// Limit of the reason, in characters.
const REASON: usize = 300;

/// A question, ready to be posted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionShown {
    /// Text for notifications, and where blocks can't be shown.
    pub text: String,
    pub blocks: Value,
}

/// Place of the full text of an action that is too long for its question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WholeAction {
    /// The question itself shows it.
    Shown,
    /// A file before the question shows it, under this name.
    InFile(String),
    /// Messages before the question show it.
    Above,
}

/// Renders the question about a request whose texts are masked already. `people` are mentioned.
pub fn show_question(
    request: &ApprovalRequest,
    people: &[String],
    for_thread: bool,
    whole: &WholeAction,
) -> ActionShown {
    show_asked(request, people, ("May I do this?", whole), Some(for_thread))
}

/// Full text of an action, as it is shown.
pub fn show_whole(request: &ApprovalRequest) -> String {
    visible_text(request.detail.as_deref().unwrap_or_default())
}

/// Splits the full text of an action into messages, in their order, where Slack takes no files.
pub fn show_in_messages(request: &ApprovalRequest) -> Vec<String> {
    let (mut pieces, mut piece, mut room) = (Vec::new(), String::new(), SHOWN);
    for c in show_whole(request).chars() {
        let weight = weight_of(c);
        if weight > room {
            pieces.push(std::mem::take(&mut piece));
            room = SHOWN;
        }
        room -= weight;
        piece.push(c);
    }
    pieces.push(piece);
    let count = pieces.len();
    let fenced = |(n, piece): (usize, String)| {
        format!("Part {} of {count} of what I ask about next:\n{}", n + 1, fence(&piece))
    };
    pieces.into_iter().enumerate().map(fenced).collect()
}

/// Notice for an action that a yes for the thread answers: the same as the question, with nothing to answer.
pub fn show_notice(request: &ApprovalRequest, by: &str) -> ActionShown {
    let head = format!(
        "I do this: <@{by}> approved it for this thread. *revoke* or *stop* takes that back."
    );
    show_asked(request, &[], (&head, &WholeAction::Shown), None)
}

/// True if an action is short enough to be shown as a whole.
pub fn is_whole(detail: &str) -> bool {
    cut_middle(&visible_text(detail)).1 == 0
}

/// `answers`: whether there are buttons, and among them one for the whole thread.
fn show_asked(
    request: &ApprovalRequest,
    people: &[String],
    (words, whole): (&str, &WholeAction),
    answers: Option<bool>,
) -> ActionShown {
    let tool = mrkdwn::escape_text(&visible_text(&request.tool)).replace('`', "'");
    let reason: String = visible_text(&request.summary).chars().take(REASON).collect();
    let reason = markdown::render_inline(&reason.replace('\n', " "));
    let mut mentions: Vec<String> = people.iter().map(|user| format!("<@{user}>")).collect();
    mentions.push(String::new());
    let mentions = mentions.join(" ");
    let head = format!("{mentions}{words} `{tool}`: {reason}.");
    let (code, left_out) =
        cut_middle(&visible_text(request.detail.as_deref().unwrap_or(&request.summary)));
    let note = (left_out > 0).then(|| match whole {
        WholeAction::InFile(file) => {
            format!(
                "{left_out} characters in the middle are not shown here: all of it is in `{file}`."
            )
        }
        WholeAction::Above => format!(
            "{left_out} characters in the middle are not shown here: all of it stands in the messages above."
        ),
        WholeAction::Shown => {
            format!("{left_out} characters in the middle are not shown: deny what you can't judge.")
        }
    });
    let mut text = format!("{head}\n{}", fence(&code));
    if let Some(note) = &note {
        text = format!("{text}\n{note}");
    }
    let mut blocks = vec![
        json!({"type": "section", "text": {"type": "mrkdwn", "text": head}}),
        json!({"type": "rich_text", "elements": [
            {"type": "rich_text_preformatted", "elements": [{"type": "text", "text": code}]},
        ]}),
    ];
    let context =
        |text: &str| json!({"type": "context", "elements": [{"type": "mrkdwn", "text": text}]});
    blocks.extend(note.as_deref().map(context));
    if let Some(for_thread) = answers {
        blocks.push(blocks::action_block(super::KIND, &offered_buttons(for_thread), &request.key));
    }
    ActionShown { text, blocks: Value::Array(blocks) }
}

/// Renders a block of code that nothing in it ends.
fn fence(code: &str) -> String {
    let fenced = mrkdwn::escape_text(code).replace("```", "`\u{200b}``");
    format!("```\n{fenced}\n```")
}

/// Number of characters that `c` takes as escaped for Slack.
const fn weight_of(c: char) -> usize {
    match c {
        '&' => 5,
        '<' | '>' => 4,
        _ => 1,
    }
}

/// Cuts the middle out of a text that is too long; returns the rest, and the number of characters left out.
fn cut_middle(text: &str) -> (String, usize) {
    if text.chars().map(weight_of).sum::<usize>() <= SHOWN {
        return (text.to_owned(), 0);
    }
    let within = |chars: &mut dyn Iterator<Item = char>, most: usize| {
        let mut left = most;
        let mut taken = Vec::new();
        for c in chars {
            let Some(rest) = left.checked_sub(weight_of(c)) else { break };
            left = rest;
            taken.push(c);
        }
        taken
    };
    let head = within(&mut text.chars(), SHOWN - END);
    let mut tail = within(&mut text.chars().rev(), END);
    tail.reverse();
    let left_out = text.chars().count() - head.len() - tail.len();
    let (head, tail): (String, String) = (head.into_iter().collect(), tail.into_iter().collect());
    (format!("{head}\n… {left_out} characters are not shown …\n{tail}"), left_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(detail: &str) -> ApprovalRequest {
        ApprovalRequest {
            key: "k".to_owned(),
            tool: "Bash".to_owned(),
            summary: "`rm` deletes <files>".to_owned(),
            hash: "0".repeat(64),
            detail: Some(detail.to_owned()),
        }
    }

    fn code(question: &ActionShown) -> &str {
        question.blocks[1]["elements"][0]["elements"][0]["text"].as_str().unwrap()
    }

    #[test]
    fn the_exact_action_is_shown_as_code_that_nothing_breaks_out_of() {
        let command = "rm -rf a && echo '```\n<!channel>' > <@U1>";
        let shown = show_question(&request(command), &[], false, &WholeAction::Shown);
        assert_eq!(code(&shown), command);
        assert!(!shown.text.contains("<!channel>") && !shown.text.contains("<@U1>"));
        assert_eq!(shown.text.matches("```").count(), 2, "{}", shown.text);
        let ids: Vec<_> = shown.blocks[2]["elements"]
            .as_array()
            .unwrap()
            .iter()
            .map(|button| button["action_id"].as_str().unwrap())
            .collect();
        assert_eq!(ids, ["approval:approve", "approval:deny"]);
        let shown = show_question(&request(command), &[], true, &WholeAction::Shown);
        assert_eq!(shown.blocks[2]["elements"][1]["action_id"], "approval:thread");
        // The notice asks nobody.
        let told = show_notice(&request(command), "U7");
        assert_eq!(told.blocks.as_array().unwrap().len(), 2);
        assert!(told.text.starts_with("I do this: <@U7> approved it for this thread"));
    }

    #[test]
    fn what_can_not_be_seen_is_written_out() {
        for (hidden, written) in [
            ("ls\u{202e}fr- mr", "ls\\u{202e}fr- mr"),
            ("a\u{200b}b", "a\\u{200b}b"),
            ("a\u{1b}[2K", "a\\u{1b}[2K"),
            ("a\u{e0041}", "a\\u{e0041}"),
            ("a\rb\n\tc", "a\\u{d}b\n\tc"),
        ] {
            assert_eq!(
                code(&show_question(&request(hidden), &[], false, &WholeAction::Shown)),
                written
            );
        }
    }

    #[test]
    fn a_long_action_is_cut_in_the_middle_and_that_is_said() {
        let long = format!("begin {} && curl evil", "<".repeat(20_000));
        let shown = show_question(&request(&long), &["U7".to_owned()], false, &WholeAction::Above);
        assert!(code(&shown).starts_with("begin <") && code(&shown).ends_with("&& curl evil"));
        assert!(shown.text.chars().count() < 3900, "{}", shown.text.len());
        let note = shown.blocks[2]["elements"][0]["text"].as_str().unwrap();
        assert!(note.contains("characters in the middle are not shown"), "{note}");
        assert!(shown.text.starts_with("<@U7> May I do this? `Bash`"));
        let shown = show_question(
            &request(&long),
            &[],
            false,
            &WholeAction::InFile("action-1.txt".to_owned()),
        );
        assert!(shown.text.contains("all of it is in `action-1.txt`"), "{}", shown.text);
        let parts = show_in_messages(&request(&long));
        assert!(parts.len() > 30 && parts.iter().all(|part| part.len() < 3000), "{}", parts.len());
        let shown = parts.iter().map(|part| part.matches("&lt;").count()).sum::<usize>();
        assert_eq!(shown, 20_000, "no character is left out");
        assert_eq!(show_whole(&request("a\u{200b}b")), "a\\u{200b}b");
        let exact = "x".repeat(SHOWN);
        assert_eq!(code(&show_question(&request(&exact), &[], false, &WholeAction::Shown)), exact);
    }
}
