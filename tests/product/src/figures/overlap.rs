//! The time until two conversations are told that their branches conflict, among 200 open threads of one
//! Repo with a push every second; and the processor time that this takes, beside the same pushes to a
//! Repo whose branches are compared with nothing.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use codebutler_crds::{Thread, names};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

use super::proxy::bed::ProxyBed;
use super::proxy::provider::LocalProvider;
use super::{MeasuredFigure, find_percentile, long_or_short, wait_until};
use codebutler_testbed::github::git::BareRepository;
use codebutler_testbed::github::{DrivenRepository, FirstCommit, GitHubOptions, GitHubServer};
use codebutler_testbed::place::TEAM;

const REPO: &str = "shop";
/// Open threads, and how many of them push.
const THREADS: usize = long_or_short(200, 20);
const PUSHERS: usize = 16;
/// Seconds, with a push in each; every so many of them get in another thread's way.
const SECONDS: usize = long_or_short(30, 3);
const CONFLICTS: usize = 5;
const PATIENCE: Duration = Duration::from_mins(3);

/// Measures the delay until both conversations are told, and the processor time.
pub(super) async fn measure_overlap() -> anyhow::Result<Vec<MeasuredFigure>> {
    let dir = tempfile::tempdir()?;
    let github = GitHubServer::start(&dir.path().join("host"), GitHubOptions::default()).await?;
    let file = |n: usize| (file_path(n), format!("pub fn part_{n}() -> u32 {{\n    {n}\n}}\n"));
    let files = FirstCommit::Files((0..THREADS).map(file).collect());
    let remote = github.create_repo("acme", REPO, files, "main").await?;
    let provider = LocalProvider::start().await?;
    let git = (remote.url(), github.token());
    let bed = ProxyBed::start_for(&provider, &[git]).await?;
    let ca = dir.path().join("ca.crt");
    std::fs::write(&ca, bed.ca())?;
    let threads = open_threads(&bed, &provider.url(), &remote, git).await?;
    let clone = Clone::make(&dir.path().join("work"), &remote, github.token()).await?;

    // The same pushes where nothing is compared.
    for n in 0..PUSHERS {
        branch_off(&remote, &ProxyBed::branch(0, n)).await?;
    }
    let idle: Vec<BranchPusher> = (0..PUSHERS)
        .map(|n| BranchPusher {
            branch: ProxyBed::branch(0, n),
            token: bed.tokens(0)[n].clone(),
            own: n,
        })
        .collect();
    let (quiet, _) = push_every_second(&bed, &clone, &ca, (&idle, None)).await?;
    let mut pushers = Vec::new();
    for (n, thread) in threads.iter().enumerate().take(PUSHERS) {
        let token = bed.register(REPO, &thread.name).await?;
        pushers.push(BranchPusher { branch: names::branch_name(&thread.name), token, own: n });
    }
    // All are looked at once before the clock starts.
    clone.push(&bed, &ca, &pushers[0], (0, "begin")).await?;
    wait_until("the first look", PATIENCE, || all_compared(&bed, &threads)).await?;
    let (busy, mut told) = push_every_second(&bed, &clone, &ca, (&pushers, Some(&threads))).await?;
    bed.stop().await?;
    let added = (busy - quiet).max(0.0) * 100.0;
    Ok(vec![
        MeasuredFigure::at_most("overlap.told_max", find_percentile(&mut told, 100), "ms", 5000.0),
        MeasuredFigure::at_most("overlap.added_cpu", added, "%", 5.0).beside(quiet * 100.0),
    ])
}

fn file_path(n: usize) -> String {
    format!("src/part_{n}.rs")
}

/// An open thread's conversation.
struct OpenConversation {
    name: String,
    channel: String,
    root: String,
}

/// Threads whose branches each change a file of their own.
async fn open_threads(
    bed: &ProxyBed,
    provider: &str,
    remote: &DrivenRepository,
    git: (&str, &str),
) -> anyhow::Result<Vec<OpenConversation>> {
    let slack = bed.slack();
    let ana = slack.create_user("ana", "Ana");
    let channel = slack.create_channel(REPO, &[&ana, &slack.bot_user_id()]);
    bed.add_repo(provider, REPO, &channel, git).await?;
    let api = Api::<Thread>::namespaced(bed.cluster().client(), TEAM);
    let mut threads = Vec::new();
    for n in 0..THREADS {
        let root = slack.post_as(&ana, &channel, None, "please")?;
        let name = format!("{REPO}-{}", root.replace('.', "-"));
        let branch = names::branch_name(&name);
        let text = format!("pub fn part_{n}() -> u32 {{\n    {n} + 1\n}}\n");
        remote.commit(&branch, "ana", "Change", &[(&file_path(n), Some(&text))]).await?;
        let thread = json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread",
            "metadata": {"namespace": TEAM, "name": name},
            "spec": {"repo": REPO, "slack": {"channel": channel, "ts": root}},
        });
        bed.cluster().apply_yaml(&thread.to_string()).await?;
        let status = json!({"status": {"branch": branch}});
        api.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await?;
        threads.push(OpenConversation { name, channel: channel.clone(), root });
    }
    Ok(threads)
}

async fn branch_off(remote: &DrivenRepository, branch: &str) -> anyhow::Result<()> {
    let base = remote.head("main").await.context("no main")?;
    remote.git().run(&["update-ref", &format!("refs/heads/{branch}"), &base]).await?;
    Ok(())
}

/// Returns `Some` once the status of every Thread says that its branch has been compared.
async fn all_compared(bed: &ProxyBed, threads: &[OpenConversation]) -> anyhow::Result<Option<()>> {
    let client: Client = bed.cluster().client();
    let all =
        Api::<Thread>::namespaced(client, TEAM).list(&kube::api::ListParams::default()).await?;
    let seen =
        |thread: &&Thread| thread.status.as_ref().is_some_and(|status| status.radar.is_some());
    Ok((all.items.iter().filter(seen).count() >= threads.len()).then_some(()))
}

/// A Thread that pushes to its branch, and the file that it alone changes.
struct BranchPusher {
    branch: String,
    token: String,
    own: usize,
}

/// Pushes once a second. How much of a processor the gateway took, and in how many milliseconds after a push
/// both conversations were told of each conflict.
async fn push_every_second(
    bed: &ProxyBed,
    clone: &Clone,
    ca: &Path,
    (pushers, threads): (&[BranchPusher], Option<&[OpenConversation]>),
) -> anyhow::Result<(f64, Vec<f64>)> {
    let (began, used) = (Instant::now(), bed.cpu_seconds()?);
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    let (mut waiting, mut took) = (FuturesUnordered::new(), Vec::new());
    for n in 0..SECONDS {
        loop {
            tokio::select! {
                _ = tick.tick() => break,
                Some(done) = waiting.next() => took.push(done?),
            }
        }
        let pusher = &pushers[n % pushers.len()];
        let meets = (n % CONFLICTS == 0).then(|| PUSHERS + n);
        let file = meets.unwrap_or(pusher.own);
        clone.push(bed, ca, pusher, (file, &format!("{n} + 2"))).await?;
        if let (Some(other), Some(threads)) = (meets, threads) {
            let since = Instant::now();
            let sides = [&threads[n % pushers.len()], &threads[other]];
            waiting.push(await_told(bed, sides, since));
        }
    }
    let spent = (bed.cpu_seconds()? - used) / began.elapsed().as_secs_f64();
    while let Some(done) = waiting.next().await {
        took.push(done?);
    }
    Ok((spent, took))
}

/// Milliseconds until both conversations of a pair know.
async fn await_told(
    bed: &ProxyBed,
    sides: [&OpenConversation; 2],
    since: Instant,
) -> anyhow::Result<f64> {
    let knows = |at: usize| {
        let OpenConversation { channel, root, .. } = sides[at];
        let other = &sides[1 - at].name;
        let all = bed.slack().messages(channel, Some(root));
        let says = |text: &str| text.contains(&**other) && text.contains("same lines");
        all.iter().any(|message| says(&message.shown))
    };
    let both = || async { Ok((knows(0) && knows(1)).then_some(())) };
    wait_until("a conflict is told", PATIENCE, both).await?;
    Ok(since.elapsed().as_secs_f64() * 1000.0)
}

/// A clone from which all push.
struct Clone {
    folder: PathBuf,
}

impl Clone {
    async fn make(folder: &Path, remote: &DrivenRepository, token: &str) -> anyhow::Result<Self> {
        let url = remote.url().replacen("://", &format!("://x-access-token:{token}@"), 1);
        run_git(&[], &["clone", "-q", &url, &folder.to_string_lossy()]).await?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// Makes one more commit on a branch, which changes a file, and pushes it through the gateway.
    async fn push(
        &self,
        bed: &ProxyBed,
        ca: &Path,
        pusher: &BranchPusher,
        (file, content): (usize, &str),
    ) -> anyhow::Result<()> {
        let at = ["-C".to_owned(), self.folder.to_string_lossy().into_owned()];
        let BranchPusher { branch, token, .. } = pusher;
        run_git(
            &at,
            &["fetch", "-q", "origin", &format!("+refs/heads/{branch}:refs/heads/{branch}")],
        )
        .await?;
        run_git(&at, &["checkout", "-q", branch]).await?;
        let text = format!("pub fn part_{file}() -> u32 {{\n    {content}\n}}\n");
        std::fs::write(self.folder.join(file_path(file)), text)?;
        run_git(&at, &["commit", "-q", "-a", "--allow-empty", "-m", "Go on"]).await?;
        let way: Vec<_> = at.iter().cloned().chain(bed.git_options(token, ca)).collect();
        let (url, to) = (format!("{}/v1/git", bed.url()), format!("HEAD:refs/heads/{branch}"));
        run_git(&way, &["push", "-q", &url, &to]).await?;
        run_git(&at, &["checkout", "-q", "--detach"]).await?;
        Ok(())
    }
}

/// Runs Git with these options.
async fn run_git(options: &[String], words: &[&str]) -> anyhow::Result<()> {
    let who = ["-c", "user.name=Ana", "-c", "user.email=ana@example.com"];
    let output = BareRepository::command().args(options).args(who).args(words).output().await?;
    ensure!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
