//! Words out of what a server sent.

/// Columns that text is laid out in.
const WIDTH: usize = 120;

/// Whether a content type can be made text of.
pub fn is_readable(kind: &str) -> bool {
    let structured = ["+json", "+xml", "+yaml"].iter().any(|suffix| kind.ends_with(suffix));
    let known = matches!(
        kind,
        "application/json"
            | "application/xml"
            | "application/javascript"
            | "application/x-javascript"
            | "application/yaml"
            | "application/x-yaml"
            | "application/toml"
            | "application/x-sh"
            | "application/x-ndjson"
            | "application/sql"
    );
    (kind.starts_with("text/") || structured || known) && kind != "image/svg+xml"
}

/// Whether a content type is HTML.
pub fn is_html(kind: &str) -> bool {
    matches!(kind, "text/html" | "application/xhtml+xml")
}

/// Elements open at once that no honest page has: laying them out takes time that grows with their
/// square.
const DEEPEST: usize = 400;

pub fn page_text(body: &[u8], html: bool) -> String {
    if html && nesting_depth(body) > DEEPEST {
        return without_tags(&String::from_utf8_lossy(body));
    }
    if html && let Ok(text) = html2text::config::plain().string_from_read(body, WIDTH) {
        return text;
    }
    String::from_utf8_lossy(body).into_owned()
}

/// At least as many elements as a parser would have open at once.
fn nesting_depth(html: &[u8]) -> usize {
    /// Elements that have no content, or that end where the next one begins.
    const SHALLOW: [&str; 26] = [
        "area", "base", "br", "col", "dd", "dt", "embed", "hr", "img", "input", "li", "link",
        "meta", "option", "p", "param", "source", "tbody", "td", "tfoot", "th", "thead", "tr",
        "track", "wbr", "!doctype",
    ];
    let (mut open, mut deepest) = (0_usize, 0);
    let mut rest = html;
    while let Some(at) = rest.iter().position(|b| *b == b'<') {
        rest = &rest[at + 1..];
        let length = rest.iter().take(32).take_while(|b| !b" \t\r\n/>".contains(b)).count();
        let name = String::from_utf8_lossy(&rest[..length]).to_ascii_lowercase();
        if rest.first() == Some(&b'/') {
            let closed = String::from_utf8_lossy(&rest[1..rest.len().min(20)]).to_ascii_lowercase();
            let shallow =
                SHALLOW.iter().any(|s| closed.strip_prefix(s).is_some_and(|r| r.starts_with('>')));
            open -= usize::from(!shallow && open > 0);
        } else if name.starts_with(|c: char| c.is_ascii_alphabetic()) && !SHALLOW.contains(&&*name)
        {
            open += 1;
            deepest = deepest.max(open);
        }
    }
    deepest
}

/// What is left between `<` and `>` taken out.
fn without_tags(html: &str) -> String {
    let parts = html.split('<').enumerate();
    let words = parts.map(|(index, part)| match part.split_once('>') {
        _ if index == 0 => part,
        Some((_, words)) => words,
        None => "",
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn html_becomes_words_and_links() {
        let page =
            b"<html><head><title>T</title><style>p{}</style><script>alert(1)</script></head>\
            <body><h1>Cart</h1><p>Use <a href='https://a.dev/x'>decimals</a>.</p></body></html>";
        let text = page_text(page, true);
        assert!(
            text.contains("Cart") && text.contains("decimals") && text.contains("https://a.dev/x"),
            "{text}"
        );
        assert!(!text.contains("alert"), "{text}");
    }

    #[test]
    fn pages_made_to_hurt_are_read_in_time() {
        for tag in
            ["<div>", "<table><tr><td>", "<", "<p>", "<b><i>", "<ul><li>", "<x-y>", "</p><div>"]
        {
            page_text(tag.repeat(50_000).as_bytes(), true);
        }
    }

    #[test]
    fn pictures_and_archives_are_not_text() {
        for kind in
            ["image/png", "image/svg+xml", "application/zip", "application/pdf", "", "video/mp4"]
        {
            assert!(!is_readable(kind), "{kind}");
        }
        for kind in ["text/html", "text/plain", "application/json", "application/ld+json"] {
            assert!(is_readable(kind), "{kind}");
        }
    }
}
