//! Lines of a role's that read like a receipt. Pure.

/// A role's text without lines that look like a receipt.
pub fn without_imitations(body: &str) -> String {
    let lines = body.lines().filter(|line| !is_imitation(line));
    lines.collect::<Vec<_>>().join("\n")
}

/// True if a line reads like one of the gateway's, however it is written.
pub(super) fn is_imitation(line: &str) -> bool {
    let said = bare_letters(line);
    said == "codebutler" || said.contains("checkedbycodebutler")
}

/// The letters and digits that a page shows of a line, in lower case.
fn bare_letters(line: &str) -> String {
    let (mut shown, mut rest) = (String::new(), line);
    while let Some(at) = rest.find(['<', '&']) {
        shown.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = match rest.strip_prefix('<') {
            Some(_) => rest.find('>'),
            None => rest.find(';').filter(|end| *end <= 10),
        };
        let Some(end) = end else {
            rest = &rest[1..];
            continue;
        };
        shown.extend(parse_entity(&rest[1..end]));
        rest = &rest[end + 1..];
    }
    shown.push_str(rest);
    shown.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// The character that `#101` or `#x65` stands for.
fn parse_entity(name: &str) -> Option<char> {
    let number = name.strip_prefix('#')?;
    let code = match number.strip_prefix(['x', 'X']) {
        Some(hex) => u32::from_str_radix(hex, 16).ok()?,
        None => number.parse().ok()?,
    };
    char::from_u32(code)
}
