//! The wire of search services: where each is asked, with what, and what its answers say. Pure.

use codebutler_crds::web::SearchService;
use codebutler_crds::wire::{WebResult, WebResults};
use serde::Deserialize;
use url::Url;

/// Maximum number of results.
const MOST: usize = 10;
/// Base URL of Brave's own API.
const BRAVE: &str = "https://api.search.brave.com";
/// Search engines behind SearXNG that are named, and the longest name of one, with its trouble.
const ENGINES: usize = 5;
const ENGINE: usize = 80;

/// The URL that a search of the service is asked at. `base` is what somebody wrote down, nothing for the service's own.
pub(super) fn search_url(service: SearchService, base: Option<&str>) -> Result<Url, WrongBase> {
    let (own, path): (_, &[&str]) = match service {
        SearchService::Brave => (Some(BRAVE), &["res", "v1", "web", "search"]),
        SearchService::SearXng => (None, &["search"]),
    };
    let base = base.or(own).ok_or(WrongBase::Missing)?;
    let mut url = Url::parse(base.trim()).map_err(|_| WrongBase::Unusable)?;
    let is_base = matches!(url.scheme(), "http" | "https")
        && url.host_str().is_some_and(|host| !host.is_empty())
        && url.query().is_none()
        && url.fragment().is_none();
    if !is_base {
        return Err(WrongBase::Unusable);
    }
    let mut segments = url.path_segments_mut().map_err(|()| WrongBase::Unusable)?;
    segments.pop_if_empty().extend(path);
    drop(segments);
    Ok(url)
}

/// Reason why there is no URL to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WrongBase {
    Missing,
    Unusable,
}

/// Parameters and headers of a search, but for the key.
pub(super) fn ask(
    service: SearchService,
    request: reqwest::RequestBuilder,
    query: &str,
) -> reqwest::RequestBuilder {
    let request = request.query(&[("q", query)]).header(http::header::ACCEPT, "application/json");
    match service {
        // Marks of what matched would be tags in the text that the model reads.
        SearchService::Brave => request
            .query(&[("count", "10"), ("text_decorations", "false")])
            .header(http::header::CACHE_CONTROL, "no-cache"),
        SearchService::SearXng => request.query(&[("format", "json")]),
    }
}

#[derive(Deserialize)]
struct BraveAnswer {
    #[serde(default)]
    web: Option<BraveWeb>,
}

#[derive(Default, Deserialize)]
struct BraveWeb {
    #[serde(default)]
    results: Vec<Hit>,
}

#[derive(Deserialize)]
struct SearxngAnswer {
    results: Vec<Hit>,
    /// Engines that did not answer, each with its trouble.
    #[serde(default)]
    unresponsive_engines: Vec<Vec<String>>,
}

#[derive(Deserialize)]
struct Hit {
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    url: Option<String>,
    #[serde(default, alias = "content")]
    description: Option<String>,
}

/// The results of an answer.
///
/// # Errors
/// When it is none of the service's.
pub(super) fn read_results(service: SearchService, body: &[u8]) -> serde_json::Result<WebResults> {
    let (hits, note) = match service {
        // Brave leaves `web` out where it has found nothing.
        SearchService::Brave => {
            let answer: BraveAnswer = serde_json::from_slice(body)?;
            (answer.web.unwrap_or_default().results, None)
        }
        SearchService::SearXng => {
            let answer: SearxngAnswer = serde_json::from_slice(body)?;
            let note = describe_silent(&answer.unresponsive_engines);
            (answer.results, note)
        }
    };
    let short = |text: Option<String>, most: usize| {
        text.unwrap_or_default().chars().take(most).collect::<String>()
    };
    let has_address = |hit: &Hit| {
        hit.url
            .as_deref()
            .is_some_and(|url| url.starts_with("http://") || url.starts_with("https://"))
    };
    let results = hits.into_iter().filter(has_address).take(MOST);
    let results = results.map(|hit| WebResult {
        title: short(hit.title, 200),
        url: short(hit.url, 2000),
        snippet: short(hit.description, 600),
    });
    Ok(WebResults { results: results.collect(), note })
}

/// A sentence about engines of SearXNG that did not answer: what they know is missing.
fn describe_silent(engines: &[Vec<String>]) -> Option<String> {
    let named = engines.iter().filter(|engine| !engine.is_empty()).take(ENGINES);
    let named: Vec<String> = named
        .map(|engine| engine.iter().take(2).map(String::as_str).collect::<Vec<_>>().join(": "))
        .map(|text| text.chars().filter(|c| !c.is_control()).take(ENGINE).collect())
        .collect();
    (!named.is_empty()).then(|| {
        format!("these search engines did not answer, so sources are missing: {}", named.join("; "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_service_is_asked_at_its_own_path_below_the_base() {
        let url = |service, base| search_url(service, base).map(|url| url.to_string());
        let brave = "https://api.search.brave.com/res/v1/web/search".to_owned();
        assert_eq!(url(SearchService::Brave, None), Ok(brave));
        let own = "http://proxy.example:8080/brave/res/v1/web/search".to_owned();
        assert_eq!(url(SearchService::Brave, Some("http://proxy.example:8080/brave/")), Ok(own));
        let searxng = "https://search.example/searx/search".to_owned();
        assert_eq!(url(SearchService::SearXng, Some("https://search.example/searx")), Ok(searxng));
        assert_eq!(url(SearchService::SearXng, None), Err(WrongBase::Missing));
        for wrong in
            ["search.example", "ftp://search.example", "https://", "https://a.example/?q=x", "x:y"]
        {
            assert_eq!(
                url(SearchService::SearXng, Some(wrong)),
                Err(WrongBase::Unusable),
                "{wrong}"
            );
        }
    }

    #[test]
    fn both_services_answers_are_read() {
        let brave = br#"{"type":"search","web":{"type":"search","results":[{"title":"T","url":"https://a.dev","description":"d"},
            {"title":"no url"},{"title":"script","url":"javascript:x()"},{"title":null,"url":"https://b.dev","description":null}]}}"#;
        let searxng = br#"{"query":"q","results":[{"title":"T","url":"https://a.dev","content":"d","engine":"x"}],
            "unresponsive_engines":[["google","Suspended: CAPTCHA"],["bing"],[]]}"#;
        let wanted =
            WebResult { title: "T".into(), url: "https://a.dev".into(), snippet: "d".into() };
        let read = |service, body: &[u8]| read_results(service, body).unwrap();
        let found = read(SearchService::Brave, brave);
        assert_eq!((found.results.len(), &found.results[0], found.note), (2, &wanted, None));
        let found = read(SearchService::SearXng, searxng);
        assert_eq!(found.results, [wanted]);
        let note = found.note.unwrap();
        assert!(note.ends_with("google: Suspended: CAPTCHA; bing"), "{note}");
    }

    #[test]
    fn an_answer_without_results_is_told_from_what_is_no_answer() {
        for nothing in [&b"{}"[..], br#"{"web":null}"#, br#"{"web":{"results":[]}}"#] {
            let found = read_results(SearchService::Brave, nothing).unwrap();
            assert_eq!((found.results.len(), found.note), (0, None));
        }
        read_results(SearchService::Brave, b"<html>").unwrap_err();
        read_results(SearchService::SearXng, br#"{"error":"x"}"#).unwrap_err();
    }
}
