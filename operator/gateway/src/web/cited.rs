//! Addresses that a role names as sources and that no role has opened in its Thread: the people are shown which.

use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::remote::{Remote, url_authority};
use jiff::Timestamp;
use url::Url;

use super::found::{FoundPages, read_page_url};

/// Addresses that are shown.
const MOST: usize = 5;
/// Longest one that is shown, in characters.
const LONGEST: usize = 120;
/// Characters that end an address in Markdown.
const ENDS: [char; 9] = [')', '>', ']', '"', '\'', '|', '<', '`', '\\'];

/// Pages that were opened since this process serves.
#[derive(Debug)]
pub struct OpenedPages {
    pages: FoundPages,
    since: Timestamp,
}

impl Default for OpenedPages {
    fn default() -> Self {
        Self { pages: FoundPages::default(), since: Timestamp::now() }
    }
}

impl OpenedPages {
    /// Remembers the addresses of a page.
    pub fn remember(&self, caller: &ProvenCaller, urls: &[&str]) {
        self.pages.remember(&caller.key(), urls.iter().copied());
    }

    /// The line beneath a role's words that name what was not opened. Nothing where it is not known: the Thread is
    /// older than what this process remembers.
    pub fn note(&self, caller: &ProvenCaller, text: &str) -> Option<String> {
        let made = caller.thread.metadata.creation_timestamp.as_ref()?.0;
        // Kubernetes cuts its times to seconds.
        if made.as_second() < self.since.as_second() {
            return None;
        }
        let key = caller.key();
        let own = Remote::parse(&caller.repo.spec.git.url).ok();
        let mut unopened = cited_pages(text, own.as_ref().map(|own| own.host.as_str()));
        unopened.retain(|url| !self.pages.has(&key, url));
        let shown: Vec<String> = unopened.iter().take(MOST).map(show_address).collect();
        let more = unopened.len().saturating_sub(MOST);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        (!shown.is_empty())
            .then(|| format!("Not read with WebFetch in this thread: {}{more}", shown.join(", ")))
    }
}

fn show_address(url: &Url) -> String {
    let text: String = url.as_str().chars().filter(|c| *c != '`').take(LONGEST).collect();
    format!("`{text}`")
}

/// Pages that a text names outside of code, each once, but for those of the Git host.
fn cited_pages(text: &str, git_host: Option<&str>) -> Vec<Url> {
    let mut found: Vec<Url> = Vec::new();
    let mut fenced = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            continue;
        }
        let words = line.split('`').step_by(2).filter(|_| !fenced);
        for url in words.flat_map(find_addresses).filter_map(read_page_url) {
            let is_own = git_host.is_some() && url_authority(&url).as_deref() == git_host;
            if !is_own && !found.contains(&url) {
                found.push(url);
            }
        }
    }
    found
}

fn find_addresses(text: &str) -> Vec<&str> {
    let starts = text.match_indices("http").map(|(at, _)| &text[at..]);
    let starts = starts.filter(|rest| rest.starts_with("http://") || rest.starts_with("https://"));
    let end = |c: char| c.is_whitespace() || ENDS.contains(&c);
    starts
        .map(|rest| rest.split(end).next().unwrap_or_default())
        .map(|address| address.trim_end_matches(['.', ',', ';', ':', '!', '?', '*', '_']))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_found_in_what_a_role_writes_and_not_in_its_code() {
        let host = Some("git.example");
        let text = "See [the guide](https://docs.example/guide?v=2#top), https://b.example/x. Twice: <https://b.example/x>\n\
            Ours: https://git.example/acme/shop/pull/1, an example: `curl https://c.example/`\n\
            ```\nhttps://d.example/\n```\nand https://10.0.0.1/x";
        let found: Vec<String> = cited_pages(text, host).iter().map(Url::to_string).collect();
        assert_eq!(found, ["https://docs.example/guide?v=2", "https://b.example/x"]);
        assert!(cited_pages("no source, httpx://x and https", host).is_empty());
    }
}
