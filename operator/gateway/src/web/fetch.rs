//! One page: limits of size, time and type, and every redirect checked like the first address.

use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use codebutler_crds::web::RobotsPolicy;
use codebutler_crds::wire::{MAX_SHARED_FILE, WebFetch, WebPage};
use codebutler_gateway_core::egress::ThreadEgress;
use codebutler_gateway_core::low_priority::run_low_priority;
use futures::stream::{self, BoxStream, StreamExt as _};
use http::header::CONTENT_TYPE;
use tokio::time::Instant;
use url::Url;

use super::ask::{
    FetchError, MOST_REDIRECTS, PageRules, TIMEOUT, ask_host, next_address, page_request, parse_url,
};
use super::charset::{decode_text, named_encoding};
use super::found::stays_on_site;
use super::robots::RobotsCache;
use super::text::{self, AnswerForm};

/// Maximum bytes that are read of a page, and of its text that are handed out together: less than a role is shown of
/// a result.
const MOST_READ: usize = 4 << 20;
const PAGE: usize = 40_000;
/// Maximum bytes of a page that has to be laid out.
const MOST_HTML: usize = 1 << 20;
/// Bytes by which an answer is known.
const HEAD: usize = 1024;
/// Timeout of a file, redirects included.
const FILE_TIMEOUT: Duration = Duration::from_mins(3);

/// Connections to the outside, and the wishes of the sites there.
#[derive(Clone, Copy)]
pub(super) struct PageWays<'a> {
    pub egress: &'a ThreadEgress,
    pub robots: &'a RobotsCache,
}

/// The page at `url`, as text.
///
/// # Errors
/// In words.
pub(super) async fn fetch_page(
    ways: PageWays<'_>,
    rules: &PageRules<'_>,
    wanted: &WebFetch,
) -> Result<WebPage, FetchError> {
    let fetching = async {
        let (url, answer) = open_address(ways, rules, &wanted.url).await?;
        read_page(ways.egress, &url, answer, wanted.page.unwrap_or(1)).await
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
    ways: PageWays<'_>,
    rules: &PageRules<'_>,
    url: &str,
) -> Result<WebFile, FetchError> {
    let deadline = Instant::now() + FILE_TIMEOUT;
    let opening = async {
        let (url, mut answer) = open_address(ways, rules, url).await?;
        if answer.content_length().is_some_and(|length| length > MAX_SHARED_FILE) {
            return Err(FetchError::Large);
        }
        let mut head = BytesMut::new();
        fill(&mut answer, &mut head, HEAD).await?;
        Ok::<_, FetchError>((url, answer, head.freeze()))
    };
    let opened = tokio::time::timeout(TIMEOUT, opening).await;
    let (url, answer, head) = opened.map_err(|_| FetchError::Slow)??;
    let kind = read_kind(&answer);
    let form = text::answer_form(&kind, &url, &head);
    if !answer.status().is_success() || form != AnswerForm::Document {
        return Err(FetchError::Type(kind));
    }
    let name = url.path_segments().and_then(|mut parts| parts.next_back()).unwrap_or_default();
    let name = name.to_owned();
    let sent = head.len() as u64;
    let rest = stream::try_unfold((answer, sent), move |(mut answer, sent)| async move {
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
    let content = stream::once(std::future::ready(Ok::<_, io::Error>(head))).chain(rest);
    Ok(WebFile { url, name, content: content.boxed() })
}

/// The answer of the address that a URL leads to.
async fn open_address(
    PageWays { egress, robots }: PageWays<'_>,
    rules: &PageRules<'_>,
    url: &str,
) -> Result<(Url, reqwest::Response), FetchError> {
    let mut url = parse_url(url)?;
    let mut found = (rules.is_found)(&url);
    for _ in 0..=MOST_REDIRECTS {
        let request = page_request(egress, rules, &url, found)?;
        if rules.web.robots == RobotsPolicy::Respect {
            robots.check(egress, rules, &url, found).await?;
        }
        let answer = ask_host(request, &url).await?;
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

fn content_type(answer: &reqwest::Response) -> &str {
    let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.unwrap_or("text/plain")
}

/// The type that a server names, without its parameters.
fn read_kind(answer: &reqwest::Response) -> String {
    let kind = content_type(answer).split(';').next().unwrap_or_default();
    kind.trim().to_ascii_lowercase().chars().take(100).collect()
}

/// Reads on until so many bytes are there, or the answer ends.
async fn fill(
    answer: &mut reqwest::Response,
    body: &mut BytesMut,
    least: usize,
) -> Result<(), FetchError> {
    while body.len() < least {
        let chunk = answer.chunk().await.map_err(|_| FetchError::Failed("it broke off"))?;
        let Some(chunk) = chunk else { break };
        body.extend_from_slice(&chunk);
    }
    Ok(())
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
    let mut body = BytesMut::new();
    fill(&mut answer, &mut body, HEAD).await?;
    match text::answer_form(&kind, url, &body) {
        AnswerForm::Text => {}
        AnswerForm::Document if status < 400 => {
            read.is_document = true;
            return Ok(read);
        }
        AnswerForm::Document | AnswerForm::Other => return Err(FetchError::Type(kind)),
    }
    let html = text::is_html(&kind);
    let most = if html { MOST_HTML } else { MOST_READ };
    fill(&mut answer, &mut body, most + 1).await?;
    read.truncated = body.len() > most;
    body.truncate(most);
    let named = named_encoding(content_type(&answer));
    let is_markup = html || text::is_xml(&kind);
    // A hostile page may take long to lay out: not on a thread that serves others.
    let turn = egress.layout_turn().await.ok_or(FetchError::Failed("the gateway stops"))?;
    let made = run_low_priority(move || {
        let made = text::page_text(decode_text(&body, named, is_markup).as_bytes(), html);
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
