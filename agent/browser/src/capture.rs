//! One page, in several sizes and colours.

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use url::Url;

use super::devtools::PageTab;
use super::program::RunningBrowser;
use super::{BrowserError, ColorScheme, ScreenSize};

/// Time for all pictures of a page.
const TOTAL: Duration = Duration::from_secs(90);
/// Time for one load: a page that goes on loading is shown as it is then.
const LOAD: Duration = Duration::from_secs(20);
/// Time without a request after which a page counts as loaded.
const QUIET: Duration = Duration::from_millis(500);
/// Longest wait for a page to become quiet.
const SETTLE: Duration = Duration::from_secs(5);
/// Lowest part of a page that is in its picture, in its own pixels.
const HEIGHT: u32 = 4_000;
/// Complaints of a page that are kept, and their length.
const COMPLAINTS: usize = 10;
const COMPLAINT: usize = 300;

/// Screenshot of a page in one size and one color scheme.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageShot {
    pub size: ScreenSize,
    pub scheme: ColorScheme,
    /// PNG file in base64.
    pub png: String,
    /// True if the page is longer than its picture.
    pub is_cut: bool,
}

/// A page, and what it said of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageReport {
    /// The answer of its server.
    pub status: Option<u16>,
    /// Address of the page, after redirects.
    pub address: String,
    pub title: String,
    /// Errors of its scripts, and requests that failed.
    pub complaints: Vec<String>,
    /// True if the page was still loading when its picture was taken.
    pub is_unfinished: bool,
    /// Screenshots, in the order of the requested frames.
    pub shots: Vec<PageShot>,
}

/// Takes pictures of a page in each of the sizes and colours. The folder is written to.
///
/// # Errors
/// When there is no picture.
pub async fn capture_page(
    (program, folder): (&Path, &Path),
    url: &Url,
    frames: &[(ScreenSize, ColorScheme)],
) -> Result<PageReport, BrowserError> {
    let browser = RunningBrowser::start(program, folder).await?;
    let capture = async {
        let mut tab = PageTab::open(&browser.address).await?;
        let mut report = PageReport::default();
        for frame in frames {
            let shot = shoot(&mut tab, url, *frame, &mut report).await?;
            report.shots.push(shot);
        }
        Ok(report)
    };
    let taken = tokio::time::timeout(TOTAL, capture).await;
    browser.stop().await;
    taken.unwrap_or(Err(BrowserError::Slow(TOTAL.as_secs())))
}

async fn shoot(
    tab: &mut PageTab,
    url: &Url,
    (size, scheme): (ScreenSize, ColorScheme),
    report: &mut PageReport,
) -> Result<PageShot, BrowserError> {
    let (width, height, scale) = match size {
        ScreenSize::Phone => (390, 844, 2),
        ScreenSize::Desktop => (1280, 800, 1),
    };
    let is_phone = size == ScreenSize::Phone;
    let screen = json!({
        "width": width, "height": height, "deviceScaleFactor": scale, "mobile": is_phone,
    });
    tab.call("Emulation.setDeviceMetricsOverride", screen).await?;
    tab.call("Emulation.setTouchEmulationEnabled", json!({"enabled": is_phone})).await?;
    // A picture of the middle of an animation shows nothing twice.
    let features = json!([
        {"name": "prefers-color-scheme", "value": scheme.name()},
        {"name": "prefers-reduced-motion", "value": "reduce"},
    ]);
    tab.call("Emulation.setEmulatedMedia", json!({"features": features})).await?;
    load(tab, url, report).await?;
    let metrics = tab.call("Page.getLayoutMetrics", json!({})).await?;
    let whole = metrics["cssContentSize"]["height"].as_f64().unwrap_or_default();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded before")]
    let shown = whole.clamp(f64::from(height), f64::from(HEIGHT)).ceil() as u32;
    let clip = json!({"x": 0, "y": 0, "width": width, "height": shown, "scale": 1});
    let wanted = json!({"format": "png", "captureBeyondViewport": true, "clip": clip});
    let taken = tab.call("Page.captureScreenshot", wanted).await?;
    let png = taken["data"].as_str().filter(|data| STANDARD.decode(data).is_ok());
    let png = png.ok_or_else(|| BrowserError::Strange {
        method: "Page.captureScreenshot".to_owned(),
        answer: "no picture".to_owned(),
    })?;
    Ok(PageShot { size, scheme, png: png.to_owned(), is_cut: whole > f64::from(HEIGHT) })
}

/// Chromium's word for an answer with an error's status and no content, in whose place it shows a page of its own. The
/// status is in the report.
const NO_CONTENT: &str = "net::ERR_HTTP_RESPONSE_CODE_FAILURE";

/// Loads a page, until nothing of it is asked for any more.
async fn load(tab: &mut PageTab, url: &Url, report: &mut PageReport) -> Result<(), BrowserError> {
    drop(tab.take_events());
    let opened = tab.call("Page.navigate", json!({"url": url.as_str()})).await?;
    let why = opened["errorText"].as_str().filter(|why| !why.is_empty());
    if let Some(why) = why.filter(|why| *why != NO_CONTENT) {
        return Err(BrowserError::Page(format!("{url}: {}", explain_failure(why))));
    }
    let loaded = tokio::time::timeout(LOAD, tab.wait_for("Page.loadEventFired")).await;
    let mut is_finished = match loaded {
        Ok(loaded) => loaded.map(|_| true)?,
        Err(_) => false,
    };
    is_finished &= tokio::time::timeout(SETTLE, wait_until_quiet(tab)).await.is_ok();
    report.is_unfinished |= !is_finished;
    let fonts = json!({
        "expression": "Promise.race([document.fonts.ready, new Promise(r => setTimeout(r, 2000))]).then(() => document.title)",
        "awaitPromise": true, "returnByValue": true,
    });
    let title = tab.call("Runtime.evaluate", fonts).await?;
    cut_text(title["result"]["value"].as_str().unwrap_or_default()).clone_into(&mut report.title);
    let history = tab.call("Page.getNavigationHistory", json!({})).await?;
    let at = history["currentIndex"].as_u64().and_then(|at| usize::try_from(at).ok());
    let entry = at.and_then(|at| history["entries"].get(at));
    report.address = cut_text(entry.and_then(|entry| entry["url"].as_str()).unwrap_or_default());
    read_events(&tab.take_events(), report);
    Ok(())
}

/// Waits until nothing is asked for. Events stay to be read.
async fn wait_until_quiet(tab: &mut PageTab) -> Result<(), BrowserError> {
    let mut seen = Vec::new();
    loop {
        let next = tokio::time::timeout(QUIET, tab.wait_for("Network.requestWillBeSent")).await;
        match next {
            Err(_) => return Ok(()),
            Ok(event) => seen.push(event?),
        }
    }
}

fn read_events(events: &[Value], report: &mut PageReport) {
    for event in events {
        let params = &event["params"];
        let complaint = match event["method"].as_str().unwrap_or_default() {
            "Network.responseReceived" if params["type"] == "Document" => {
                let status = params["response"]["status"].as_u64();
                report.status = status.and_then(|status| u16::try_from(status).ok());
                continue;
            }
            "Runtime.exceptionThrown" => {
                let details = &params["exceptionDetails"];
                let text = details["exception"]["description"].as_str();
                text.or_else(|| details["text"].as_str()).map(str::to_owned)
            }
            "Log.entryAdded" if params["entry"]["level"] == "error" => {
                let entry = &params["entry"];
                let text = entry["text"].as_str().unwrap_or_default();
                Some(format!("{text} {}", entry["url"].as_str().unwrap_or_default()))
            }
            "Runtime.consoleAPICalled" if params["type"] == "error" => {
                let said = params["args"].as_array().into_iter().flatten().map(|one| {
                    one["value"].as_str().or_else(|| one["description"].as_str()).unwrap_or("…")
                });
                Some(said.collect::<Vec<_>>().join(" "))
            }
            _ => None,
        };
        if let Some(complaint) = complaint.map(|complaint| cut_text(&complaint))
            && report.complaints.len() < COMPLAINTS
            && !report.complaints.contains(&complaint)
        {
            report.complaints.push(complaint);
        }
    }
}

fn explain_failure(why: &str) -> String {
    let known = match why {
        "net::ERR_CONNECTION_REFUSED" => {
            "nothing listens there: start the server first, in the background"
        }
        "net::ERR_NAME_NOT_RESOLVED" => "it leads away from this pod",
        "net::ERR_EMPTY_RESPONSE" => "its server hung up without an answer",
        "net::ERR_INVALID_HTTP_RESPONSE" => "what listens there does not speak HTTP",
        "net::ERR_SSL_PROTOCOL_ERROR" => "what listens there does not speak TLS: try `http`",
        "net::ERR_TOO_MANY_REDIRECTS" => "it redirects without an end",
        "net::ERR_UNSAFE_PORT" => {
            "browsers do not open this port: let the server listen on another one, such as 3000"
        }
        _ => "",
    };
    if known.is_empty() { cut_text(why) } else { format!("{known} ({why})") }
}

fn cut_text(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(COMPLAINT).collect()
}
