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
use codebutler_testbed::github::git::BareRepository;
use codebutler_testbed::github::{DrivenRepository, FirstCommit, GitHubOptions, GitHubServer};
use futures::future::join_all;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::figures::proxy::bed::{MODEL, PODS, ProxyBed};
use crate::figures::proxy::provider::LocalProvider;
use crate::figures::{MeasuredFigure, find_percentile};

/// Turns of each kind, and how long another team is timed in one.
const TURNS: usize = 3;
const TURN: Duration = Duration::from_secs(8);
/// What one turn of the siege has.
const BODIES: usize = 64;
const BODY: usize = 32 << 20;
const READINGS: usize = 100;
const CONNECTIONS: usize = 1000;
/// Pushes of all turns together, and what each is made of: two trees of so many folders of so many files, in
/// so many commits that go to and fro.
const PUSHES: usize = 40;
const FOLDERS: usize = 300;
const FILES: usize = 300;
const COMMITS: usize = 100;
/// Time for the bodies to arrive.
const ARRIVAL: Duration = Duration::from_secs(10);
/// Lines of the history that is read, and bytes of each.
const LINES: u64 = 2000;
const LINE: usize = 8 << 10;
/// Between two messages, and between two model calls, of the other team.
const PAUSE: Duration = Duration::from_millis(100);
/// MiB that the chart gives to a gateway (`gateway.resources.limits.memory`).
const MEMORY: f64 = 2048.0;
const PATIENCE: Duration = Duration::from_mins(2);

/// Which of the Repos.
const BAD: usize = 0;
const GOOD: usize = 1;

/// Measures.
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

    let team = OtherTeam { bed: Arc::clone(&bed), ana, channel };
    // Its first turn fills what both need.
    team.time(TURN).await?;
    let mut timed: [TimedTeam; 2] = Default::default();
    for turn in 0..TURNS {
        timed[0].add(team.time(TURN).await?);
        let siege = Siege::begin(&bed, &push, share_of(PUSHES, turn)).await?;
        timed[1].add(team.time(TURN).await?);
        siege.end().await?;
    }
    let memory = bed.peak_memory()?;
    drop(team);
    Arc::into_inner(bed).context("the gateway is still in use")?.stop().await?;
    let [mut quiet, mut besieged] = timed;
    let of = |samples: &mut Vec<f64>, percent| find_percentile(samples, percent);
    let acks = (of(&mut besieged.acks, 95), of(&mut quiet.acks, 95));
    let calls = (of(&mut besieged.calls, 50), of(&mut quiet.calls, 50));
    Ok(vec![
        MeasuredFigure::at_most("flood.memory", memory, "MiB", MEMORY),
        MeasuredFigure::ratio("flood.others_ack_p95", acks.0, acks.1, 2.0),
        MeasuredFigure::ratio("flood.others_proxy_p50", calls.0, calls.1, 2.0),
    ])
}

/// A turn's share of so many.
const fn share_of(all: usize, turn: usize) -> usize {
    all * (turn + 1) / TURNS - all * turn / TURNS
}

/// Milliseconds.
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

/// Who works beside all this.
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

/// All that is held and asked for at once.
struct Siege {
    /// Ends with the turn.
    held: JoinSet<()>,
    connections: Vec<TcpStream>,
    /// Has to come to an end, and to be refused.
    pushes: JoinSet<anyhow::Result<()>>,
}

impl Siege {
    async fn begin(bed: &Arc<ProxyBed>, push: &HostilePush, pushes: usize) -> anyhow::Result<Self> {
        let tokens = bed.tokens(BAD);
        let (mut held, mut pushing) = (JoinSet::new(), JoinSet::new());
        let mut sent = Vec::new();
        for n in 0..BODIES {
            let (all, is_sent) = oneshot::channel();
            let token = tokens[n % tokens.len()].clone();
            held.spawn(send_slowly(bed.client()?, bed.url(), token, all));
            sent.push(is_sent);
        }
        // They are to be held, not to arrive: sent as far as the gateway takes them, or refused.
        let _ = tokio::time::timeout(ARRIVAL, join_all(sent)).await;
        for n in 0..READINGS {
            let url = format!("{}{}", bed.url(), path::HISTORY_LINES);
            let request = bed.client()?.get(url).bearer_auth(&tokens[n % 2]);
            held.spawn(async move {
                if let Ok(answer) = request.send().await {
                    let _ = answer.bytes().await;
                }
            });
        }
        for n in 0..pushes {
            let (bed, push) = (Arc::clone(bed), push.clone());
            pushing.spawn(async move { push.send(&bed, n % bed.tokens(BAD).len()).await });
        }
        let connections = (0..CONNECTIONS).map(|_| hold_connection(bed.pages()));
        let connections = join_all(connections).await.into_iter().flatten().collect::<Vec<_>>();
        ensure!(connections.len() > CONNECTIONS / 2, "{} connections", connections.len());
        Ok(Self { held, connections, pushes: pushing })
    }

    async fn end(mut self) -> anyhow::Result<()> {
        self.held.shutdown().await;
        drop(self.connections);
        while let Some(pushed) = self.pushes.join_next().await {
            pushed??;
        }
        Ok(())
    }
}

/// The longest body that is taken, but for its last byte.
async fn send_slowly(
    client: reqwest::Client,
    url: String,
    token: String,
    all: oneshot::Sender<()>,
) {
    let piece = vec![b' '; 1 << 20];
    let pieces = (0..BODY >> 20).map(move |n| {
        let mut piece = piece.clone();
        piece.truncate(if n + 1 == BODY >> 20 { (1 << 20) - 1 } else { 1 << 20 });
        Ok::<_, std::io::Error>(piece)
    });
    let last = futures::stream::once(async move {
        let _ = all.send(());
        std::future::pending().await
    });
    let body = futures::StreamExt::chain(futures::stream::iter(pieces), last);
    let request = client
        .post(format!("{url}{}", path::HISTORY))
        .bearer_auth(token)
        .header("content-type", "application/json")
        .body(reqwest::Body::wrap_stream(body));
    // It is cut off, or refused.
    let _ = request.send().await;
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

    /// Pushes it as a thread's pod; it has to be refused, and in Git's own words.
    async fn send(&self, bed: &ProxyBed, n: usize) -> anyhow::Result<()> {
        let branch = ProxyBed::branch(BAD, n);
        let line = format!("{} {} refs/heads/{branch}\0report-status", self.base, self.tip);
        let mut body = format!("{:04x}{line}0000", line.len() + 4).into_bytes();
        body.extend_from_slice(&self.pack);
        let url = format!("{}/v1/git/git-receive-pack", bed.url());
        let request = bed.client()?.post(url).bearer_auth(&bed.tokens(BAD)[n]).body(body);
        let answer = request.send().await?.bytes().await?;
        let said = String::from_utf8_lossy(&answer);
        ensure!(said.contains("ng refs/heads/"), "a hostile push was taken: {said}");
        Ok(())
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
