//! Shortening text that comes from outside, always at character boundaries and always saying so.

/// Clips a text to at most `max` characters, with `…` where the rest was.
pub fn clip_text(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// Shortens a text to about `max` characters: the beginning and the end, and how much is missing between.
pub fn head_and_tail(text: &str, max: usize) -> String {
    let count = text.chars().count();
    if count <= max {
        return text.to_owned();
    }
    let half = max / 2;
    let head: String = text.chars().take(half).collect();
    let tail: String = text.chars().skip(count - half).collect();
    format!("{head}\n[… {} characters left out …]\n{tail}", count - 2 * half)
}

/// Shortens a text to about `most` bytes: the beginning and the end at character boundaries, and `note` between them,
/// which is given the number of characters that are missing.
pub fn shorten_text(text: &str, most: usize, note: impl Fn(usize) -> String) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let room = most.saturating_sub(note(text.len()).len());
    let head = text.floor_char_boundary(room.div_ceil(2));
    let tail = text.ceil_char_boundary(text.len() - room / 2).max(head);
    let missing = text[head..tail].chars().count();
    format!("{}{}{}", &text[..head], note(missing), &text[tail..])
}

/// The longest that each of several texts may be so that all of them fit into `room` together: short ones
/// leave their share to the long ones.
pub fn common_limit(lengths: impl IntoIterator<Item = usize>, room: usize) -> usize {
    let mut lengths: Vec<usize> = lengths.into_iter().collect();
    lengths.sort_unstable();
    let (mut left, mut count) = (room, lengths.len());
    for length in lengths {
        if length * count > left {
            return left / count;
        }
        left -= length;
        count -= 1;
    }
    usize::MAX
}

/// Renders a text as a terminal would leave it: no escape sequences, no control characters but tabs and line ends,
/// and of a line that was written over only what was written last.
pub fn plain_text(text: &str) -> String {
    if !text.contains(|c: char| c.is_control() && c != '\n' && c != '\t') {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    let mut line = out.len();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => skip_escape(&mut chars),
            '\u{9b}' => skip_parameters(&mut chars),
            '\r' if chars.peek().is_some_and(|next| *next != '\n') => out.truncate(line),
            '\u{8}' if out.len() > line => {
                out.pop();
            }
            '\n' => {
                out.push(c);
                line = out.len();
            }
            '\t' => out.push(c),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

fn skip_escape(chars: &mut Chars<'_>) {
    match chars.next() {
        Some('[') => skip_parameters(chars),
        // Strings end with BEL or ESC \; a line end means that the rest was cut off.
        Some(']' | 'P' | 'X' | '^' | '_') => {
            while let Some(c) = chars.next_if(|c| *c != '\n') {
                if c == '\u{7}' || (c == '\u{1b}' && chars.next_if_eq(&'\\').is_some()) {
                    return;
                }
            }
        }
        Some('(' | ')' | '#' | '%' | ' ') => {
            chars.next();
        }
        _ => {}
    }
}

fn skip_parameters(chars: &mut Chars<'_>) {
    while let Some(c) = chars.next_if(|c| *c != '\n') {
        if ('@'..='~').contains(&c) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_at_characters() {
        assert_eq!(clip_text("añb", 3), "añb");
        assert_eq!(clip_text("añbc", 2), "añ…");
        assert_eq!(head_and_tail("abcdef", 6), "abcdef");
        assert_eq!(head_and_tail("ñbcdefñ", 4), "ñb\n[… 3 characters left out …]\nfñ");
    }

    #[test]
    fn both_ends_are_kept_within_a_number_of_bytes() {
        let note = |missing: usize| format!("[{missing}]");
        assert_eq!(shorten_text("abc", 3, note), "abc");
        assert_eq!(shorten_text(&"a".repeat(100), 15, note), "aaaaa[90]aaaaa");
        let wide = shorten_text(&"ñ".repeat(100), 21, note);
        assert!(wide.len() <= 21 && wide == "ññññ[92]ññññ", "{wide}");
        assert_eq!(shorten_text("some long text", 2, note), "[14]");
    }

    #[test]
    fn short_texts_leave_their_share_to_long_ones() {
        assert_eq!(common_limit([10, 20, 30], 60), usize::MAX);
        assert_eq!(common_limit([10, 100, 200], 110), 50);
        assert_eq!(common_limit([100, 100], 50), 25);
        assert_eq!(common_limit([], 50), usize::MAX);
    }

    #[test]
    fn a_terminals_tricks_leave_text() {
        for (raw, left) in [
            ("\u{1b}[31mred\u{1b}[0m\n", "red\n"),
            ("10%\r50%\r100%\r\ndone", "100%\ndone"),
            ("\u{1b}]0;title\u{7}a\u{1b}]8;;http://x\u{1b}\\link", "alink"),
            ("a\u{1b}[2J\u{1b}[Hb\u{8}c\u{0}\u{7f}", "ac"),
            ("cut \u{1b}[3", "cut "),
            ("cut \u{1b}]0;x\nnext", "cut \nnext"),
            ("\u{9b}31mred\ttab", "red\ttab"),
        ] {
            assert_eq!(plain_text(raw), left, "{raw:?}");
        }
    }
}
