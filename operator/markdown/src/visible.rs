//! Text in which a reader sees every character. Pure.

use std::borrow::Cow;
use std::fmt::Write as _;

/// A flag, which may go on with tags that say whose it is.
const FLAG: char = '\u{1f3f4}';
/// Limit on the tags of a flag: the code of a region, and the end. More would be hidden text.
const TAGS: usize = 8;

/// A text with everything that would be invisible, or turn the reading direction, written out.
pub fn visible_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.trim_end().chars() {
        match c {
            '\n' | '\t' => out.push(c),
            c if c.is_control() || is_invisible(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

/// Code in which each character is written out that is not seen, or that turns the direction of others: it might read as
/// what it is not. What joins emoji or the letters of some scripts stays.
#[must_use]
pub fn mark_hidden(code: &str) -> Cow<'_, str> {
    mark_where(code, |c, before| {
        let joins = matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}');
        let is_space = matches!(c, '\u{202f}' | '\u{205f}');
        let is_joined = joins && before.is_some_and(|c| !c.is_ascii() && !is_invisible(c));
        is_invisible(c) && !is_joined && !is_space
    })
}

/// Words in which those characters are written out that show others in another order, or that only machines read. All
/// else that is not seen has a meaning in some script.
pub(crate) fn mark_deceptive(text: &str) -> Cow<'_, str> {
    let selects = |c: char| matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}');
    let mut tags = 0;
    mark_where(text, |c, before| {
        let is_tag = matches!(c, '\u{e0000}'..='\u{e007f}');
        let begins = is_tag && before == Some(FLAG);
        tags = if begins || (is_tag && tags > 0) { tags + 1 } else { 0 };
        // A character has one form: more selectors in a row are hidden text.
        let is_more = selects(c) && before.is_some_and(selects);
        let is_hidden = is_tag && !(1..=TAGS).contains(&tags);
        matches!(c, '\u{202d}' | '\u{202e}') || is_hidden || is_more
    })
}

/// Writes characters out by their numbers. `is_marked`: the character, and the one before it.
fn mark_where(text: &str, mut is_marked: impl FnMut(char, Option<char>) -> bool) -> Cow<'_, str> {
    let (mut out, mut done, mut before) = (String::new(), 0, None);
    for (at, c) in text.char_indices() {
        if is_marked(c, before) {
            out.push_str(&text[done..at]);
            let _ = write!(out, "⟦U+{:04X}⟧", u32::from(c));
            done = at + c.len_utf8();
        }
        before = Some(c);
    }
    if done == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[done..]);
    Cow::Owned(out)
}

fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'
            | '\u{1160}'
            | '\u{17b4}'
            | '\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202f}'
            | '\u{205f}'..='\u{206f}'
            | '\u{2800}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_shows_what_could_make_it_read_as_another() {
        for (code, shown) in [
            ("if a /*\u{202e} } \u{2066}if b*/", "if a /*⟦U+202E⟧ } ⟦U+2066⟧if b*/"),
            ("let x\u{3164} = 1;", "let x⟦U+3164⟧ = 1;"),
            ("eval('\u{fe0f}\u{e0101}')", "eval('⟦U+FE0F⟧⟦U+E0101⟧')"),
            ("a\u{200b}b", "a⟦U+200B⟧b"),
            ("\u{feff}", "⟦U+FEFF⟧"),
            // Emoji, Persian and French as people write them.
            ("❤\u{fe0f} 👨\u{200d}👩", "❤\u{fe0f} 👨\u{200d}👩"),
            ("می\u{200c}خواهم", "می\u{200c}خواهم"),
            ("1\u{202f}000 €", "1\u{202f}000 €"),
            ("plain\tcode", "plain\tcode"),
        ] {
            assert_eq!(mark_hidden(code), shown, "{code:?}");
        }
    }

    #[test]
    fn words_keep_what_their_script_needs() {
        for (text, shown) in [
            ("\u{202e}sey", "⟦U+202E⟧sey"),
            ("ok\u{e0041}\u{e0042}", "ok⟦U+E0041⟧⟦U+E0042⟧"),
            ("\u{1f3f4}\u{e0067}\u{e0062}\u{e007f} ok", "\u{1f3f4}\u{e0067}\u{e0062}\u{e007f} ok"),
            ("\u{2068}שלום\u{2069} \u{200f}a\u{200b}", "\u{2068}שלום\u{2069} \u{200f}a\u{200b}"),
        ] {
            assert_eq!(mark_deceptive(text), shown, "{text:?}");
        }
        for hidden in ['\u{e0041}', '\u{fe01}', '\u{e0101}'] {
            let text = format!("{FLAG}{}", hidden.to_string().repeat(20));
            let shown = mark_deceptive(&text);
            let mark = format!("⟦U+{:04X}⟧", u32::from(hidden));
            assert!(shown.matches(&mark).count() >= 12, "{hidden:?}: {shown}");
        }
    }
}
