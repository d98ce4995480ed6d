//! Words out of what a server sent.

use super::depth::measure_depth;

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
    if html && measure_depth(body, DEEPEST).is_err() {
        return without_tags(&String::from_utf8_lossy(body));
    }
    if html && let Ok(text) = html2text::config::plain().string_from_read(body, WIDTH) {
        return text;
    }
    String::from_utf8_lossy(body).into_owned()
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
        let begun = std::time::Instant::now();
        for tag in [
            "<div>",
            "<table><tr><td>",
            "<",
            "<p>",
            "<b><i>",
            "<ul><li>",
            "<x-y>",
            "</p><div>",
            "<div><!--</div>-->",
            "<div title=\"</div>\">",
            "<div><script></div></script>",
            "<div><object></div></object>",
        ] {
            page_text(tag.repeat(50_000).as_bytes(), true);
        }
        assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
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
