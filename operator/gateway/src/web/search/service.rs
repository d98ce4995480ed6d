//! The wire of search services: where each is asked, with what, and what its answers say. Pure.

use codebutler_crds::web::SearchService;
use codebutler_crds::wire::{WebResult, WebResults};
use serde::Deserialize;
use serde_json::Value;
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
    results: Vec<Value>,
}

#[derive(Deserialize)]
struct SearxngAnswer {
    results: Vec<Value>,
    /// Engines that did not answer, each with its trouble.
    #[serde(default)]
    unresponsive_engines: Vec<Value>,
}

/// The results of an answer. Fields of an odd form are taken as missing: SearXNG hands on what its engines say.
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
    let read = |hit: &Value| {
        let url = hit["url"].as_str()?;
        let has_address = url.starts_with("http://") || url.starts_with("https://");
        let snippet = hit["content"].as_str().or_else(|| hit["description"].as_str());
        has_address.then(|| WebResult {
            title: short(hit["title"].as_str(), 200),
            url: short(Some(url), 2000),
            snippet: short(snippet, 600),
        })
    };
    let results = hits.iter().filter_map(read).take(MOST);
    Ok(WebResults { results: results.collect(), note })
}

fn short(text: Option<&str>, most: usize) -> String {
    text.unwrap_or_default().chars().take(most).collect()
}

/// A sentence about engines of SearXNG that did not answer: what they know is missing.
fn describe_silent(engines: &[Value]) -> Option<String> {
    let words = |engine: &Value| {
        let words = engine.as_array().into_iter().flatten().filter_map(Value::as_str);
        words.take(2).collect::<Vec<_>>().join(": ")
    };
    let named = engines.iter().map(words).filter(|text| !text.is_empty()).take(ENGINES);
    let named: Vec<String> =
        named.map(|text| text.chars().filter(|c| !c.is_control()).take(ENGINE).collect()).collect();
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
    fn an_odd_result_does_not_spoil_the_others() {
        let answer = br#"{"results":[7,{"title":["T"],"url":"https://a.dev","content":null,"description":"d"},
            {"title":"T","url":"https://b.dev","content":"c","description":"d"},{"url":{"x":1}}],
            "unresponsive_engines":[["bing",null],"google",[7]]}"#;
        let found = read_results(SearchService::SearXng, answer).unwrap();
        let told: Vec<_> =
            found.results.iter().map(|hit| (&*hit.title, &*hit.url, &*hit.snippet)).collect();
        assert_eq!(told, [("", "https://a.dev", "d"), ("T", "https://b.dev", "c")]);
        assert!(found.note.unwrap().ends_with("missing: bing"));
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
