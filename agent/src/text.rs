//! Shortening text that comes from outside, always at character boundaries and always saying so.

/// At most `max` characters, with `…` where the rest was.
pub fn clip(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// At most about `max` characters: the beginning and the end, and how much is missing between.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_at_characters() {
        assert_eq!(clip("añb", 3), "añb");
        assert_eq!(clip("añbc", 2), "añ…");
        assert_eq!(head_and_tail("abcdef", 6), "abcdef");
        assert_eq!(head_and_tail("ñbcdefñ", 4), "ñb\n[… 3 characters left out …]\nfñ");
    }
}
