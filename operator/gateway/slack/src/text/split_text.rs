//! Splits long texts into parts that Slack takes, cut where a reader would. Pure.

const FENCE: &str = "```";

/// Least limit: below it, fences would take more room than what they enclose.
const LEAST: usize = 64;

/// Splits into parts of at most `limit` characters (64 at least), in order; at paragraphs if possible, else at
/// lines, else anywhere. A code block that is cut goes on as a code block in the next part.
pub(crate) fn split_text(text: &str, limit: usize) -> Vec<String> {
    let limit = limit.max(LEAST);
    // Room for the fence that a cut code block gets at both ends.
    let room = limit - 2 * (FENCE.len() + 1);
    let mut parts = Vec::new();
    let mut rest = text.to_owned();
    while rest.chars().count() > limit {
        let end = rest.char_indices().nth(room).map_or(rest.len(), |(at, _)| at);
        let head = &rest[..end];
        // A cut that would leave a tiny part is worse than one at a line.
        let least = head.len() / 2;
        let cut = ["\n\n", "\n", " "]
            .iter()
            .find_map(|mark| head.rfind(mark).filter(|at| *at >= least))
            .unwrap_or(end);
        let mut part = rest[..cut].trim_end().to_owned();
        let mut next = rest[cut..].trim_start_matches(['\n', ' ']).to_owned();
        if cut == end {
            rest[cut..].clone_into(&mut next);
        }
        if part.matches(FENCE).count() % 2 == 1 {
            if part.ends_with(FENCE) {
                // Nothing of the block is in this part yet.
                part.truncate(part.len() - FENCE.len());
                part.truncate(part.trim_end().len());
            } else {
                part.push('\n');
                part.push_str(FENCE);
            }
            next = format!("{FENCE}\n{next}");
        }
        if !part.is_empty() {
            parts.push(part);
        }
        rest = next;
    }
    if !rest.trim().is_empty() {
        parts.push(rest);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_text_stays_whole() {
        assert_eq!(split_text("hello\n\nworld", 40), ["hello\n\nworld"]);
    }

    #[test]
    fn cuts_are_at_paragraphs_then_lines_then_anywhere() {
        let text = format!("{}\n\n{}", "a ".repeat(25).trim(), "b ".repeat(25).trim());
        let parts = split_text(&text, 70);
        assert_eq!(parts, ["a ".repeat(25).trim(), "b ".repeat(25).trim()]);

        let parts = split_text(&"é".repeat(200), 80);
        assert!(parts.iter().all(|part| part.chars().count() <= 80));
        assert_eq!(parts.concat(), "é".repeat(200));
    }

    #[test]
    fn a_cut_code_block_goes_on_as_one() {
        let code = (0..40).map(|n| format!("line {n}")).collect::<Vec<_>>().join("\n");
        let parts = split_text(&format!("intro\n```\n{code}\n```\nend"), 100);
        for part in &parts {
            assert!(part.chars().count() <= 100, "{part}");
            assert_eq!(part.matches(FENCE).count() % 2, 0, "{part}");
        }
        let together = parts.join("\n");
        for n in 0..40 {
            assert_eq!(together.matches(&format!("line {n}\n")).count(), 1, "{n}");
        }
    }

    #[test]
    fn it_ends_for_any_limit() {
        let parts = split_text(&format!("```\n{}\n```", "x".repeat(500)), 0);
        assert!(parts.iter().all(|part| part.chars().count() <= LEAST), "{parts:?}");
        assert_eq!(parts.concat().matches('x').count(), 500);
    }
}
