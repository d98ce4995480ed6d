//! An upgrade in the middle of many answers: the gateway that serves them is told to stop while
//! another one starts. How many answers are cut, how many calls are paid for twice, what is missing
//! in the books, and how long nobody serves a new call.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use codebutler_crds::spend::LeavingGateway;
use codebutler_crds::{NanoUsd, Repo, Thread};
use futures::future::{join_all, try_join_all};
use futures::{StreamExt as _, stream};
use kube::api::ListParams;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::proxy::bed::{self, ProxyBed};
use super::{MeasuredFigure, long_or_short, wait_until};
use codebutler_testbed::place::TEAM;
use codebutler_testbed::serving::RunningServer;

/// Answers that are under way.
const STREAMS: usize = long_or_short(200, 20);
/// Price of each model call.
const PRICE: NanoUsd = NanoUsd(1_000);
const COST: &str = "0.000001";
/// Timeout of every wait.
const PATIENCE: Duration = Duration::from_mins(2);

/// Measures.
///
/// # Errors
/// When the parts don't start.
pub(super) async fn measure_handover() -> anyhow::Result<Vec<MeasuredFigure>> {
    let provider = HandoverProvider::start().await?;
    let mut bed = ProxyBed::start_own(&provider.url()).await.context("starting the gateway")?;
    let opened = (0..STREAMS).map(|n| open_stream(&bed, n));
    let streams = try_join_all(opened).await?;
    ensure!(provider.calls() == STREAMS, "{} calls for {STREAMS} streams", provider.calls());

    let begun = Instant::now();
    bed.begin_upgrade()?;
    let new = format!("call {STREAMS}");
    wait_until("a new call is answered", PATIENCE, || async {
        Ok(ask_model(&bed, &new, false).await.ok())
    })
    .await?;
    let waited = begun.elapsed();
    provider.finish();
    let ended = join_all(streams).await;
    let cut = ended.iter().filter(|ended| !matches!(ended, Ok(true))).count();
    bed.end_upgrade().await?;

    let billed = PRICE.times(u64::try_from(provider.calls())?, 1);
    // The second gateway takes over what the first one has settled, so the books take a moment to be whole.
    let client = bed.cluster().client();
    let right = [(billed, NanoUsd::ZERO); 2];
    let whole = || async { Ok((booked_sums(&client).await? == right).then_some(())) };
    let _ = wait_until("the books are whole", PATIENCE, whole).await;
    let books = booked_sums(&client).await?;
    let wrong = books.iter().map(|(settled, _)| settled.0.abs_diff(billed.0)).sum();
    let unknown = books.iter().map(|(_, unknown)| unknown.0).sum();
    let twice = provider.twice();
    bed.stop().await?;
    #[expect(clippy::cast_precision_loss, reason = "handfuls")]
    let count = |name, value: u64| MeasuredFigure::at_most(name, value as f64, "count", 0.0);
    Ok(vec![
        count("handover.cut", u64::try_from(cut)?),
        count("handover.paid_twice", u64::try_from(twice)?),
        count("handover.wrong_nano_dollars", wrong),
        count("handover.unknown_nano_dollars", unknown),
        MeasuredFigure::at_most("handover.time", waited.as_secs_f64() * 1000.0, "ms", 5000.0),
    ])
}

/// Begins a call; whether its answer came whole.
async fn open_stream(bed: &ProxyBed, n: usize) -> anyhow::Result<JoinHandle<bool>> {
    let mut answer = ask_model(bed, &format!("call {n}"), true).await?;
    let mut text = answer.chunk().await?.context("no beginning")?.to_vec();
    Ok(tokio::spawn(async move {
        while let Ok(Some(piece)) = answer.chunk().await {
            text.extend_from_slice(&piece);
        }
        String::from_utf8_lossy(&text).ends_with("data: [DONE]\n\n")
    }))
}

/// Calls the model as one of the pods in turn, as none of them may make too many calls at once.
async fn ask_model(bed: &ProxyBed, words: &str, stream: bool) -> anyhow::Result<reqwest::Response> {
    let tokens = bed.tokens(0);
    let number: usize = words.rsplit(' ').next().context("no number")?.parse()?;
    let body = json!({
        "model": bed::MODEL, "max_tokens": 100, "stream": stream,
        "messages": [{"role": "user", "content": words}],
    });
    let request = bed.client()?.post(format!("{}/v1/chat/completions", bed.url()));
    let response = request.bearer_auth(&tokens[number % tokens.len()]).json(&body).send().await?;
    ensure!(response.status().is_success(), "{}", response.text().await?);
    Ok(response)
}

/// Sums over all Threads, then over all Repos: what is settled, and what is granted or flagged and so
/// not known yet.
async fn booked_sums(client: &Client) -> anyhow::Result<[(NanoUsd, NanoUsd); 2]> {
    let mut books = [(NanoUsd::ZERO, NanoUsd::ZERO); 2];
    let [(settled, open), (billed, unknown)] = &mut books;
    let apart = |own: &LeavingGateway| own.granted + own.settled;
    for thread in
        Api::<Thread>::namespaced(client.clone(), TEAM).list(&ListParams::default()).await?
    {
        let status = thread.status.unwrap_or_default();
        *settled += status.cost.unwrap_or_default();
        let budget = status.budget.unwrap_or_default();
        *open += budget.granted + budget.flagged + budget.leaving.values().map(apart).sum();
    }
    for repo in Api::<Repo>::namespaced(client.clone(), TEAM).list(&ListParams::default()).await? {
        let spend = repo.status.and_then(|status| status.spend).unwrap_or_default();
        *billed += spend.settled;
        *unknown += spend.granted + spend.flagged + spend.leaving.values().map(apart).sum();
    }
    Ok(books)
}

/// A provider whose answers go on until it is told to finish, and that counts what it is asked.
struct HandoverProvider {
    shared: Arc<SharedProvider>,
    serving: RunningServer,
}

#[derive(Default)]
struct SharedProvider {
    asked: Mutex<HashMap<String, usize>>,
    finish: watch::Sender<bool>,
}

impl HandoverProvider {
    async fn start() -> anyhow::Result<Self> {
        let shared = Arc::<SharedProvider>::default();
        let router = Router::new()
            .route("/v1/chat/completions", post(serve_chat))
            .with_state(Arc::clone(&shared));
        Ok(Self { shared, serving: RunningServer::start(router).await? })
    }

    fn url(&self) -> String {
        format!("{}/v1", self.serving.url())
    }

    fn finish(&self) {
        self.shared.finish.send_replace(true);
    }

    /// Number of calls that were made.
    fn calls(&self) -> usize {
        self.shared.asked.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
    }

    /// Number of calls that repeated one that was paid for already.
    fn twice(&self) -> usize {
        let asked = self.shared.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.values().map(|times| times - 1).sum()
    }
}

async fn serve_chat(State(shared): State<Arc<SharedProvider>>, body: Bytes) -> Response {
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let words = request["messages"][0]["content"].as_str().unwrap_or_default().to_owned();
    let id = format!("gen-{}", words.replace(' ', "-"));
    *shared.asked.lock().unwrap_or_else(PoisonError::into_inner).entry(words).or_default() += 1;
    let usage = format!(r#""usage":{{"prompt_tokens":20,"completion_tokens":5,"cost":{COST}}}"#);
    if request["stream"] != true {
        let answer = format!(
            r#"{{"id":"{id}","object":"chat.completion","created":0,"model":"m","choices":[{{"index":0,"message":{{"role":"assistant","content":"So."}},"finish_reason":"stop"}}],{usage}}}"#
        );
        return ([(header::CONTENT_TYPE, "application/json")], answer).into_response();
    }
    let first = r#"{"index":0,"delta":{"content":"so "}}"#;
    let first = format!("data: {{\"id\":\"{id}\",\"choices\":[{first}]}}\n\n");
    let mut finish = shared.finish.subscribe();
    let last = async move {
        let _ = finish.wait_for(|finish| *finish).await;
        format!("data: {{\"id\":\"{id}\",\"choices\":[],{usage}}}\n\ndata: [DONE]\n\n")
    };
    let pieces = stream::once(std::future::ready(first)).chain(stream::once(last));
    let body = Body::from_stream(pieces.map(|piece| Ok::<_, Infallible>(Bytes::from(piece))));
    ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
}
