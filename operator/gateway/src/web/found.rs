//! Pages that searches of a Thread have found: its roles may open them, and nothing else on their hosts.

use std::collections::{HashMap, VecDeque};

use codebutler_gateway_core::thread_key::ThreadKey;
use parking_lot::Mutex;
use url::Url;

/// Pages that are remembered for a Thread, and Threads that are.
const PAGES: usize = 100;
const THREADS: usize = 1_000;

/// Results of recent searches. They are lost with the gateway's process: the role searches again.
#[derive(Debug, Default)]
pub struct FoundPages {
    inner: Mutex<FoundByThread>,
}

#[derive(Debug, Default)]
struct FoundByThread {
    pages: HashMap<ThreadKey, VecDeque<Url>>,
    /// Threads by their last search, the oldest one first.
    order: VecDeque<ThreadKey>,
}

impl FoundPages {
    /// Remembers what a search has found.
    pub fn remember<'a>(&self, thread: &ThreadKey, urls: impl Iterator<Item = &'a str>) {
        let mut inner = self.inner.lock();
        inner.order.retain(|known| known != thread);
        inner.order.push_back(thread.clone());
        if inner.order.len() > THREADS
            && let Some(oldest) = inner.order.pop_front()
        {
            inner.pages.remove(&oldest);
        }
        let pages = inner.pages.entry(thread.clone()).or_default();
        for url in urls.filter_map(read_page_url) {
            pages.retain(|known| *known != url);
            pages.push_back(url);
        }
        let surplus = pages.len().saturating_sub(PAGES);
        pages.drain(..surplus);
    }

    /// True if a search of the Thread has found this page.
    pub fn has(&self, thread: &ThreadKey, url: &Url) -> bool {
        let page = without_fragment(url.clone());
        self.inner.lock().pages.get(thread).is_some_and(|pages| pages.contains(&page))
    }
}

/// True if a redirect stays on the site that was found: the same host, with or without `www.`, and never from
/// https back to http.
pub(super) fn stays_on_site(from: &Url, to: &Url) -> bool {
    let bare = |url: &Url| {
        let host = url.host_str().unwrap_or_default().to_ascii_lowercase();
        host.strip_prefix("www.").map_or(host.clone(), str::to_owned)
    };
    let keeps_tls = from.scheme() == to.scheme() || to.scheme() == "https";
    keeps_tls && to.port().is_none() && bare(from) == bare(to)
}

/// A page at the usual port of a public host's name.
pub(super) fn read_page_url(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let is_page = matches!(url.scheme(), "http" | "https")
        && url.port().is_none()
        && url.username().is_empty()
        && url.password().is_none()
        && url.domain().is_some();
    is_page.then(|| without_fragment(url))
}

fn without_fragment(mut url: Url) -> Url {
    url.set_fragment(None);
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(name: &str) -> ThreadKey {
        ThreadKey { namespace: "team".to_owned(), name: name.to_owned() }
    }

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn a_thread_may_open_what_it_has_found_and_nothing_else() {
        let found = FoundPages::default();
        let hits = [
            "https://docs.example/guide?v=2#top",
            "https://10.0.0.1/x",
            "ftp://a.example/",
            "https://b.example:8443/",
        ];
        found.remember(&thread("a"), hits.into_iter());
        assert!(found.has(&thread("a"), &url("https://docs.example/guide?v=2")));
        assert!(found.has(&thread("a"), &url("https://docs.example/guide?v=2#other")));
        for other in [
            "https://docs.example/guide",
            "https://docs.example/",
            "http://docs.example/guide?v=2",
            "https://10.0.0.1/x",
            "https://b.example:8443/",
        ] {
            assert!(!found.has(&thread("a"), &url(other)), "{other}");
        }
        assert!(!found.has(&thread("b"), &url("https://docs.example/guide?v=2")), "another thread");
    }

    #[test]
    fn memory_is_bounded() {
        let found = FoundPages::default();
        let many: Vec<String> = (0..150).map(|n| format!("https://a.example/{n}")).collect();
        found.remember(&thread("a"), many.iter().map(String::as_str));
        assert!(found.has(&thread("a"), &url("https://a.example/149")));
        assert!(!found.has(&thread("a"), &url("https://a.example/0")));
        for n in 0..THREADS {
            found.remember(&thread(&format!("t{n}")), std::iter::empty());
        }
        assert!(!found.has(&thread("a"), &url("https://a.example/149")), "the oldest one");
        assert!(found.inner.lock().pages.len() <= THREADS);
    }

    #[test]
    fn a_redirect_may_not_lead_to_another_site() {
        for (from, to, stays) in [
            ("http://example.com/a", "https://www.example.com/a", true),
            ("https://www.example.com/a", "https://example.com/b", true),
            ("https://example.com/a", "http://example.com/a", false),
            ("https://example.com/a", "https://evil.example/a", false),
            ("https://example.com/a", "https://example.com:8443/a", false),
        ] {
            assert_eq!(stays_on_site(&url(from), &url(to)), stays, "{from} → {to}");
        }
    }
}
