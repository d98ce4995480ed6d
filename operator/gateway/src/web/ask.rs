//! One request for a page: the rules that it is asked under, where a redirect leads, and why there is no page.

use std::time::Duration;

use codebutler_crds::policy::EgressSpec;
use codebutler_crds::web::WebSpec;
use codebutler_crds::wire::{ErrorCode, MAX_SHARED_FILE};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::dial::{find_refusal, find_trouble};
use codebutler_gateway_core::egress::{EgressRefusal, ThreadEgress};
use http::StatusCode;
use http::header::{ACCEPT, LOCATION};
use url::Url;

/// Timeout of one page, redirects included.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);
pub(super) const MOST_REDIRECTS: usize = 5;
const LONGEST_URL: usize = 2048;

/// Reason why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// It is not an http(s) URL.
    #[error("`url` has to be a whole http:// or https:// URL without credentials")]
    Url,
    /// The rules for connections.
    #[error(transparent)]
    Refused(#[from] EgressRefusal),
    /// It redirects too often.
    #[error("the page redirects more than {MOST_REDIRECTS} times")]
    Redirects,
    #[error("the page is `{0}`: only text and documents can be read")]
    Type(String),
    #[error("the text has {0} pages only")]
    Page(u32),
    #[error("the file has more than {} MB", MAX_SHARED_FILE >> 20)]
    Large,
    /// The site does not want programs to read it.
    #[error(
        "robots.txt of {host} asks programs not to read this page (`Disallow: {rule}`), so it is not read. Look for \
         another source, or ask a person to open it; where the site allows it all the same, a person can set \
         spec.web.robots: Ignore"
    )]
    Robots { host: String, rule: String },
    /// Nobody knows what the site wants.
    #[error(
        "robots.txt of {host} can't be read ({why}), so it is not known whether this page may be: try again later. A \
         person can set spec.web.robots: Ignore"
    )]
    RobotsUnknown { host: String, why: String },
    #[error("the page did not come within {} seconds", TIMEOUT.as_secs())]
    Slow,
    /// Anything else on the way.
    #[error("the page can't be had: {0}")]
    Failed(&'static str),
}

impl FetchError {
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Url | Self::Page(_) => "form",
            Self::Refused(refusal) => refusal.reason(),
            Self::Redirects => "redirects",
            Self::Type(_) => "type",
            Self::Large => "size",
            Self::Robots { .. } | Self::RobotsUnknown { .. } => "robots",
            Self::Slow | Self::Failed(_) => "unreachable",
        }
    }
}

impl From<FetchError> for ApiError {
    fn from(error: FetchError) -> Self {
        match error {
            FetchError::Refused(refusal) => refusal.into(),
            FetchError::Robots { .. } => Self::new(ErrorCode::Forbidden, error.to_string()),
            FetchError::Url | FetchError::Type(_) | FetchError::Page(_) | FetchError::Large => {
                Self::new(ErrorCode::InvalidRequest, error.to_string())
            }
            _ => Self::new(ErrorCode::Upstream, error.to_string()),
        }
    }
}

/// Rules that say which pages may be read.
pub(super) struct PageRules<'a> {
    /// Hosts that commands reach, too.
    pub egress: &'a EgressSpec,
    pub web: &'a WebSpec,
    /// True for pages that a search has found.
    pub is_found: &'a (dyn Fn(&Url) -> bool + Sync),
}

pub(super) fn parse_url(text: &str) -> Result<Url, FetchError> {
    let url = Url::parse(text).map_err(|_| FetchError::Url)?;
    check_url(&url).map(|()| url)
}

fn check_url(url: &Url) -> Result<(), FetchError> {
    let plain = matches!(url.scheme(), "http" | "https")
        && url.username().is_empty()
        && url.password().is_none()
        && url.as_str().len() <= LONGEST_URL;
    plain.then_some(()).ok_or(FetchError::Url)
}

/// The request for a page that may be asked for.
pub(super) fn page_request(
    egress: &ThreadEgress,
    rules: &PageRules<'_>,
    url: &Url,
    found: bool,
) -> Result<reqwest::RequestBuilder, FetchError> {
    let listed = [rules.web.into(), rules.egress.into()];
    let request = egress.get(if found { None } else { Some(&listed) }, url)?;
    let kinds = "text/html, text/plain, text/markdown, application/json;q=0.9, */*;q=0.1";
    Ok(request.header(ACCEPT, kinds))
}

/// Connects to addresses that were looked at and to no other.
pub(super) async fn ask_host(
    request: reqwest::RequestBuilder,
    url: &Url,
) -> Result<reqwest::Response, FetchError> {
    request.send().await.map_err(|error| match (find_refusal(&error), find_trouble(&error)) {
        (Some(refusal), _) => refusal.into(),
        (None, Some(why)) => {
            let host = url.host_str().unwrap_or_default();
            EgressRefusal::Barred(host.to_owned(), why).into()
        }
        _ if error.is_connect() => FetchError::Failed("no connection"),
        _ => FetchError::Failed("no answer"),
    })
}

/// Target of an answer that is a redirect.
pub(super) fn next_address(
    url: &Url,
    answer: &reqwest::Response,
) -> Result<Option<Url>, FetchError> {
    let moved = [
        StatusCode::MOVED_PERMANENTLY,
        StatusCode::FOUND,
        StatusCode::SEE_OTHER,
        StatusCode::TEMPORARY_REDIRECT,
        StatusCode::PERMANENT_REDIRECT,
    ];
    if !moved.contains(&answer.status()) {
        return Ok(None);
    }
    let to = answer.headers().get(LOCATION).and_then(|to| to.to_str().ok());
    let to =
        to.and_then(|to| url.join(to).ok()).ok_or(FetchError::Failed("a redirect to nowhere"))?;
    check_url(&to)?;
    Ok(Some(to))
}
