//! Thoughts that stand in an answer, between tags: servers without a parser for them leave them there, and so do some
//! gateways. Only thoughts before the answer are taken out: it may talk about such tags itself. Pure.

/// Names of the tags: those of most open models, Bedrock's, and Google's.
const TAGS: [&str; 4] = ["think", "thinking", "reasoning", "thought"];
/// End of thoughts whose beginning is not in the answer: the model's template has written it.
const END: &str = "</think>";

/// The answer without thoughts, and whether there were any. `is_apart`: its server gives thoughts in a field of their
/// own, so that an end without a beginning is a word of the answer.
pub(super) fn split_thoughts(text: &str, is_apart: bool) -> (&str, bool) {
    let (mut rest, mut has_thoughts) = (text.trim_start(), false);
    while let Some(after) = skip_thought(rest) {
        (rest, has_thoughts) = (after.trim_start(), true);
    }
    match skip_unopened(text).filter(|_| !is_apart) {
        _ if has_thoughts => (rest, true),
        Some(after) => (after.trim_start(), true),
        None => (text, false),
    }
}

/// True if a text is a thought alone that has no end: an answer may stand behind it.
pub(super) fn is_unended(text: &str) -> bool {
    let ended = || TAGS.iter().any(|tag| text.trim_end().ends_with(&format!("</{tag}>")));
    matches!(split_thoughts(text, false), ("", true)) && !ended()
}

/// The text behind the thought that it begins with: nothing, where that has no end.
fn skip_thought(text: &str) -> Option<&str> {
    TAGS.iter().find_map(|tag| {
        let thought = text.strip_prefix('<')?.strip_prefix(tag)?.strip_prefix('>')?;
        let end = format!("</{tag}>");
        Some(thought.split_once(end.as_str()).map_or("", |(_, rest)| rest))
    })
}

/// The text behind thoughts of which only the end is there, at the end of its line. Templates put it at the beginning
/// of a line or right behind the last word; an answer about such tags has it within a line or a list, or again.
fn skip_unopened(text: &str) -> Option<&str> {
    let (before, after) = text.split_once(END)?;
    let ends_line = after.is_empty() || after.starts_with(['\n', '\r']);
    let is_quoted = before.contains("<think") || before.matches("```").count() % 2 == 1;
    let is_word = before.ends_with([' ', '\t']);
    (ends_line && !is_quoted && !is_word && !after.contains(END)).then_some(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thoughts_before_an_answer_are_none_of_it() {
        for (text, answer) in [
            ("<think>\nhm\n</think>\n\nDone.", "Done."),
            ("<think>\n\n</think>\n\nDone.", "Done."),
            ("\n<reasoning>hm</reasoning>Done.", "Done."),
            ("<thought>a</thought><thought>b</thought> Done.", "Done."),
            ("<thinking>hm", ""),
            ("I had better read it.\n</think>\nDone.", "Done."),
            ("hm</think>", ""),
        ] {
            assert_eq!(split_thoughts(text, false), (answer, true), "{text}");
        }
        let opened = "<think>hm</think>Done.";
        assert_eq!(split_thoughts(opened, true), ("Done.", true), "its beginning is there");
    }

    #[test]
    fn an_end_alone_is_a_word_where_thoughts_come_apart() {
        let text = "The template lacks this line:\n</think>\nAdd it.";
        assert_eq!(split_thoughts(text, true), (text, false));
    }

    #[test]
    fn a_thought_without_an_end_is_told_from_one_that_ends() {
        for (text, unended) in [
            ("<think>hm", true),
            ("<thought>a</thought> <think>hm\n", true),
            ("<think>hm</think>\n", false),
            ("<think>hm</think> Done.", false),
            ("hm</think>", false),
            ("Done.", false),
        ] {
            assert_eq!(is_unended(text), unended, "{text}");
        }
    }

    #[test]
    fn words_about_tags_stay() {
        for text in [
            "Done.",
            " two\nlines ",
            "The parser drops `<think>` and `</think>`.",
            "It ends with </think>, which nobody reads.",
            "The template is:\n```\n{{ thought }}\n</think>\n```\nChange that.",
            "`<think>` opens it.",
            "The block\n<think>\nhm\n</think>\nis the model's.",
            "<thinker>a</thinker>",
            "The closing tag is </think>\nNothing else ends a thought.",
            "Two tags are missing:\n- </think>\n- </tool_call>\nI have added both.",
            "The file ends like this:\n\n    </think>\n\nI have closed it.",
            "It reads:\n> </think>\nand that is wrong.",
            "The line\n</think>\nis there twice. Keep the first </think> alone.",
            "A <thinking> block has another end, so\n</think>\nends nothing.",
        ] {
            assert_eq!(split_thoughts(text, false), (text, false), "{text}");
        }
    }
}
