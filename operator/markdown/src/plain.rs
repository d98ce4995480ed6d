//! Markdown as one line without its marks, for titles. Pure.

use pulldown_cmark::{Event, Tag, TagEnd};

use crate::html::is_inside_word;
use crate::parse_events;
use crate::visible::mark_deceptive;

/// The words of a text in one line.
#[must_use]
pub fn plain_line(text: &str) -> String {
    let mut text = mark_deceptive(text).into_owned();
    if text.starts_with("<!") {
        // A call of everybody, such as `<!here>`, begins no HTML.
        text.insert(0, '\\');
    }
    let text = text.as_str();
    let mut out = String::with_capacity(text.len());
    let mut kept = Vec::new();
    for (event, range) in parse_events(text) {
        match event {
            Event::Text(part) | Event::Code(part) | Event::Html(part) | Event::InlineHtml(part) => {
                out.push_str(&part);
            }
            Event::Start(Tag::List(Some(first))) => out.push_str(&format_number(first)),
            Event::Start(Tag::Emphasis) => {
                let inside = is_inside_word(text, &range);
                kept.push(inside);
                out.push_str(if inside { "*" } else { "" });
            }
            Event::End(TagEnd::Emphasis) if kept.pop() == Some(true) => out.push('*'),
            Event::SoftBreak
            | Event::HardBreak
            | Event::Rule
            | Event::End(
                TagEnd::Paragraph | TagEnd::Heading(_) | TagEnd::Item | TagEnd::CodeBlock,
            ) => out.push(' '),
            _ => {}
        }
    }
    let words: Vec<_> = out.split_whitespace().collect();
    if words.is_empty() { text.trim().to_owned() } else { words.join(" ") }
}

fn format_number(first: u64) -> String {
    format!("{first}. ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_words_without_marks() {
        for (text, expected) in [
            (
                "Implement item `1` of the roadmap: **Cents**",
                "Implement item 1 of the roadmap: Cents",
            ),
            ("# Fix *this* now", "Fix this now"),
            ("> quoted\n> on", "quoted on"),
            ("2. Second", "2. Second"),
            ("2*3*4 of snake_case_name", "2*3*4 of snake_case_name"),
            ("<!here> *look*", "<!here> look"),
            ("see [it](https://e.example) <img src=x>", "see it <img src=x>"),
            ("<@U1> look", "<@U1> look"),
            ("\u{202e}txt.exe", "⟦U+202E⟧txt.exe"),
            ("---", "---"),
            ("", ""),
        ] {
            assert_eq!(plain_line(text), expected, "{text}");
        }
    }
}
