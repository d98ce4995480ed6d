//! Thoughts that stand in an answer, between tags: servers without a parser for them leave them there, and so do some
//! gateways. Only thoughts before the answer are taken out: it may talk about such tags itself. Pure.

/// Names of the tags: those of most open models, Bedrock's, and Google's.
const TAGS: [&str; 4] = ["think", "thinking", "reasoning", "thought"];
/// End of thoughts whose beginning is not in the answer: the model's template has written it.
const END: &str = "</think>";

/// The answer without thoughts, and whether there were any.
pub(super) fn split_thoughts(text: &str) -> (&str, bool) {
    let (mut rest, mut has_thoughts) = (text.trim_start(), false);
    while let Some(after) = skip_thought(rest) {
        (rest, has_thoughts) = (after.trim_start(), true);
    }
    match skip_unopened(text) {
        _ if has_thoughts => (rest, true),
        Some(after) => (after.trim_start(), true),
        None => (text, false),
    }
}

/// True if a text is a thought alone that has no end: an answer may stand behind it.
pub(super) fn is_unended(text: &str) -> bool {
    let ended = || TAGS.iter().any(|tag| text.trim_end().ends_with(&format!("</{tag}>")));
    matches!(split_thoughts(text), ("", true)) && !ended()
}

/// The text behind the thought that it begins with: nothing, where that has no end.
fn skip_thought(text: &str) -> Option<&str> {
    TAGS.iter().find_map(|tag| {
        let thought = text.strip_prefix('<')?.strip_prefix(tag)?.strip_prefix('>')?;
        let end = format!("</{tag}>");
        Some(thought.split_once(end.as_str()).map_or("", |(_, rest)| rest))
    })
}

/// The text behind thoughts of which only the end is there, at the end of its line.
fn skip_unopened(text: &str) -> Option<&str> {
    let (before, after) = text.split_once(END)?;
    let ends_line = after.is_empty() || after.starts_with(['\n', '\r']);
    let is_quoted = before.contains("<think>") || before.matches("```").count() % 2 == 1;
    (ends_line && !is_quoted).then_some(after)
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
            assert_eq!(split_thoughts(text), (answer, true), "{text}");
        }
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
        ] {
            assert_eq!(split_thoughts(text), (text, false), "{text}");
        }
    }
}
