//! One team's pods do all at once what takes a gateway's memory and processors, and strangers hold its pages:
//! slow bodies, hostile pushes, readings of a long history, connections. Another team's messages and model
//! calls are timed without and with that, in turns of one run.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use codebutler_crds::wire::history::{HistoryBatch, HistoryEvent, ToldEntry};
use codebutler_crds::wire::path;
use codebutler_gateway_core::low_priority;
use codebutler_testbed::github::git::BareRepository;
use codebutler_testbed::github::{DrivenRepository, FirstCommit, GitHubOptions, GitHubServer};
use futures::future::join_all;
use reqwest::StatusCode;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinSet;

use crate::figures::proxy::bed::{MODEL, PODS, ProxyBed};
use crate::figures::proxy::provider::LocalProvider;
use crate::figures::{MeasuredFigure, find_percentile};

/// Turns of each kind, and how long another team is timed in one.
const TURNS: usize = 3;
const TURN: Duration = Duration::from_secs(8);
/// The load of each turn, all of it at once: slow bodies, pushes, reads of history and open connections.
const BODIES: usize = 64;
const PUSHES: usize = 40;
const READINGS: usize = 100;
const CONNECTIONS: usize = 1000;
/// Bytes of a slow body, and of one in so many, which is the longest that is taken.
const BODY: usize = 1 << 20;
const LONGEST: usize = 32 << 20;
const LONG: usize = 16;
/// Number of pieces of a slow body, spread over the whole turn.
const PIECES: u32 = 32;
/// Size of a push: two trees of so many folders of so many files, in so many commits that go to and fro.
const FOLDERS: usize = 300;
const FILES: usize = 300;
const COMMITS: usize = 100;
/// Lines of the history that is read, and bytes of each.
const LINES: u64 = 2000;
const LINE: usize = 8 << 10;
/// Pause between two messages, and between two model calls, of the other team.
const PAUSE: Duration = Duration::from_millis(100);
/// MiB that the chart gives to a gateway (`gateway.resources.limits.memory`).
const MEMORY: f64 = 2048.0;
const PATIENCE: Duration = Duration::from_mins(2);
/// Timeout of a request: longer than anything may wait for its turn, and than a slow body may take.
const END: Duration = Duration::from_mins(10);

/// Indexes of the hostile Repo and of the other one.
const BAD: usize = 0;
const GOOD: usize = 1;

/// Measures another team's latencies in turns without and with the siege.
pub(super) async fn measure_siege() -> anyhow::Result<Vec<MeasuredFigure>> {
    let dir = tempfile::tempdir()?;
    let github = GitHubServer::start(&dir.path().join("host"), GitHubOptions::default()).await?;
    let mut remotes = Vec::new();
    for name in ["bad", "good", "talk"] {
        let files = [("README.md".to_owned(), format!("# {name}\n"))].into();
        remotes.push(github.create_repo("acme", name, FirstCommit::Files(files), "main").await?);
    }
    let provider = LocalProvider::start().await?;
    let gits: Vec<_> =
        remotes.iter().take(2).map(|remote| (remote.url(), github.token())).collect();
    let bed = Arc::new(ProxyBed::start_for(&provider, &gits).await?);
    let ana = bed.slack().create_user("ana", "Ana");
    let channel = bed.slack().create_channel("talk", &[&ana]);
    bed.add_repo(&provider.url(), "talk", &channel, (remotes[2].url(), github.token())).await?;
    bed.slack().wait_connected(1, PATIENCE).await?;
    let push =
        HostilePush::make(&dir.path().join("hostile"), &remotes[BAD], github.token()).await?;
    write_history(&bed).await?;

    let besiegers = start_besiegers()?;
    let team = OtherTeam { bed: Arc::clone(&bed), ana, channel };
    // Its first turn fills what both need.
    team.time(TURN).await?;
    let mut timed: [TimedTeam; 2] = Default::default();
    let mut held = SiegeCount::default();
    for _ in 0..TURNS {
        timed[0].add(team.time(TURN).await?);
        let siege = RunningSiege::begin(besiegers.handle(), &bed, &push).await?;
        timed[1].add(team.time(TURN).await?);
        held.add(&siege.end().await?);
    }
    let memory = bed.peak_memory()?;
    drop(team);
    besiegers.shutdown_background();
    Arc::into_inner(bed).context("the gateway is still in use")?.stop().await?;
    let [mut quiet, mut besieged] = timed;
    let of = |samples: &mut Vec<f64>, percent| find_percentile(samples, percent);
    let acks = (of(&mut besieged.acks, 95), of(&mut quiet.acks, 95));
    let calls = (of(&mut besieged.calls, 50), of(&mut quiet.calls, 50));
    Ok(vec![
        MeasuredFigure::at_most("flood.memory", memory, "MiB", MEMORY),
        MeasuredFigure::ratio("flood.others_ack_p95", acks.0, acks.1, 2.0),
        MeasuredFigure::ratio("flood.others_proxy_p50", calls.0, calls.1, 2.0),
        held.figure("flood.bodies_taken", held.bodies, BODIES / 2),
        held.figure("flood.pushes_judged", held.pushes, 1),
        held.figure("flood.readings_answered", held.readings, 1),
        held.figure("flood.connections_held", held.connections, CONNECTIONS / 2),
    ])
}

/// Starts the threads of those who besiege. They are on other machines: here they only get what processor time the
/// gateway, Slack and the other team leave.
fn start_besiegers() -> anyhow::Result<Runtime> {
    low_priority::run_when_idle();
    let mut threads = Builder::new_multi_thread();
    threads.worker_threads(2).enable_all().on_thread_start(low_priority::lower_own_priority);
    Ok(threads.build()?)
}

/// Counts of what the gateway accepted in all turns; it refused the rest.
#[derive(Default)]
struct SiegeCount {
    turns: usize,
    bodies: usize,
    pushes: usize,
    readings: usize,
    /// Connections that were still open at a turn's end.
    connections: usize,
}

impl SiegeCount {
    const fn add(&mut self, other: &Self) {
        self.turns += other.turns;
        self.bodies += other.bodies;
        self.pushes += other.pushes;
        self.readings += other.readings;
        self.connections += other.connections;
    }

    /// A siege in which too little is held shows nothing.
    fn figure(&self, name: &str, taken: usize, least: usize) -> MeasuredFigure {
        let of_turn = |count: usize| u32::try_from(count).map_or(f64::INFINITY, f64::from);
        let taken = of_turn(taken) / of_turn(self.turns);
        MeasuredFigure::at_least(name, taken, "count", of_turn(least))
    }
}

/// Latencies of the other team, in milliseconds.
#[derive(Default)]
struct TimedTeam {
    acks: Vec<f64>,
    calls: Vec<f64>,
}

impl TimedTeam {
    fn add(&mut self, other: Self) {
        self.acks.extend(other.acks);
        self.calls.extend(other.calls);
    }
}

/// The team that works beside the siege.
struct OtherTeam {
    bed: Arc<ProxyBed>,
    ana: String,
    channel: String,
}

impl OtherTeam {
    async fn time(&self, turn: Duration) -> anyhow::Result<TimedTeam> {
        let (said, calls) = tokio::join!(self.talk(turn), self.call(turn));
        let said = said?;
        let slack = self.bed.slack();
        let all = |slack: &codebutler_testbed::slack::SlackServer| {
            let deliveries = slack.deliveries();
            let own = deliveries.iter().filter(|one| said.contains(&one.key));
            let waited: Option<Vec<f64>> = own
                .filter(|one| one.event_type == "message")
                .map(|one| Some(one.acked_at?.duration_since(one.emitted_at).as_secs_f64() * 1e3))
                .collect();
            waited.filter(|waited| waited.len() >= said.len())
        };
        let acks = slack.wait_for("every message acknowledged", PATIENCE, all).await?;
        Ok(TimedTeam { acks, calls: calls? })
    }

    /// Messages in one conversation, by their `ts`.
    async fn talk(&self, turn: Duration) -> anyhow::Result<BTreeSet<String>> {
        let (begun, slack, mut said) = (Instant::now(), self.bed.slack(), BTreeSet::new());
        let root = slack.post_as(&self.ana, &self.channel, None, "let us begin")?;
        said.insert(root.clone());
        while begun.elapsed() < turn {
            said.insert(slack.post_as(&self.ana, &self.channel, Some(&root), "and one more")?);
            tokio::time::sleep(PAUSE).await;
        }
        Ok(said)
    }

    /// Model calls, one at a time.
    async fn call(&self, turn: Duration) -> anyhow::Result<Vec<f64>> {
        let (begun, client) = (Instant::now(), self.bed.client()?);
        let body = json!({
            "model": MODEL, "max_tokens": 100,
            "messages": [{"role": "user", "content": "What does this repository do? ".repeat(2000)}],
        });
        let (mut took, url) = (Vec::new(), format!("{}{}", self.bed.url(), path::CHAT));
        for token in self.bed.tokens(GOOD).iter().cycle() {
            if begun.elapsed() >= turn {
                break;
            }
            let asked = Instant::now();
            let answer = client.post(&url).bearer_auth(token).json(&body).send().await?;
            let status = answer.status();
            let said = answer.text().await?;
            ensure!(status.is_success(), "{status}: {said}");
            took.push(asked.elapsed().as_secs_f64() * 1e3);
            tokio::time::sleep(PAUSE).await;
        }
        Ok(took)
    }
}

/// All that is held and asked for at once: it has to come to an end by itself. Each says whether it was taken, or
/// refused.
struct RunningSiege {
    bodies: JoinSet<anyhow::Result<bool>>,
    readings: JoinSet<anyhow::Result<bool>>,
    pushes: JoinSet<anyhow::Result<bool>>,
    connections: Vec<TcpStream>,
}

impl RunningSiege {
    async fn begin(
        besiegers: &Handle,
        bed: &Arc<ProxyBed>,
        push: &HostilePush,
    ) -> anyhow::Result<Self> {
        let of_pod = |n: usize| (Arc::clone(bed), n % bed.tokens(BAD).len());
        let (mut bodies, mut readings, mut pushes) =
            (JoinSet::new(), JoinSet::new(), JoinSet::new());
        for n in 0..BODIES {
            let length = if n % LONG == 0 { LONGEST } else { BODY };
            let (bed, pod) = of_pod(n);
            bodies.spawn_on(async move { send_slowly(&bed, pod, length).await }, besiegers);
        }
        for n in 0..PUSHES {
            let ((bed, pod), push) = (of_pod(n), push.clone());
            pushes.spawn_on(async move { push.send(&bed, pod).await }, besiegers);
        }
        for n in 0..READINGS {
            let bed = Arc::clone(bed);
            let reading = async move {
                let url = format!("{}{}", bed.url(), path::HISTORY_LINES);
                // The two whose histories are long.
                let token = &bed.tokens(BAD)[n % 2];
                let answer = bed.client()?.get(url).bearer_auth(token).send().await?;
                let is_taken = is_taken(answer.status())?;
                answer.bytes().await?;
                Ok(is_taken)
            };
            readings.spawn_on(reading, besiegers);
        }
        let connections = (0..CONNECTIONS).map(|_| hold_connection(bed.pages()));
        let connections = besiegers.spawn(join_all(connections)).await?;
        let connections = connections.into_iter().flatten().collect();
        Ok(Self { bodies, readings, pushes, connections })
    }

    async fn end(self) -> anyhow::Result<SiegeCount> {
        let connections = self.connections.iter().filter(|stream| is_open(stream)).count();
        drop(self.connections);
        let [bodies, pushes, readings] = [
            count_taken(self.bodies).await?,
            count_taken(self.pushes).await?,
            count_taken(self.readings).await?,
        ];
        Ok(SiegeCount { turns: 1, bodies, pushes, readings, connections })
    }
}

async fn count_taken(mut asked: JoinSet<anyhow::Result<bool>>) -> anyhow::Result<usize> {
    let mut count = 0;
    let all = async {
        while let Some(ended) = asked.join_next().await {
            count += usize::from(ended??);
        }
        Ok::<_, anyhow::Error>(())
    };
    tokio::time::timeout(END, all).await.context("something is held and does not end")??;
    Ok(count)
}

/// True if the gateway accepted a request. Refusals of a flood (429, 503) are no error.
fn is_taken(status: StatusCode) -> anyhow::Result<bool> {
    let refused = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE];
    ensure!(status.is_success() || refused.contains(&status), "{status}");
    Ok(status.is_success())
}

fn is_open(stream: &TcpStream) -> bool {
    let read = stream.try_read(&mut [0; 1]);
    read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}

/// A body that comes piece by piece, and to its end.
async fn send_slowly(bed: &ProxyBed, pod: usize, length: usize) -> anyhow::Result<bool> {
    let told = HistoryBatch { journal: "slow".to_owned(), from: 1, events: Vec::new() };
    let end = serde_json::to_vec(&told)?;
    let piece = vec![b' '; length / PIECES as usize];
    let pieces = futures::stream::unfold(PIECES, move |left| {
        let (piece, end) = (piece.clone(), end.clone());
        async move {
            match left {
                0 => None,
                1 => Some((Ok::<_, std::io::Error>(end), 0)),
                _ => {
                    tokio::time::sleep(TURN / PIECES).await;
                    Some((Ok(piece), left - 1))
                }
            }
        }
    });
    let request = bed
        .client()?
        .post(format!("{}{}", bed.url(), path::HISTORY))
        .bearer_auth(&bed.tokens(BAD)[pod])
        .header("content-type", "application/json")
        .body(reqwest::Body::wrap_stream(pieces));
    match request.send().await {
        Ok(answer) => is_taken(answer.status()),
        // It was refused, and the connection ended, before all was sent.
        Err(error) if error.is_request() || error.is_body() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A browser that never finishes what it asks for.
async fn hold_connection(pages: SocketAddr) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(pages).await.ok()?;
    stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\nx-slow: ").await.ok()?;
    Some(stream)
}

/// A history that takes a while to be looked through.
async fn write_history(bed: &ProxyBed) -> anyhow::Result<()> {
    let (client, url) = (bed.client()?, format!("{}{}", bed.url(), path::HISTORY));
    for token in bed.tokens(BAD).iter().take(2) {
        let mut next = 1;
        while next <= LINES {
            let last = (next + 99).min(LINES);
            let event = |seq| {
                let event = HistoryEvent::Note { text: "x".repeat(LINE) };
                ToldEntry { seq, at: 1, run: None, event }
            };
            let events = (next..=last).map(event).collect();
            let batch = HistoryBatch { journal: "siege".to_owned(), from: next, events };
            let answer = client.post(&url).bearer_auth(token).json(&batch).send().await?;
            ensure!(answer.status().is_success(), "{}", answer.text().await?);
            next = last + 1;
        }
    }
    Ok(())
}

/// A small pack whose commits change tens of thousands of files each.
#[derive(Clone)]
struct HostilePush {
    base: String,
    tip: String,
    pack: Vec<u8>,
}

impl HostilePush {
    async fn make(folder: &Path, remote: &DrivenRepository, token: &str) -> anyhow::Result<Self> {
        let url = remote.url().replacen("://", &format!("://x-access-token:{token}@"), 1);
        run_git(&[], &["clone", "-q", &url, &folder.to_string_lossy()], "").await?;
        let at = ["-C".to_owned(), folder.to_string_lossy().into_owned()];
        let base = run_git(&at, &["rev-parse", "HEAD"], "").await?;
        let mut trees = Vec::new();
        for text in ["one\n", "other\n"] {
            let blob = run_git(&at, &["hash-object", "-w", "--stdin"], text).await?;
            let list = |count: usize, entry: String| {
                (0..count).map(|n| format!("{entry}\tf{n}\n")).collect::<Vec<_>>().concat()
            };
            let inner = list(FILES, format!("100644 blob {blob}"));
            let inner = run_git(&at, &["mktree"], &inner).await?;
            let outer = list(FOLDERS, format!("040000 tree {inner}"));
            trees.push(run_git(&at, &["mktree"], &outer).await?);
        }
        let mut tip = base.clone();
        for n in 0..COMMITS {
            let words = ["commit-tree", &trees[n % 2], "-p", &tip, "-m", "Change"];
            tip = run_git(&at, &words, "").await?;
        }
        let mut packing = BareRepository::command()
            .args(&at)
            .args(["pack-objects", "--revs", "--stdout", "-q"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        if let Some(mut wanted) = packing.stdin.take() {
            wanted.write_all(format!("{tip}\n^{base}\n").as_bytes()).await?;
        }
        let pack = packing.wait_with_output().await?.stdout;
        ensure!(pack.starts_with(b"PACK") && pack.len() < 64 << 10, "{} bytes", pack.len());
        for n in 0..PODS {
            let branch = ProxyBed::branch(BAD, n);
            remote.git().run(&["update-ref", &format!("refs/heads/{branch}"), &base]).await?;
        }
        Ok(Self { base, tip, pack })
    }

    /// Pushes it as a thread's pod, and waits for a place; it has to be refused, and in Git's own words.
    async fn send(&self, bed: &ProxyBed, n: usize) -> anyhow::Result<bool> {
        let branch = ProxyBed::branch(BAD, n);
        let line = format!("{} {} refs/heads/{branch}\0report-status", self.base, self.tip);
        let mut body = format!("{:04x}{line}0000", line.len() + 4).into_bytes();
        body.extend_from_slice(&self.pack);
        let url = format!("{}/v1/git/git-receive-pack", bed.url());
        let request = bed.client()?.post(url).bearer_auth(&bed.tokens(BAD)[n]).body(body);
        let answer = request.send().await?.bytes().await?;
        let said = String::from_utf8_lossy(&answer);
        let is_judged = said.contains("ng refs/heads/");
        ensure!(is_judged || said.contains("under way"), "a hostile push was taken: {said}");
        Ok(is_judged)
    }
}

/// Runs Git, and answers what it printed.
async fn run_git(options: &[String], words: &[&str], input: &str) -> anyhow::Result<String> {
    let who = ["-c", "user.name=Ana", "-c", "user.email=ana@example.com"];
    let mut running = BareRepository::command()
        .args(options)
        .args(who)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut stdin = running.stdin.take().context("git without an input")?;
    stdin.write_all(input.as_bytes()).await?;
    drop(stdin);
    let output = running.wait_with_output().await?;
    ensure!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
