//! Slack's wire form of text: what people type or apps post becomes it, and back.

use serde_json::{Value, json};

/// Converts text that a person types: `&`, `<` and `>` mean themselves, links are found, and `@handle`
/// becomes a mention when `mention` knows the handle. Tokens in wire form are kept, for tests.
pub(super) fn typed_text(text: &str, mention: &dyn Fn(&str) -> Option<String>) -> String {
    scan_text(text, false, LinkSearch::Addresses, mention)
}

/// Converts text that an app posts: entities and tokens are kept, stray `&`, `<` and `>` are escaped. Anything
/// like an address becomes a link, whether meant or not, unless it is to be taken literally.
pub(super) fn posted_text(text: &str, literally: bool) -> String {
    scan_text(text, true, if literally { LinkSearch::Nothing } else { LinkSearch::Hosts }, &|_| {
        None
    })
}

/// Kinds of text that become links.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LinkSearch {
    Nothing,
    /// Web addresses, such as `https://…`.
    Addresses,
    /// Web addresses and bare host names; `main.rs` reads as one.
    Hosts,
}

fn scan_text(
    text: &str,
    entities: bool,
    find: LinkSearch,
    mention: &dyn Fn(&str) -> Option<String>,
) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    let mut before = ' ';
    while let Some(c) = rest.chars().next() {
        let at_word = !before.is_alphanumeric() && before != '_';
        let (taken, written) = if let Some(code) = code_span(rest) {
            (code, escape_text(&rest[..code], entities))
        } else if let Some(token) = read_token(rest) {
            (token, rest[..token].to_owned())
        } else if let Some(link) =
            read_link(rest).filter(|_| at_word && find != LinkSearch::Nothing)
        {
            (link, format!("<{}>", escape_text(&rest[..link], entities)))
        } else if at_word
            && find == LinkSearch::Hosts
            && !"/.-".contains(before)
            && let Some(host) = read_host(rest)
        {
            (host, format!("<http://{0}|{0}>", &rest[..host]))
        } else if let Some((handle, id)) = read_handle(rest, mention).filter(|_| at_word) {
            (handle, format!("<@{id}>"))
        } else if entities && c == '&' && read_entity(rest).is_some() {
            (1, "&".to_owned())
        } else {
            (c.len_utf8(), escape_text(&rest[..c.len_utf8()], false))
        };
        out.push_str(&written);
        before = rest[..taken].chars().next_back().unwrap_or(' ');
        rest = &rest[taken..];
    }
    out
}

fn escape_text(text: &str, entities: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        match c {
            '&' if entities && read_entity(&text[at..]).is_some() => out.push('&'),
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            other => out.push(other),
        }
    }
    out
}

const ENTITIES: [(&str, char); 3] = [("&amp;", '&'), ("&lt;", '<'), ("&gt;", '>')];

fn read_entity(text: &str) -> Option<(&'static str, char)> {
    ENTITIES.into_iter().find(|(entity, _)| text.starts_with(entity))
}

fn code_span(text: &str) -> Option<usize> {
    if let Some(inner) = text.strip_prefix("```") {
        return inner.find("```").map(|end| end + 6);
    }
    let inner = text.strip_prefix('`')?;
    let end = inner.find('`').filter(|end| *end > 0)?;
    (!inner[..end].contains('\n')).then_some(end + 2)
}

fn read_token(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('<')?;
    let end = inner.find(['>', '\n', '<'])?;
    let kinds = ["@U", "@W", "#C", "!", "http://", "https://", "mailto:"];
    let known = kinds.iter().any(|kind| inner.starts_with(kind));
    (known && inner[end..].starts_with('>')).then_some(end + 2)
}

fn read_link(text: &str) -> Option<usize> {
    if !text.starts_with("http://") && !text.starts_with("https://") {
        return None;
    }
    let end = text
        .find(|c: char| c.is_whitespace() || matches!(c, '<' | '>' | '|' | '`' | '"'))
        .unwrap_or(text.len());
    let link = text[..end].trim_end_matches(['.', ',', ';', ':', '!', '?', ')', '\'', '*', '_']);
    link.split_once("//").is_some_and(|(_, rest)| !rest.is_empty()).then_some(link.len())
}

/// Ends of host names that names of files and roles end with, too.
const TOP: [&str; 11] = ["pm", "sh", "rs", "py", "md", "com", "org", "net", "io", "dev", "ai"];

/// A host's name without a scheme.
fn read_host(text: &str) -> Option<usize> {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    let end = text.find(|c| !part(c)).unwrap_or(text.len());
    let name = text[..end].trim_end_matches(['.', '-']);
    let (rest, top) = name.rsplit_once('.')?;
    let follows = text[name.len()..].chars().next();
    (!rest.is_empty() && TOP.contains(&top) && follows != Some('_')).then_some(name.len())
}

/// `@handle` that is not the beginning of something longer, such as `@bot.role`.
fn read_handle(text: &str, mention: &dyn Fn(&str) -> Option<String>) -> Option<(usize, String)> {
    let inner = text.strip_prefix('@')?;
    let part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    let end = inner.find(|c| !part(c)).unwrap_or(inner.len());
    let mut after = inner[end..].chars();
    if after.next() == Some('.') && after.next().is_some_and(part) {
        return None;
    }
    mention(&inner[..end]).map(|id| (end + 1, id))
}

/// Renders wire text as a reader sees it; `name` gives the handle of a user id.
pub(super) fn plain_text(wire: &str, name: &dyn Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(wire.len());
    for piece in split_pieces(wire) {
        match piece {
            TextPiece::Text(text) => out.push_str(&text),
            TextPiece::User(id) => {
                out.push('@');
                out.push_str(&name(&id).unwrap_or(id));
            }
            TextPiece::Channel(id) => out.extend(["#", id.as_str()]),
            TextPiece::Broadcast(range) => out.extend(["@", range.as_str()]),
            TextPiece::Link { url, label } => out.push_str(&label.unwrap_or(url)),
        }
    }
    out
}

/// The elements of a line of rich text.
pub(super) fn inline_elements(wire: &str) -> Vec<Value> {
    let mut elements = Vec::new();
    for piece in split_pieces(wire) {
        elements.extend(match piece {
            TextPiece::Text(text) => code_spans(&text),
            TextPiece::User(id) => vec![json!({ "type": "user", "user_id": id })],
            TextPiece::Channel(id) => vec![json!({ "type": "channel", "channel_id": id })],
            TextPiece::Broadcast(range) => vec![json!({ "type": "broadcast", "range": range })],
            TextPiece::Link { url, label: None } => vec![json!({ "type": "link", "url": url })],
            TextPiece::Link { url, label: Some(text) } => {
                vec![json!({ "type": "link", "url": url, "text": text })]
            }
        });
    }
    elements
}

/// Text between two ticks is code; a lonely tick is a tick.
fn code_spans(text: &str) -> Vec<Value> {
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return vec![json!({ "type": "text", "text": text })];
    }
    let styled = |(n, part): (usize, &&str)| match n % 2 {
        0 => json!({ "type": "text", "text": part }),
        _ => json!({ "type": "text", "text": part, "style": { "code": true } }),
    };
    let elements = parts.iter().enumerate().filter(|(_, part)| !part.is_empty());
    elements.map(styled).collect()
}

enum TextPiece {
    Text(String),
    User(String),
    Channel(String),
    Broadcast(String),
    Link { url: String, label: Option<String> },
}

fn split_pieces(wire: &str) -> Vec<TextPiece> {
    let mut found = Vec::new();
    let mut text = String::new();
    let mut rest = wire;
    while let Some(c) = rest.chars().next() {
        if let Some(length) = read_token(rest) {
            if !text.is_empty() {
                found.push(TextPiece::Text(std::mem::take(&mut text)));
            }
            found.push(read_piece(&rest[1..length - 1]));
            rest = &rest[length..];
        } else if let Some((entity, meant)) = read_entity(rest) {
            text.push(meant);
            rest = &rest[entity.len()..];
        } else {
            text.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    if !text.is_empty() {
        found.push(TextPiece::Text(text));
    }
    found
}

fn read_piece(token: &str) -> TextPiece {
    let (target, label) = match token.split_once('|') {
        Some((target, label)) => (target, Some(unescape_text(label))),
        None => (token, None),
    };
    match target.split_at(1) {
        ("@", id) => TextPiece::User(id.to_owned()),
        ("#", id) => TextPiece::Channel(id.to_owned()),
        ("!", range) => TextPiece::Broadcast(range.to_owned()),
        _ => TextPiece::Link { url: unescape_text(target), label },
    }
}

pub(super) fn unescape_text(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bot(handle: &str) -> Option<String> {
        (handle == "codebutler").then(|| "U1".to_owned())
    }

    #[test]
    fn what_people_type_is_escaped_linked_and_mentioned() {
        assert_eq!(typed_text("a < b && c", &bot), "a &lt; b &amp;&amp; c");
        assert_eq!(typed_text("hi @codebutler, go", &bot), "hi <@U1>, go");
        assert_eq!(typed_text("@codebutler.coder go", &bot), "@codebutler.coder go");
        assert_eq!(typed_text("me@codebutler", &bot), "me@codebutler");
        assert_eq!(typed_text("@codebutler.", &bot), "<@U1>.");
        assert_eq!(
            typed_text("see https://a.b/?x=1&y=2.", &bot),
            "see <https://a.b/?x=1&amp;y=2>."
        );
        assert_eq!(typed_text("`https://a.b @codebutler`", &bot), "`https://a.b @codebutler`");
        assert_eq!(typed_text("&amp;", &bot), "&amp;amp;");
    }

    #[test]
    fn what_apps_post_keeps_entities_and_tokens() {
        assert_eq!(posted_text("<@U1> &amp; <b> &x", false), "<@U1> &amp; &lt;b&gt; &amp;x");
        assert_eq!(posted_text("<https://a.b|here>", false), "<https://a.b|here>");
        let told = "@a.pm, src/b.rs, c.md. <@U1> https://d.dev/e";
        let found = "@<http://a.pm|a.pm>, src/b.rs, <http://c.md|c.md>. <@U1> <https://d.dev/e>";
        assert_eq!(
            (posted_text(told, false), posted_text(told, true)),
            (found.to_owned(), told.to_owned())
        );
        assert_eq!(posted_text("```a < b &lt;```", false), "```a &lt; b &lt;```");
    }

    #[test]
    fn readers_see_plain_text() {
        let name = |id: &str| (id == "U1").then(|| "codebutler".to_owned());
        let wire = "<@U1> 1 &lt; 2 &amp; <https://a.b|here> <https://c.d>";
        assert_eq!(plain_text(wire, &name), "@codebutler 1 < 2 & here https://c.d");
    }
}
