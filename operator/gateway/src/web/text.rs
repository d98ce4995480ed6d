//! Tells what an answer of a web server is, and extracts its text.

use url::Url;

use super::depth::measure_depth;

/// Columns that text is laid out in.
const WIDTH: usize = 120;

/// Content of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerForm {
    Text,
    /// A file that a role's toolbox makes text of.
    Document,
    Other,
}

/// Decides what an answer is, by its type, its address and its first bytes: servers that don't know a file's type
/// call it bytes, or text.
pub(super) fn answer_form(kind: &str, url: &Url, head: &[u8]) -> AnswerForm {
    let is_media =
        ["image/", "audio/", "video/", "font/"].iter().any(|media| kind.starts_with(media));
    if is_document(kind, url) || (!is_media && begins_document(head)) {
        AnswerForm::Document
    } else if is_readable(kind) || (!is_media && looks_like_text(head)) {
        AnswerForm::Text
    } else {
        AnswerForm::Other
    }
}

/// Place of the mark in a TAR archive.
const TAR_MARK: usize = 257;

fn begins_document(head: &[u8]) -> bool {
    let marks: [&[u8]; 6] = [
        b"%PDF-",
        b"PK\x03\x04",
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        b"\x1f\x8b\x08",
        b"\xfd7zXZ\0",
        b"\x28\xb5\x2f\xfd",
    ];
    marks.iter().any(|mark| head.starts_with(mark))
        || head.get(TAR_MARK..TAR_MARK + 5) == Some(b"ustar")
}

/// True for bytes without those that no text has. Of UTF-16 the mark of byte order is known.
fn looks_like_text(head: &[u8]) -> bool {
    let is_odd = |byte: &u8| matches!(byte, 0..=8 | 0x0e..=0x1a | 0x1c..=0x1f | 0x7f);
    head.starts_with(b"\xff\xfe") || head.starts_with(b"\xfe\xff") || !head.iter().any(is_odd)
}

/// True for a content type of which text can be made.
fn is_readable(kind: &str) -> bool {
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

/// Types and ends of names of files that a role's toolbox makes text of.
const DOCUMENTS: [&str; 12] = [
    "application/pdf",
    "application/msword",
    "application/vnd.ms-excel",
    "application/vnd.ms-powerpoint",
    "application/vnd.openxmlformats-officedocument.",
    "application/vnd.oasis.opendocument.",
    "application/rtf",
    "application/zip",
    "application/x-zip-compressed",
    "application/x-tar",
    "application/gzip",
    "application/x-gzip",
];
const DOCUMENT_ENDS: [&str; 14] = [
    ".pdf", ".docx", ".xlsx", ".pptx", ".doc", ".xls", ".ppt", ".odt", ".ods", ".odp", ".zip",
    ".tar", ".gz", ".tgz",
];

/// True for a document; servers that don't know a file's type call it bytes.
fn is_document(kind: &str, url: &Url) -> bool {
    let name = url.path().to_ascii_lowercase();
    let is_bytes = matches!(kind, "application/octet-stream" | "binary/octet-stream" | "");
    DOCUMENTS.iter().any(|known| kind.starts_with(known))
        || (is_bytes && DOCUMENT_ENDS.iter().any(|end| name.ends_with(end)))
}

/// Parts of a long text, each of at most `most` bytes and up to the end of a line where there is one.
pub(super) fn split_pages(text: &str, most: usize) -> Vec<&str> {
    let mut pages = Vec::new();
    let mut rest = text;
    while rest.len() > most {
        let cut = rest.floor_char_boundary(most);
        let cut = rest[..cut].rfind('\n').map_or(cut, |end| end + 1);
        let (page, behind) = rest.split_at(cut);
        pages.push(page);
        rest = behind;
    }
    if !rest.is_empty() || pages.is_empty() {
        pages.push(rest);
    }
    pages
}

/// True for the content types of XML, which names its encoding in itself.
pub(super) fn is_xml(kind: &str) -> bool {
    matches!(kind, "application/xml" | "text/xml") || kind.ends_with("+xml")
}

/// True for the content types of HTML.
pub(super) fn is_html(kind: &str) -> bool {
    matches!(kind, "text/html" | "application/xhtml+xml")
}

/// Elements open at once that no honest page has: laying them out takes time that grows with their
/// square.
const DEEPEST: usize = 400;

pub(super) fn page_text(body: &[u8], html: bool) -> String {
    if html && measure_depth(body, DEEPEST).is_err() {
        return without_tags(&String::from_utf8_lossy(body));
    }
    if html && let Ok(text) = html2text::config::plain().string_from_read(body, WIDTH) {
        return match page_title(body) {
            Some(title) if !begins_with(&text, &title) => format!("{title}\n\n{text}"),
            _ => text,
        };
    }
    String::from_utf8_lossy(body).into_owned()
}

/// Bytes of a page in which its title is looked for, and bytes and characters of the title itself.
const HEAD: usize = 64 * 1024;
const LONG_TITLE: usize = 1_000;
const TITLE: usize = 300;
/// Tags that are looked at: honest pages have one, and one in a remark or two.
const TAGS: usize = 10;
/// Parts of a head in which a tag is none.
const NO_MARKUP: [(&str, &str); 3] =
    [("<!--", "-->"), ("<script", "</script"), ("<style", "</style")];

/// True for what ends the name of a tag.
const fn ends_name(c: char) -> bool {
    c == '>' || c.is_ascii_whitespace()
}

/// The title of a page, which is not laid out with what it shows.
fn page_title(body: &[u8]) -> Option<String> {
    let head = String::from_utf8_lossy(&body[..body.len().min(HEAD)]);
    // As long as the head itself: places in one are those in the other.
    let lower = head.to_ascii_lowercase();
    let lower = &lower[..lower.find("<body").unwrap_or(lower.len())];
    let is_inside = |at: usize, (begin, end): (&str, &str)| {
        let begun = lower[..at].rfind(begin);
        begun.is_some_and(|begun| !lower[begun..at].contains(end))
    };
    let tags = lower.match_indices("<title").map(|(at, _)| at);
    let tags = tags.filter(|at| lower[at + "<title".len()..].starts_with(ends_name));
    let tag = tags.take(TAGS).find(|at| !NO_MARKUP.iter().any(|part| is_inside(*at, *part)))?;
    let from = tag + lower[tag..].find('>')? + 1;
    let words = &head[from..from + lower[from..].find("</title")?];
    let words = &words[..words.floor_char_boundary(LONG_TITLE)];
    // In a title only references to characters mean anything.
    let plain = format!("<p>{}</p>", words.replace('<', "&lt;"));
    let plain = html2text::config::plain().string_from_read(plain.as_bytes(), LONG_TITLE).ok()?;
    let line = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    let title: String = line.chars().take(TITLE).collect();
    (!title.is_empty()).then_some(title)
}

/// True if a page's own first line says its title, as a heading or not.
fn begins_with(text: &str, title: &str) -> bool {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty());
    first.is_some_and(|line| line.trim_start_matches(['#', ' ']) == title)
}

/// The text outside of everything between `<` and `>`.
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
        assert!(text.starts_with("T\n\n"), "{text}");
    }

    #[test]
    fn a_title_is_one_line_above_the_page_and_not_said_twice() {
        let text = |head: &str, body: &str| {
            let page = format!("<html><head>{head}</head><body>{body}</body></html>");
            page_text(page.as_bytes(), true)
        };
        let first = |head: &str| {
            let page = text(head, "<p>Words.</p>");
            page.lines().find(|line| !line.trim().is_empty()).unwrap().to_owned()
        };
        let odd = "<TITLE lang='en'>Fish &amp;\n chips &lt;b></TITLE>";
        assert_eq!(first(odd), "Fish & chips <b>");
        assert_eq!(first("<title>  </title>"), "Words.");
        assert_eq!(first(&format!("<title>{}</title>", "é".repeat(9_000))).chars().count(), 300);
        for none in ["<title>never closed", "<body><svg><title>Icon</title></svg>", ""] {
            assert_eq!(page_title(none.as_bytes()), None, "{none}");
        }
        let decoys = "<!-- <title>Old</title> --><script>var t = '<title>Script</title>';</script><title\n>New</title>";
        assert_eq!(first(decoys), "New");
        let heading = text("<title>Cart</title>", "<h1>Cart</h1><p>Words.</p>");
        assert_eq!(heading.matches("Cart").count(), 1, "{heading}");
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
    fn a_long_text_has_pages_and_nothing_is_lost_between_them() {
        assert_eq!(split_pages("", 10), [""]);
        assert_eq!(split_pages("one\ntwo\nthree", 9), ["one\ntwo\n", "three"]);
        assert_eq!(split_pages("\u{e9}".repeat(4).as_str(), 3), ["\u{e9}"; 4]);
        let text = "line\n".repeat(30_000);
        let pages = split_pages(&text, 40_000);
        assert_eq!((pages.len(), pages.concat()), (4, text.clone()));
    }

    #[test]
    fn documents_are_known_by_their_type_or_their_name() {
        let url = |path: &str| Url::parse(&format!("https://a.dev/{path}")).unwrap();
        assert!(is_document("application/pdf", &url("x")));
        let sheet = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet";
        assert!(is_document(sheet, &url("x")));
        assert!(is_document("application/octet-stream", &url("Report.PDF?page=2")));
        assert!(!is_document("application/octet-stream", &url("firmware.bin")));
        assert!(!is_document("text/html", &url("report.pdf")), "an error page about it");
        assert!(!is_document("image/png", &url("a.png")));
    }

    #[test]
    fn an_answer_of_an_unknown_type_is_what_its_bytes_say() {
        let url = Url::parse("https://a.dev/x").unwrap();
        let form = |kind: &str, head: &[u8]| answer_form(kind, &url, head);
        for kind in ["application/octet-stream", "", "application/x-tex", "application/graphql"] {
            assert_eq!(form(kind, b"# Guide\n\x1b[1mcaf\xe9\x1b[0m"), AnswerForm::Text, "{kind}");
            assert_eq!(form(kind, b"\xff\xfeh\0i\0"), AnswerForm::Text, "{kind}");
            assert_eq!(form(kind, b"\x7fELF\x02\x01\x01\0"), AnswerForm::Other, "{kind}");
        }
        // A file that lies about its type, or whose server does.
        for kind in ["text/plain", "text/html", "application/octet-stream", "application/x-pdf"] {
            assert_eq!(form(kind, b"%PDF-1.7\n"), AnswerForm::Document, "{kind}");
        }
        let tar = [&[b'a'; 257][..], b"ustar\0"].concat();
        assert_eq!(form("application/x-ustar", &tar), AnswerForm::Document);
        assert_eq!(form("text/html", b"<p>not found"), AnswerForm::Text);
        assert_eq!(form("application/pdf", b"<p>not found"), AnswerForm::Document, "it says so");
        for media in ["image/png", "image/svg+xml", "video/mp4", "font/woff2"] {
            assert_eq!(form(media, b"plain"), AnswerForm::Other, "{media}");
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
