//! Attachments: messages that people forward, what other apps say in place of a text, and what Slack shows
//! of a link.

use std::fmt::Write as _;

use serde_json::Value;

use crate::blocks::{is_table_block, shown_text};
use crate::filled;
use crate::rich::items;

/// Levels of nested attachments that are read, and attachments of one message.
const NESTED: usize = 3;
const MOST: usize = 20;
/// Text that Slack shows where there is no preview.
const NO_PREVIEW: &str = "[no preview available]";

/// The origin of an attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachedKind {
    /// Somebody forwarded a message.
    Shared,
    /// A preview of a link in the message, by Slack or an app. `message`: the link leads to a message.
    Unfurled { message: bool },
    /// A table that stands in the message: Slack puts here what people paste into their text.
    Table,
    /// Part of the message itself.
    Own,
}

/// The content of one attachment.
#[derive(Clone, Debug, PartialEq)]
pub struct AttachedText {
    pub kind: AttachedKind,
    /// Author and channel of a forwarded message, on one line.
    pub origin: String,
    /// Address of what it shows.
    pub url: Option<String>,
    /// Text of the attachment, as mrkdwn.
    pub text: String,
    /// Files that came with it, as Slack describes them.
    pub files: Vec<Value>,
}

/// The attachments of a message with this text.
#[must_use]
pub fn read_attachments(attachments: &Value, text: &str) -> Vec<AttachedText> {
    let objects = items(attachments).filter(|one| one.is_object()).take(MOST);
    let read = objects.map(|one| read_attachment(one, text));
    read.filter(|one| !one.text.is_empty() || !one.files.is_empty()).collect()
}

fn read_attachment(attachment: &Value, text: &str) -> AttachedText {
    let kind = attached_kind(attachment, text);
    let mut files = Vec::new();
    add_files(attachment, 0, &mut files);
    AttachedText {
        kind,
        origin: if kind == AttachedKind::Shared { origin(attachment) } else { String::new() },
        url: address(attachment).map(str::to_owned),
        text: attachment_text(attachment, 0),
        files,
    }
}

fn of<'a>(attachment: &'a Value, name: &str) -> Option<&'a str> {
    attachment[name].as_str().and_then(filled)
}

fn address(attachment: &Value) -> Option<&str> {
    ["from_url", "original_url", "app_unfurl_url"].iter().find_map(|name| of(attachment, name))
}

fn attached_kind(attachment: &Value, text: &str) -> AttachedKind {
    let is = |name: &str| attachment[name] == true;
    let message = is("is_msg_unfurl") || is("is_reply_unfurl") || is("is_thread_root_unfurl");
    // An address that is not in the text was forwarded, not typed.
    let typed = address(attachment)
        .is_some_and(|url| text.contains(url) || text.contains(&url.replace('&', "&amp;")));
    if is("is_share") || (message && !typed) {
        AttachedKind::Shared
    } else if message || is("is_app_unfurl") || address(attachment).is_some() {
        AttachedKind::Unfurled { message }
    } else if is_table(attachment) {
        AttachedKind::Table
    } else {
        AttachedKind::Own
    }
}

/// True if there is nothing but a table.
fn is_table(attachment: &Value) -> bool {
    let has_words = ["pretext", "title", "text"].iter().any(|name| of(attachment, name).is_some());
    let has_parts =
        ["fields", "attachments", "files"].iter().any(|name| attachment[*name].is_array());
    let mut blocks = items(&attachment["blocks"]).peekable();
    !has_words && !has_parts && blocks.peek().is_some() && blocks.all(is_table_block)
}

fn origin(attachment: &Value) -> String {
    let mut line = String::new();
    let author = of(attachment, "author_name").or(of(attachment, "author_subname"));
    match (author, of(attachment, "author_id")) {
        (Some(name), Some(id)) => line = format!("{name} ({id})"),
        (Some(one), None) | (None, Some(one)) => one.clone_into(&mut line),
        (None, None) => {}
    }
    if let Some(channel) = of(attachment, "channel_name").or(of(attachment, "channel_id")) {
        let _ = write!(line, " in #{}", channel.trim_start_matches('#'));
    }
    if let Some(url) = address(attachment) {
        let _ = write!(line, ", {url}");
    }
    line.trim_start_matches(',').split_whitespace().collect::<Vec<_>>().join(" ")
}

fn attachment_text(attachment: &Value, depth: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    lines.extend(of(attachment, "pretext").map(str::to_owned));
    lines.extend(title_line(attachment));
    lines.extend(body_text(attachment));
    for field in items(&attachment["fields"]) {
        match (of(field, "title"), of(field, "value")) {
            (Some(title), Some(value)) => lines.push(format!("{title}: {value}")),
            (title, value) => lines.extend(title.or(value).map(str::to_owned)),
        }
    }
    if lines.is_empty() {
        let fallback = of(attachment, "fallback").filter(|text| *text != NO_PREVIEW);
        lines.extend(fallback.map(str::to_owned));
    }
    if let Some(image) = of(attachment, "image_url") {
        lines.push(format!("[image: {image}]"));
    }
    if depth < NESTED {
        for inner in items(&attachment["attachments"]).take(MOST) {
            let text = attachment_text(inner, depth + 1);
            lines.extend(filled(&text).map(str::to_owned));
        }
    }
    lines.join("\n")
}

fn title_line(attachment: &Value) -> Option<String> {
    let title = of(attachment, "title")?;
    Some(match of(attachment, "title_link") {
        Some(link) if link.contains(['<', '>', '|']) => title.to_owned(),
        Some(link) => format!("<{}|{}>", link.replace('&', "&amp;"), title.replace('|', "/")),
        None => title.to_owned(),
    })
}

/// The words themselves. Where there are blocks, the text only stands in for them, but a forwarded message
/// has both.
fn body_text(attachment: &Value) -> Option<String> {
    let text = of(attachment, "text").map(str::to_owned);
    let blocks = filled(&shown_text(&attachment["blocks"])).map(str::to_owned);
    let messages = items(&attachment["message_blocks"]);
    let shown = messages.map(|one| shown_text(&one["message"]["blocks"]));
    let shown: Vec<String> = shown.filter(|text| filled(text).is_some()).collect();
    let shown = Some(shown.join("\n")).filter(|shown| !shown.is_empty());
    blocks.or(text).or(shown)
}

fn add_files(attachment: &Value, depth: usize, files: &mut Vec<Value>) {
    files.extend(items(&attachment["files"]).cloned());
    if depth < NESTED {
        for inner in items(&attachment["attachments"]).take(MOST) {
            add_files(inner, depth + 1, files);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[allow(clippy::needless_pass_by_value, reason = "it is made for the call")]
    fn one(attachment: Value, text: &str) -> AttachedText {
        let mut found = read_attachments(&json!([null, attachment]), text);
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }

    #[test]
    fn a_forwarded_message_is_read_with_its_origin_and_files() {
        let share = json!({
            "is_msg_unfurl": true, "is_share": true, "author_name": "Ben", "author_id": "U7",
            "channel_id": "C9", "channel_name": "alerts",
            "from_url": "https://acme.slack.com/archives/C9/p1?thread_ts=1&cid=C9",
            "text": "The total is NaN", "fallback": "[today] ben: The total is NaN",
            "files": [{"id": "F1"}],
            "attachments": [{"title": "Inner", "text": "deep", "files": [{"id": "F2"}]}],
        });
        let read = one(share, "please fix this");
        assert_eq!(read.kind, AttachedKind::Shared);
        assert_eq!(
            read.origin,
            "Ben (U7) in #alerts, https://acme.slack.com/archives/C9/p1?thread_ts=1&cid=C9"
        );
        assert_eq!(read.text, "The total is NaN\nInner\ndeep");
        assert_eq!(read.files.len(), 2);
        // The message's text is in rich text alone.
        let blocks = json!([{"type": "rich_text", "elements": [{"type": "rich_text_section",
            "elements": [{"type": "text", "text": "rich"}]}]}]);
        let share = json!({"is_share": true, "message_blocks": [
            {"team": "T", "channel": "C9", "ts": "1.0", "message": {"blocks": blocks}}]});
        assert_eq!(one(share, "").text, "rich");
    }

    #[test]
    fn what_slack_shows_of_a_link_is_told_from_what_somebody_forwards() {
        let url = "https://acme.slack.com/archives/C9/p1?a=1&b=2";
        let kind = |attachment: Value, text: &str| one(attachment, text).kind;
        let message = json!({"is_msg_unfurl": true, "from_url": url, "text": "x"});
        let typed = "see <https://acme.slack.com/archives/C9/p1?a=1&amp;b=2>";
        assert_eq!(kind(message.clone(), typed), AttachedKind::Unfurled { message: true });
        assert_eq!(kind(message, "see this"), AttachedKind::Shared);
        let app = json!({"is_app_unfurl": true, "app_unfurl_url": "https://x/1", "title": "t"});
        assert_eq!(kind(app, "<https://x/1>"), AttachedKind::Unfurled { message: false });
        let site = json!({"from_url": "https://x/2", "service_name": "X", "title": "t"});
        assert_eq!(kind(site, "<https://x/2>"), AttachedKind::Unfurled { message: false });
        assert_eq!(kind(json!({"title": "t"}), ""), AttachedKind::Own);
    }

    #[test]
    fn a_pasted_table_is_told_from_what_an_app_attaches() {
        let cell = |text: &str| {
            json!({"type": "rich_text", "elements": [{"type": "rich_text_section",
                "elements": [{"type": "text", "text": text}]}]})
        };
        let table = json!({"type": "table", "block_id": "t1", "rows": [
            [cell("item"), cell("price")], [cell("tea"), cell("2.40")]]});
        let pasted = json!({"id": 1, "blocks": [table], "fallback": NO_PREVIEW});
        let read = one(pasted.clone(), "which is wrong?");
        assert_eq!((read.kind, &*read.text), (AttachedKind::Table, "item | price\ntea | 2.40"));
        let kind = |change: Value| {
            let mut other = pasted.clone();
            for (name, value) in change.as_object().unwrap() {
                other[name] = value.clone();
            }
            one(other, "").kind
        };
        assert_eq!(kind(json!({"title": "Report"})), AttachedKind::Own);
        assert_eq!(kind(json!({"blocks": [table, {"type": "divider"}]})), AttachedKind::Own);
        assert_eq!(kind(json!({"is_share": true})), AttachedKind::Shared);
        let shown = AttachedKind::Unfurled { message: false };
        assert_eq!(kind(json!({"from_url": "https://x/1"})), shown);
    }

    #[test]
    fn an_alert_says_its_title_text_and_fields() {
        let alert = json!({"color": "danger", "title": "[FIRING:1] Disk | full",
            "title_link": "https://alerts/1?a&b", "pretext": "on prod", "text": "node-1 at 95 %",
            "fields": [{"title": "Severity", "value": "page"}, {"title": null, "value": "x"}, 7],
            "image_url": "https://alerts/graph.png", "fallback": "unused"});
        assert_eq!(
            one(alert, "").text,
            "on prod\n<https://alerts/1?a&amp;b|[FIRING:1] Disk / full>\nnode-1 at 95 %\n\
             Severity: page\nx\n[image: https://alerts/graph.png]"
        );
        assert_eq!(one(json!({"fallback": "only this"}), "").text, "only this");
        let silent = json!([{"fallback": NO_PREVIEW, "id": 1}, {"text": 7}, "x", null]);
        assert_eq!(read_attachments(&silent, ""), []);
        assert_eq!(read_attachments(&json!({"text": "no list"}), ""), []);
        let many = Value::Array(vec![json!({"text": "x"}); 500]);
        assert_eq!(read_attachments(&many, "").len(), MOST);
    }
}
