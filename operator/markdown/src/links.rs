//! Rules for links: permitted targets, and labels that name another address than their target. Pure.

/// Ends of names that hardly any file has.
const TOP: [&str; 12] =
    ["com", "org", "net", "io", "dev", "app", "ai", "edu", "gov", "de", "es", "uk"];

/// True for a page of the web or a mailbox as a link's target.
#[must_use]
pub fn is_url(url: &str) -> bool {
    ["https://", "http://", "mailto:"].iter().any(|scheme| url.starts_with(scheme))
        && !url.contains(char::is_whitespace)
}

/// True for a label that reads like another address than its link's.
#[must_use]
pub fn looks_elsewhere(label: &str, url: &str) -> bool {
    let host = |text: &str| {
        let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
        let end = rest.find(['/', '?', '#', ':']).unwrap_or(rest.len());
        rest[..end].trim_start_matches("www.").trim_end_matches('.').to_lowercase()
    };
    label.split_whitespace().any(|word| {
        let word = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '/');
        let (own, there) = (host(word), host(url));
        let end = own.rsplit('.').next().unwrap_or_default();
        let named = own.contains('.') && (word.contains('/') || TOP.contains(&end));
        (word.contains("://") || word.starts_with("www.") || named) && own != there
    })
}
