//! One page: limits of size, time and type, and every redirect checked like the first address.

use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use codebutler_crds::policy::EgressSpec;
use codebutler_crds::web::WebSpec;
use codebutler_crds::wire::{ErrorCode, MAX_SHARED_FILE, WebFetch, WebPage};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::dial::{find_refusal, find_trouble};
use codebutler_gateway_core::egress::{EgressRefusal, ThreadEgress};
use codebutler_gateway_core::low_priority::run_low_priority;
use futures::stream::{self, BoxStream, StreamExt as _};
use http::StatusCode;
use http::header::{ACCEPT, CONTENT_TYPE, LOCATION};
use tokio::time::Instant;
use url::Url;

use super::found::stays_on_site;
use super::text;

/// Timeout of one page, redirects included.
const TIMEOUT: Duration = Duration::from_secs(30);
const MOST_REDIRECTS: usize = 5;
/// Maximum bytes that are read of a page, and of its text that are handed out together: less than a role is shown of
/// a result.
const MOST_READ: usize = 4 << 20;
const PAGE: usize = 40_000;
/// Maximum bytes of a page that has to be laid out.
const MOST_HTML: usize = 1 << 20;
/// Timeout of a file, redirects included.
const FILE_TIMEOUT: Duration = Duration::from_mins(3);
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
            Self::Slow | Self::Failed(_) => "unreachable",
        }
    }
}

impl From<FetchError> for ApiError {
    fn from(error: FetchError) -> Self {
        match error {
            FetchError::Refused(refusal) => refusal.into(),
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

/// The page at `url`, as text.
///
/// # Errors
/// In words.
pub(super) async fn fetch_page(
    egress: &ThreadEgress,
    rules: &PageRules<'_>,
    wanted: &WebFetch,
) -> Result<WebPage, FetchError> {
    let fetching = async {
        let (url, answer) = open_address(egress, rules, &wanted.url).await?;
        read_page(egress, &url, answer, wanted.page.unwrap_or(1)).await
    };
    tokio::time::timeout(TIMEOUT, fetching).await.map_err(|_| FetchError::Slow)?
}

/// A fetched file that is no text.
pub(super) struct WebFile {
    /// URL of the file, after redirects.
    pub url: Url,
    /// The last part of its address.
    pub name: String,
    /// Ends with an error where the file is larger than what is handed out, or slow.
    pub content: BoxStream<'static, io::Result<Bytes>>,
}

/// The document at `url`, piece by piece.
///
/// # Errors
/// In words.
pub(super) async fn fetch_file(
    egress: &ThreadEgress,
    rules: &PageRules<'_>,
    url: &str,
) -> Result<WebFile, FetchError> {
    let deadline = Instant::now() + FILE_TIMEOUT;
    let opening = open_address(egress, rules, url);
    let opened = tokio::time::timeout(TIMEOUT, opening).await;
    let (url, answer) = opened.map_err(|_| FetchError::Slow)??;
    let kind = read_kind(&answer);
    if !answer.status().is_success() || !text::is_document(&kind, &url) {
        return Err(FetchError::Type(kind));
    }
    if answer.content_length().is_some_and(|length| length > MAX_SHARED_FILE) {
        return Err(FetchError::Large);
    }
    let name = url.path_segments().and_then(|mut parts| parts.next_back()).unwrap_or_default();
    let name = name.to_owned();
    let content = stream::try_unfold((answer, 0), move |(mut answer, sent)| async move {
        let broken = |why: &str| io::Error::other(why.to_owned());
        let piece = tokio::time::timeout_at(deadline, answer.chunk()).await;
        let piece = piece.map_err(|_| broken("it takes too long"))?;
        let Some(piece) = piece.map_err(|_| broken("it broke off"))? else { return Ok(None) };
        let sent = sent + piece.len() as u64;
        if sent > MAX_SHARED_FILE {
            return Err(broken("it is too large"));
        }
        Ok(Some((piece, (answer, sent))))
    });
    Ok(WebFile { url, name, content: content.boxed() })
}

/// The answer of the address that a URL leads to.
async fn open_address(
    egress: &ThreadEgress,
    rules: &PageRules<'_>,
    url: &str,
) -> Result<(Url, reqwest::Response), FetchError> {
    let mut url = parse_url(url)?;
    let mut found = (rules.is_found)(&url);
    for _ in 0..=MOST_REDIRECTS {
        let answer = ask_host(egress, rules, &url, found).await?;
        match next_address(&url, &answer)? {
            Some(elsewhere) => {
                found = (rules.is_found)(&elsewhere) || found && stays_on_site(&url, &elsewhere);
                url = elsewhere;
            }
            None => return Ok((url, answer)),
        }
    }
    Err(FetchError::Redirects)
}

/// The type that a server names, without its parameters.
fn read_kind(answer: &reqwest::Response) -> String {
    let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or("text/plain").split(';').next().unwrap_or_default();
    kind.trim().to_ascii_lowercase().chars().take(100).collect()
}

fn parse_url(text: &str) -> Result<Url, FetchError> {
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

/// Connects to addresses that were looked at and to no other.
async fn ask_host(
    egress: &ThreadEgress,
    rules: &PageRules<'_>,
    url: &Url,
    found: bool,
) -> Result<reqwest::Response, FetchError> {
    let listed = [rules.web.into(), rules.egress.into()];
    egress
        .get(if found { None } else { Some(&listed) }, url)?
        .header(ACCEPT, "text/html, text/plain, text/markdown, application/json;q=0.9, */*;q=0.1")
        .send()
        .await
        .map_err(|error| match (find_refusal(&error), find_trouble(&error)) {
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
fn next_address(url: &Url, answer: &reqwest::Response) -> Result<Option<Url>, FetchError> {
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

async fn read_page(
    egress: &ThreadEgress,
    url: &Url,
    mut answer: reqwest::Response,
    page: u32,
) -> Result<WebPage, FetchError> {
    let status = answer.status().as_u16();
    let kind = read_kind(&answer);
    let mut read = WebPage {
        url: url.to_string(),
        status,
        content_type: kind.clone(),
        text: String::new(),
        page: 1,
        pages: 1,
        truncated: false,
        is_document: false,
    };
    if !text::is_readable(&kind) {
        read.is_document = status < 400 && text::is_document(&kind, url);
        return if read.is_document { Ok(read) } else { Err(FetchError::Type(kind)) };
    }
    let html = text::is_html(&kind);
    let most = if html { MOST_HTML } else { MOST_READ };
    let mut body = BytesMut::new();
    while let Some(chunk) = answer.chunk().await.map_err(|_| FetchError::Failed("it broke off"))? {
        let room = most - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            read.truncated = true;
            break;
        }
    }
    // A hostile page may take long to lay out: not on a thread that serves others.
    let turn = egress.layout_turn().await.ok_or(FetchError::Failed("the gateway stops"))?;
    let made = run_low_priority(move || {
        let made = text::page_text(&body, html);
        // The turn lasts as long as the layout does, even if nobody waits for it any more.
        drop(turn);
        made
    });
    let text = made.await.map_err(|_| FetchError::Failed("it can't be read"))?;
    let pages = text::split_pages(&text, PAGE);
    let count = u32::try_from(pages.len()).unwrap_or(u32::MAX);
    let own = usize::try_from(page).ok().and_then(|page| pages.get(page.checked_sub(1)?));
    let own = own.ok_or(FetchError::Page(count))?;
    Ok(WebPage { text: (*own).to_owned(), page, pages: count, ..read })
}
