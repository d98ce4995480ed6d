//! Waiting time of pods for an answer while somebody floods the gateway with tokens of nobody: in turns
//! without and with the flood, in one run. Also another team's latencies while one team does everything
//! at once that takes memory and processors ([`siege`]).

mod siege;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use codebutler_crds::wire::{EgressReport, path};
use futures::future::join_all;
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval};

use super::proxy::bed::ProxyBed;
use super::proxy::provider::LocalProvider;
use super::{MeasuredFigure, find_percentile};

/// Turns of each kind, and how long one lasts.
const TURNS: usize = 8;
const TURN: Duration = Duration::from_secs(1);
/// Connections of the flood, and how often each sends: 5,000 tokens a second in all.
const STRANGERS: u32 = 25;
const EVERY: Duration = Duration::from_millis(5);
/// Good pods, and how often each calls.
const PODS: usize = 8;
const CALL: Duration = Duration::from_millis(20);

/// Measures pods' calls in turns without and with the flood.
pub(super) async fn measure_flood() -> anyhow::Result<Vec<MeasuredFigure>> {
    let provider = LocalProvider::start().await?;
    let bed = ProxyBed::start(&provider, None).await.context("starting the gateway")?;
    let (floods, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut strangers = Vec::new();
    for _ in 0..STRANGERS {
        let stranger = send_flood(bed.client()?, bed.url(), Arc::clone(&floods), Arc::clone(&sent));
        strangers.push(tokio::spawn(stranger));
    }
    let mut waited: [Vec<f64>; 2] = Default::default();
    // Its first turn fills what both need.
    for turn in 0..=TURNS * 2 {
        let flooded = turn % 2 == 0;
        floods.store(flooded, Relaxed);
        let mut pods = Vec::new();
        for token in bed.tokens(0).iter().take(PODS) {
            pods.push(tokio::spawn(time_calls(bed.client()?, bed.url(), token.clone())));
        }
        for pod in join_all(pods).await {
            let samples = pod??;
            if turn > 0 {
                waited[usize::from(flooded)].extend(samples);
            }
        }
    }
    strangers.iter().for_each(tokio::task::JoinHandle::abort);
    let seconds = TURN.as_secs_f64() * f64::from(u32::try_from(TURNS + 1)?);
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let rate = sent.load(Relaxed) as f64 / seconds;
    bed.stop().await?;
    let [mut quiet, mut flooded] = waited;
    let mut figures = vec![
        MeasuredFigure::at_most("flood.good_p99", find_percentile(&mut flooded, 99), "ms", 50.0)
            .beside(find_percentile(&mut quiet, 99)),
        MeasuredFigure::at_least("flood.bad_tokens", rate, "1/s", 1000.0),
    ];
    figures.extend(siege::measure_siege().await?);
    Ok(figures)
}

/// Asks with tokens of pods that there are not, each another one.
async fn send_flood(
    client: reqwest::Client,
    url: String,
    floods: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
) -> anyhow::Result<()> {
    let mut turns = interval(EVERY);
    turns.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        turns.tick().await;
        if !floods.load(Relaxed) {
            continue;
        }
        let uid = format!("{:032x}", rand::random::<u128>());
        let claims =
            json!({"kubernetes.io": {"namespace": "team", "pod": {"name": "p", "uid": uid}}});
        let token = format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims.to_string()));
        let request = client.post(format!("{url}{}", path::EGRESS_CHECK)).bearer_auth(token);
        let answer = request.json(&EgressReport::default()).send().await?;
        ensure!(answer.status().is_client_error(), "a forged token got {}", answer.status());
        answer.bytes().await?;
        sent.fetch_add(1, Relaxed);
    }
}

/// Milliseconds of each call that a pod makes in one turn.
async fn time_calls(
    client: reqwest::Client,
    url: String,
    token: String,
) -> anyhow::Result<Vec<f64>> {
    let begun = Instant::now();
    let mut turns = interval(CALL);
    turns.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut waited = Vec::new();
    while begun.elapsed() < TURN {
        turns.tick().await;
        let asked = Instant::now();
        // Answered from memory: what is waited for is to be known.
        let request = client.post(format!("{url}{}", path::EGRESS_CHECK)).bearer_auth(&token);
        let answer = request.json(&EgressReport::default()).send().await?;
        let status = answer.status();
        let said = answer.text().await?;
        ensure!(status.is_success(), "{status}: {said}");
        waited.push(asked.elapsed().as_secs_f64() * 1000.0);
    }
    // The first one shakes hands.
    waited.drain(..1.min(waited.len()));
    Ok(waited)
}
