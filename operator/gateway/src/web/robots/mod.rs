//! Wishes of sites about programs: each host's robots.txt is read once an hour, and what it closes is not read. It is
//! fetched under the rules of pages, so it opens no way to anywhere else.

mod kept;
mod rules;

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use codebutler_gateway_core::egress::ThreadEgress;
use http::header::CONTENT_TYPE;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};
use url::{Origin, Url};

use self::kept::SizedCache;
use self::rules::RobotsRules;
use super::ask::{FetchError, MOST_REDIRECTS, PageRules, ask_host, next_address, page_request};
use super::found::stays_on_site;

/// Timeout of one file, redirects included.
const TIMEOUT: Duration = Duration::from_secs(8);
/// Maximum bytes that are read of one: RFC 9309 asks for 500 KiB at least.
const MOST_READ: usize = 512 << 10;
/// Time for which it is not read again, and the same where it could not be read.
const FRESH: Duration = Duration::from_hours(1);
const FRESH_TROUBLE: Duration = Duration::from_mins(1);
/// Hosts whose rules are kept at most, the bytes that they take together, and those of one beside its rules.
const HOSTS: usize = 512;
const MOST_KEPT: usize = 16 << 20;
const BESIDE: usize = 256;
/// Longest rule that a sentence repeats.
const SHOWN: usize = 100;

/// Wishes of a host, by its robots.txt.
#[derive(Clone, Debug)]
enum HostWish {
    Rules(Arc<RobotsRules>),
    /// It leads to where this Repo may not read: no rule for it, and no answer for other Repos.
    Elsewhere,
    /// It could not be read, and why: nobody knows what it says.
    Trouble(String),
}

/// The wishes of hosts that were asked lately.
pub struct RobotsCache(Mutex<SizedCache<Origin, (Instant, HostWish)>>);

impl Default for RobotsCache {
    fn default() -> Self {
        Self(Mutex::new(SizedCache::new(HOSTS, MOST_KEPT)))
    }
}

impl RobotsCache {
    /// Makes sure that programs may read a page. `found`: true for pages that a search has found.
    ///
    /// # Errors
    /// When they may not, when nobody knows, or when its host may not or can't be asked at all.
    pub(super) async fn check(
        &self,
        egress: &ThreadEgress,
        rules: &PageRules<'_>,
        url: &Url,
        found: bool,
    ) -> Result<(), FetchError> {
        let known = self.0.lock().get(&url.origin()).cloned();
        let known = known.filter(|(at, wish)| {
            let fresh = if matches!(wish, HostWish::Rules(_)) { FRESH } else { FRESH_TROUBLE };
            at.elapsed() < fresh
        });
        let wish = match known {
            Some((_, wish)) => wish,
            None => self.ask(egress, rules, url, found).await?,
        };
        let host = || url.host_str().unwrap_or_default().to_owned();
        match wish {
            HostWish::Elsewhere => Ok(()),
            HostWish::Trouble(why) => Err(FetchError::RobotsUnknown { host: host(), why }),
            HostWish::Rules(rules) => {
                let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
                match rules.find_ban(&format!("{}{query}", url.path())) {
                    Some(rule) => {
                        let rule = rule.chars().filter(|c| *c != '`').take(SHOWN).collect();
                        Err(FetchError::Robots { host: host(), rule })
                    }
                    None => Ok(()),
                }
            }
        }
    }

    /// Reads the file and keeps what it says.
    async fn ask(
        &self,
        egress: &ThreadEgress,
        rules: &PageRules<'_>,
        url: &Url,
        found: bool,
    ) -> Result<HostWish, FetchError> {
        let mut file = url.clone();
        file.set_path("/robots.txt");
        file.set_query(None);
        file.set_fragment(None);
        let reading = read_wish(egress, rules, file, found);
        let wish = match timeout(TIMEOUT, reading).await {
            Ok(wish) => wish?,
            Err(_) => HostWish::Trouble(format!("no answer within {} seconds", TIMEOUT.as_secs())),
        };
        let size = match &wish {
            HostWish::Rules(rules) => rules.size(),
            HostWish::Elsewhere => return Ok(wish),
            HostWish::Trouble(why) => why.len(),
        };
        let kept = (Instant::now(), wish.clone());
        self.0.lock().insert(url.origin(), kept, size + BESIDE);
        Ok(wish)
    }
}

/// The wish that a file's host answers with. Its page could not be had either where this fails.
async fn read_wish(
    egress: &ThreadEgress,
    rules: &PageRules<'_>,
    file: Url,
    mut found: bool,
) -> Result<HostWish, FetchError> {
    let none = || HostWish::Rules(Arc::default());
    let (mut url, mut hops) = (file, 0);
    let answer = loop {
        let request = page_request(egress, rules, &url, found);
        let sent = match request {
            Ok(request) => ask_host(request, &url).await,
            Err(error) => Err(error),
        };
        let answer = match sent {
            Ok(answer) => answer,
            Err(error) if hops == 0 => return Err(error),
            Err(FetchError::Failed(why)) => return Ok(HostWish::Trouble(why.to_owned())),
            Err(_) => return Ok(HostWish::Elsewhere),
        };
        match next_address(&url, &answer) {
            Ok(None) => break answer,
            Ok(Some(elsewhere)) if hops < MOST_REDIRECTS => {
                found = (rules.is_found)(&elsewhere) || found && stays_on_site(&url, &elsewhere);
                url = elsewhere;
                hops += 1;
            }
            Ok(Some(_)) | Err(_) => return Ok(none()),
        }
    };
    Ok(match answer.status() {
        // A page for everything that is asked for, or a picture.
        status if status.is_success() && !is_text(&answer) => none(),
        status if status.is_success() => match read_beginning(answer).await {
            Some(file) => HostWish::Rules(Arc::new(RobotsRules::parse(&file))),
            None => HostWish::Trouble("it broke off".to_owned()),
        },
        status if status.is_server_error() => {
            HostWish::Trouble(format!("status {}", status.as_u16()))
        }
        _ => none(),
    })
}

/// True where a server calls its answer text, or says nothing of it.
fn is_text(answer: &reqwest::Response) -> bool {
    let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_none_or(|kind| {
        let kind = kind.trim().to_ascii_lowercase();
        (kind.starts_with("text/") && !kind.starts_with("text/html"))
            || kind.starts_with("application/octet-stream")
    })
}

/// The file as far as it is looked at.
async fn read_beginning(mut answer: reqwest::Response) -> Option<BytesMut> {
    let mut file = BytesMut::new();
    while file.len() < MOST_READ {
        match answer.chunk().await {
            Ok(Some(piece)) => file.extend_from_slice(&piece),
            Ok(None) => return Some(file),
            Err(_) => return None,
        }
    }
    file.truncate(MOST_READ);
    Some(file)
}
