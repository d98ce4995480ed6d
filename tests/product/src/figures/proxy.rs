//! The model proxy beside a direct connection to the same provider, in the same run: one call at a
//! time, many streams at once, and as many calls as it takes. Where litellm's proxy can be installed,
//! the same is asked of it, for the reader to compare.

pub(super) mod bed;
mod litellm;
pub(super) mod provider;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use futures::future::join_all;
use serde_json::json;

use self::bed::ProxyBed;
use self::litellm::LitellmProxy;
use self::provider::{LocalProvider, PIECEWISE, read_arrivals};
use super::{MeasuredFigure, SHORT, find_percentile, long_or_short};

/// Calls before anything is measured.
const WARM: usize = long_or_short(200, 5);
/// Calls that are measured one at a time, on each side.
const SINGLE: usize = long_or_short(1000, 20);
/// Number of concurrent streams.
const STREAMS: usize = long_or_short(200, 10);
/// Number of concurrent calls.
const BUSY: usize = long_or_short(50, 5);
/// Duration of the measurement of throughput.
const RUSH: Duration = Duration::from_secs(5);

/// A client with the destination and the tokens of its calls.
struct CallingClient {
    client: reqwest::Client,
    url: String,
    /// Tokens of the calls, used in turns.
    tokens: Vec<String>,
    calls: AtomicUsize,
}

impl CallingClient {
    async fn ask(&self, stream: bool) -> anyhow::Result<reqwest::Response> {
        let more = if stream { PIECEWISE } else { "" };
        let body = json!({
            "model": bed::MODEL, "max_tokens": 100, "stream": stream,
            "messages": [{"role": "user", "content": format!("What does this repository do? {more}")}],
        });
        let token = &self.tokens[self.calls.fetch_add(1, Relaxed) % self.tokens.len()];
        let request = self.client.post(&self.url).bearer_auth(token).json(&body);
        let response = request.send().await?;
        ensure!(response.status().is_success(), "{}", response.text().await?);
        Ok(response)
    }

    /// Makes one call; its duration in milliseconds.
    async fn timed(&self) -> anyhow::Result<f64> {
        let begun = Instant::now();
        self.ask(false).await?.bytes().await?;
        Ok(begun.elapsed().as_secs_f64() * 1000.0)
    }

    /// Milliseconds from writing to reading of each piece of a stream.
    async fn streamed(&self, provider: &LocalProvider) -> anyhow::Result<Vec<f64>> {
        let mut response = self.ask(true).await?;
        let mut late = Vec::new();
        while let Some(piece) = response.chunk().await? {
            let now = provider.clock();
            late.extend(read_arrivals(&piece).map(|sent| now - sent));
        }
        Ok(late)
    }

    /// Calls in a second, of many at once.
    async fn rush(self: &Arc<Self>) -> anyhow::Result<f64> {
        let begun = Instant::now();
        let callers = (0..BUSY).map(|_| {
            let line = Arc::clone(self);
            tokio::spawn(async move {
                let mut calls = 0_u32;
                while begun.elapsed() < RUSH {
                    line.ask(false).await?.bytes().await?;
                    calls += 1;
                }
                anyhow::Ok(calls)
            })
        });
        let mut calls = 0.0;
        for caller in join_all(callers).await {
            calls += f64::from(caller??);
        }
        Ok(calls / begun.elapsed().as_secs_f64())
    }
}

/// Measures.
///
/// # Errors
/// When the parts don't start, or a call fails.
pub(super) async fn measure_proxy() -> anyhow::Result<Vec<MeasuredFigure>> {
    let provider = LocalProvider::start().await?;
    let bed = ProxyBed::start(&provider, None).await.context("starting the gateway")?;
    let direct = Arc::new(CallingClient {
        client: reqwest::Client::new(),
        url: format!("{}/chat/completions", provider.url()),
        tokens: vec![provider::KEY.to_owned()],
        calls: AtomicUsize::default(),
    });
    let proxied = Arc::new(CallingClient {
        client: bed.client()?,
        url: format!("{}/v1/chat/completions", bed.url()),
        tokens: bed.tokens(0).to_vec(),
        calls: AtomicUsize::default(),
    });
    let other = LitellmProxy::start(&provider).await;
    let lines = [Some(&direct), Some(&proxied), other.as_ref().map(|other| &other.line)];

    let [without, with, beside] = time_singles(lines).await?;
    let added = |line: Option<f64>, without: f64| line.map(|line| line - without);
    let without = without.unwrap_or_default();
    let mut figures = vec![
        MeasuredFigure::at_most("proxy.added_p50", with.unwrap_or(f64::NAN) - without, "ms", 1.0)
            .perhaps_beside(added(beside, without)),
    ];

    let without = time_streams(&direct, &provider).await?;
    let with = time_streams(&proxied, &provider).await?;
    let beside = match &other {
        Some(other) => Some(time_streams(&other.line, &provider).await?),
        None => None,
    };
    figures.push(
        MeasuredFigure::at_most("proxy.streams_added_p99", with - without, "ms", 5.0)
            .perhaps_beside(added(beside, without)),
    );

    let (without, with) = (direct.rush().await?, proxied.rush().await?);
    figures.push(MeasuredFigure::at_least("proxy.throughput", with, "1/s", 3000.0).beside(without));
    let name = "proxy.throughput_beside_litellm";
    if let Some(other) = &other {
        let beside = other.line.rush().await?;
        figures.push(MeasuredFigure::at_least(name, with, "1/s", beside).beside(beside));
    } else if !SHORT {
        // Nothing to compare with is no promise kept.
        figures.push(MeasuredFigure::at_least(name, f64::NAN, "1/s", f64::NAN));
    }
    figures.push(
        MeasuredFigure::at_most("proxy.memory", bed.peak_memory()?, "MiB", 40.0)
            .perhaps_beside(other.map(|other| other.peak_memory()).transpose()?),
    );
    bed.stop().await?;
    Ok(figures)
}

/// The median of calls one at a time, in turns, for each line that there is; milliseconds.
async fn time_singles(lines: [Option<&Arc<CallingClient>>; 3]) -> anyhow::Result<[Option<f64>; 3]> {
    let mut samples: [Vec<f64>; 3] = Default::default();
    for call in 0..WARM + SINGLE {
        for (line, samples) in lines.iter().zip(&mut samples) {
            let Some(line) = line else { continue };
            let took = line.timed().await?;
            if call >= WARM {
                samples.push(took);
            }
        }
    }
    let median =
        |samples: &mut Vec<f64>| (!samples.is_empty()).then(|| find_percentile(samples, 50));
    Ok(samples.each_mut().map(median))
}

/// The 99th percentile over all pieces of many streams at once; milliseconds.
async fn time_streams(
    line: &Arc<CallingClient>,
    provider: &Arc<LocalProvider>,
) -> anyhow::Result<f64> {
    let all = (0..STREAMS).map(|n| {
        let (line, provider) = (Arc::clone(line), Arc::clone(provider));
        tokio::spawn(async move {
            // Not in step.
            let share = u32::try_from(n).unwrap_or(0) * 7 % 20;
            tokio::time::sleep(Duration::from_millis(share.into())).await;
            line.streamed(&provider).await
        })
    });
    let mut late = Vec::new();
    for stream in join_all(all).await {
        late.extend(stream??);
    }
    Ok(find_percentile(&mut late, 99))
}
