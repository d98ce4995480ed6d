//! Words and output that are known before anything runs. Pure.

use super::ShellWord;

/// Stands for a part of a word that is only known when it runs: no argument can contain it.
pub const HOLE: char = '\0';

/// The word, if all of it is known.
pub(super) fn known_word(shape: &str) -> ShellWord {
    Some(shape.to_owned()).filter(|shape| !shape.contains(HOLE))
}

/// True where nothing is known of a word.
pub(super) fn is_hole(shape: &str) -> bool {
    shape.contains(HOLE) && shape.chars().all(|c| c == HOLE || c.is_whitespace())
}

/// A connection to another host that a shell opens like a file.
pub fn is_socket(path: &str) -> bool {
    path.starts_with("/dev/tcp/") || path.starts_with("/dev/udp/")
}

/// Resolves the escapes of `$'…'` and `echo -e`; nothing if one is not known.
pub(super) fn unescape_text(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((plain, escape)) = rest.split_once('\\') {
        out.push_str(plain);
        let kind = escape.chars().next()?;
        let (skip, radix, most) = match kind {
            'x' => (1, 16, 2),
            'u' => (1, 16, 4),
            '0'..='7' => (0, 8, 3 + usize::from(kind == '0')),
            _ => {
                out.push(match kind {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    '\\' | '\'' | '"' | '?' => kind,
                    _ => return None,
                });
                rest = &escape[kind.len_utf8()..];
                continue;
            }
        };
        let digits = escape[skip..].chars().take(most).take_while(|c| c.is_digit(radix)).count();
        let end = skip + digits;
        let number = u32::from_str_radix(&escape[skip..end], radix).ok()?;
        out.push(char::from_u32(number).filter(|c| *c != HOLE)?);
        rest = &escape[end..];
    }
    out.push_str(rest);
    Some(out)
}

/// Returns the largest number of brackets and blocks that are open at once, whatever they are in.
pub(super) fn nesting_depth(script: &str) -> usize {
    let (mut open, mut most) = (0_usize, 0);
    let cuts = |c: char| c.is_whitespace() || matches!(c, '(' | ')' | ';' | '{' | '}');
    for word in script.split_inclusive(cuts) {
        match word.trim_end_matches(cuts) {
            "do" | "then" | "case" => open += 1,
            "done" | "fi" | "esac" => open = open.saturating_sub(1),
            _ => {}
        }
        match word.chars().last() {
            Some('(' | '{') => open += 1,
            Some(')' | '}') => open = open.saturating_sub(1),
            _ => {}
        }
        most = most.max(open);
    }
    most
}
