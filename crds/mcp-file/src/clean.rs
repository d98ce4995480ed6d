//! Text of strangers, made fit to be shown.

/// Without colour codes of terminals, control characters, and characters that people can't see but models read.
pub fn clean_text(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\u{1b}' => skip_escape(&mut letters),
            '\n' | '\t' => clean.push(letter),
            '\r' if letters.peek() == Some(&'\n') => {}
            '\r' => clean.push('\n'),
            // Tags repeat ASCII invisibly; overrides show text in another order than it has.
            '\u{e0000}'..='\u{e007f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
            letter if letter.is_control() => {}
            letter => clean.push(letter),
        }
    }
    clean
}

fn skip_escape(letters: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match letters.next() {
        Some('[') => {
            letters.by_ref().find(|letter| ('\u{40}'..='\u{7e}').contains(letter));
        }
        Some(']') => {
            while let Some(letter) = letters.next() {
                if letter == '\u{7}' || (letter == '\u{1b}' && letters.next_if_eq(&'\\').is_some())
                {
                    break;
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_controls_and_invisible_characters_are_removed() {
        let dirty = "\u{1b}[31mred\u{1b}[0m \u{1b}]8;;http://x\u{7}link\u{1b}]8;;\u{1b}\\\0\r\nb\u{e0041}\u{202e}c\ttab";
        assert_eq!(clean_text(dirty), "red link\nbc\ttab");
    }
}
