//! Duration of a push while another Repo's pods send packs that unfold to giants: in turns without and
//! with them, in one run.

use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use anyhow::ensure;
use futures::future::join_all;
use tokio::io::AsyncWriteExt as _;

use super::proxy::bed::ProxyBed;
use super::proxy::provider::LocalProvider;
use super::{MeasuredFigure, find_percentile, long_or_short};
use codebutler_testbed::github::git::BareRepository;
use codebutler_testbed::github::{DrivenRepository, FirstCommit, GitHubOptions, GitHubServer};

/// Number of turns of each kind.
const TURNS: usize = long_or_short(7, 1);
/// Packs at once, each of a Thread of its own.
const HOSTILE: usize = 3;
/// Size in bytes to which such a pack unfolds, twice.
const GIANT: usize = 250 << 20;

/// Indexes of the hostile Repo and of the other one.
const BAD: usize = 0;
const GOOD: usize = 1;

/// Measures pushes in turns without and with hostile packs.
pub(super) async fn measure_packs() -> anyhow::Result<Vec<MeasuredFigure>> {
    let dir = tempfile::tempdir()?;
    let github = GitHubServer::start(&dir.path().join("host"), GitHubOptions::default()).await?;
    let mut remotes = Vec::new();
    for name in ["bad", "good"] {
        let files = [("README.md".to_owned(), format!("# {name}\n"))].into();
        remotes.push(github.create_repo("acme", name, FirstCommit::Files(files), "main").await?);
    }
    let provider = LocalProvider::start().await?;
    let gits: Vec<_> = remotes.iter().map(|remote| (remote.url(), github.token())).collect();
    let bed = ProxyBed::start_for(&provider, &gits).await?;
    let ca = dir.path().join("ca.crt");
    std::fs::write(&ca, bed.ca())?;
    let mut hostile = Vec::new();
    let base = remotes[BAD].head("main").await.unwrap_or_default();
    for n in 0..HOSTILE {
        let branch = ProxyBed::branch(BAD, n);
        remotes[BAD].git().run(&["update-ref", &format!("refs/heads/{branch}"), &base]).await?;
        hostile.push(branch);
    }
    let giant = GiantPack::make(&dir.path().join("giant"), &remotes[BAD], github.token()).await?;
    let work = PushingClone::clone(&bed, &ca, &dir.path().join("work"), &remotes[GOOD]).await?;

    work.push().await?;
    let (mut quiet, mut beside) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        quiet.push(work.push().await?);
        let packs = hostile.iter().enumerate().map(|(n, branch)| giant.send(&bed, n, branch));
        let (packs, took) = tokio::join!(join_all(packs), work.push());
        packs.into_iter().collect::<anyhow::Result<Vec<()>>>()?;
        beside.push(took?);
    }
    bed.stop().await?;
    let (quiet, beside) = (find_percentile(&mut quiet, 50), find_percentile(&mut beside, 50));
    Ok(vec![MeasuredFigure::ratio("packs.others_push", beside, quiet, 2.0)])
}

/// A small pack that unfolds to a giant and a difference to it.
struct GiantPack {
    base: String,
    tip: String,
    pack: Vec<u8>,
}

impl GiantPack {
    async fn make(folder: &Path, remote: &DrivenRepository, token: &str) -> anyhow::Result<Self> {
        let url = remote.url().replacen("://", &format!("://x-access-token:{token}@"), 1);
        run_git(&[], &["clone", "-q", &url, &folder.to_string_lossy()]).await?;
        let at = ["-C".to_owned(), folder.to_string_lossy().into_owned()];
        let base = run_git(&at, &["rev-parse", "HEAD"]).await?;
        for byte in 0..2 {
            let mut content = vec![0; GIANT];
            content[GIANT / 2] = byte;
            std::fs::write(folder.join("giant.bin"), content)?;
            run_git(&at, &["add", "."]).await?;
            run_git(&at, &["commit", "-q", "-m", "Grow"]).await?;
        }
        let tip = run_git(&at, &["rev-parse", "HEAD"]).await?;
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
        ensure!(pack.starts_with(b"PACK") && pack.len() < 1 << 20, "{} bytes", pack.len());
        Ok(Self { base, tip, pack })
    }

    /// Pushes it as no Git would; it has to be refused, and in Git's own words.
    async fn send(&self, bed: &ProxyBed, n: usize, branch: &str) -> anyhow::Result<()> {
        let line = format!("{} {} refs/heads/{branch}\0report-status", self.base, self.tip);
        let mut body = format!("{:04x}{line}0000", line.len() + 4).into_bytes();
        body.extend_from_slice(&self.pack);
        let url = format!("{}/v1/git/git-receive-pack", bed.url());
        let request = bed.client()?.post(url).bearer_auth(&bed.tokens(BAD)[n]).body(body);
        let answer = request.send().await?.bytes().await?;
        let said = String::from_utf8_lossy(&answer);
        ensure!(said.contains("ng refs/heads/"), "a giant was taken: {said}");
        Ok(())
    }
}

/// A clone that pushes one small commit after the other through the gateway.
struct PushingClone {
    options: Vec<String>,
    url: String,
    branch: String,
}

impl PushingClone {
    async fn clone(
        bed: &ProxyBed,
        ca: &Path,
        folder: &Path,
        remote: &DrivenRepository,
    ) -> anyhow::Result<Self> {
        let branch = ProxyBed::branch(GOOD, 0);
        let base = remote.head("main").await.unwrap_or_default();
        remote.git().run(&["update-ref", &format!("refs/heads/{branch}"), &base]).await?;
        let url = format!("{}/v1/git", bed.url());
        let way = bed.git_options(&bed.tokens(GOOD)[0], ca);
        run_git(&way, &["clone", "-q", "-b", &branch, &url, &folder.to_string_lossy()]).await?;
        let at = ["-C".to_owned(), folder.to_string_lossy().into_owned()];
        Ok(Self { options: at.into_iter().chain(way).collect(), url, branch })
    }

    /// Seconds that one more push takes.
    async fn push(&self) -> anyhow::Result<f64> {
        run_git(&self.options, &["commit", "-q", "--allow-empty", "-m", "Go on"]).await?;
        let to = format!("HEAD:refs/heads/{}", self.branch);
        let started = Instant::now();
        run_git(&self.options, &["push", "-q", &self.url, &to]).await?;
        Ok(started.elapsed().as_secs_f64())
    }
}

/// Runs Git, and answers what it printed.
async fn run_git(options: &[String], words: &[&str]) -> anyhow::Result<String> {
    let who = ["-c", "user.name=Ana", "-c", "user.email=ana@example.com"];
    let output = BareRepository::command().args(options).args(who).args(words).output().await?;
    ensure!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
