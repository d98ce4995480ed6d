//! Waiting time of a role for its worktree: a repository of 100 MB, the tenth that is made of it, cloned
//! by the toolbox through relay and gateway, beside a `git clone` of the same history from a local
//! server.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Instant;

use anyhow::ensure;
use codebutler_agent::gateway::GatewayClient;
use codebutler_agent::relay::GitRelay;
use codebutler_agent::toolbox::client::ToolboxClient;
use codebutler_agent::toolbox::protocol::{
    CommitAuthor, ToolboxHello, ToolboxReply, ToolboxRequest,
};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::process::{Child, Command};

use super::proxy::bed::ProxyBed;
use super::proxy::provider::LocalProvider;
use super::{MeasuredFigure, long_or_short};
use codebutler_testbed::github::git::BareRepository;
use codebutler_testbed::github::{DrivenRepository, FirstCommit, GitHubOptions, GitHubServer};

/// Files, and bytes of each.
const FILES: usize = long_or_short(2000, 100);
const SIZE: usize = 50_000;
/// Commits after the first, of one file each.
const COMMITS: usize = long_or_short(30, 3);
/// Worktrees that are made before the one that counts.
const BEFORE: usize = long_or_short(9, 1);
/// Number of measurements of each side; the median counts.
const ROUNDS: usize = long_or_short(5, 1);

/// Measures a worktree against a plain clone.
pub(super) async fn measure_worktree() -> anyhow::Result<Vec<MeasuredFigure>> {
    let dir = tempfile::tempdir()?;
    let github = GitHubServer::start(&dir.path().join("host"), GitHubOptions::default()).await?;
    let first = FirstCommit::Files(source_files());
    let remote = github.create_repo("acme", "large", first, "main").await?;
    make_history(&remote).await?;
    let provider = LocalProvider::start().await?;
    let bed = ProxyBed::start(&provider, Some((remote.url(), github.token()))).await?;
    let branch = ProxyBed::branch(0, 0);
    remote.commit(&branch, "ana", "Begin", &[("begin.txt", Some("begin\n"))]).await?;
    // As a host has it: in packs, not object by object.
    remote.git().run(&["repack", "-a", "-d", "-q"]).await?;
    let (ca, token) = (dir.path().join("ca.crt"), dir.path().join("token"));
    std::fs::write(&ca, bed.ca())?;
    std::fs::write(&token, &bed.tokens(0)[0])?;
    let gateway = GatewayClient::new(&bed.url(), Some(bed.address()), &ca, &token)?;
    let relay = GitRelay::start("127.0.0.1:0".parse()?, gateway).await?;

    for n in 0..BEFORE {
        let folder = dir.path().join(format!("before-{n}"));
        time_worktree(&folder, &relay, &branch).await?;
    }
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for n in 0..ROUNDS {
        let folder = dir.path().join(format!("clone-{n}"));
        theirs.push(time_clone(&folder, &remote, github.token()).await?);
        let folder = dir.path().join(format!("worktree-{n}"));
        ours.push(time_worktree(&folder, &relay, &branch).await?);
    }
    bed.stop().await?;
    let (ours, theirs) =
        (super::find_percentile(&mut ours, 50), super::find_percentile(&mut theirs, 50));
    Ok(vec![MeasuredFigure::ratio("worktree.ready", ours, theirs, 1.2)])
}

/// Text that looks like code: it packs, but not to nothing.
fn source_files() -> BTreeMap<String, String> {
    let mut rng = StdRng::seed_from_u64(1);
    let words: Vec<String> = (0..4000)
        .map(|_| {
            (0..rng.random_range(3..12))
                .map(|_| char::from(rng.random_range(b'a'..=b'z')))
                .collect()
        })
        .collect();
    let mut file = || {
        let mut text = String::with_capacity(SIZE + 16);
        while text.len() < SIZE {
            text.push_str(&words[rng.random_range(0..words.len())]);
            text.push(if rng.random_range(0..9) == 0 { '\n' } else { ' ' });
        }
        text
    };
    (0..FILES).map(|n| (format!("src/m{:02}/f{n}.txt", n % 40), file())).collect()
}

async fn make_history(remote: &DrivenRepository) -> anyhow::Result<()> {
    for n in 0..COMMITS {
        let text = format!("change {n}\n");
        remote.commit("main", "ana", &text, &[("CHANGES", Some(&text))]).await?;
    }
    Ok(())
}

/// Seconds until `git clone` has a worktree.
async fn time_clone(folder: &Path, remote: &DrivenRepository, token: &str) -> anyhow::Result<f64> {
    let url = remote.url().replacen("://", &format!("://x-access-token:{token}@"), 1);
    let started = Instant::now();
    let output = BareRepository::command().args(["clone", "-q", &url]).arg(folder).output().await?;
    let took = started.elapsed().as_secs_f64();
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(took)
}

/// A toolbox that works in a folder: a process of its own, as in a pod, since it ends whatever is left of its
/// commands, and would end this one.
pub(super) async fn start_toolbox(folder: &Path) -> anyhow::Result<(Child, ToolboxClient)> {
    let socket = folder.join("run/toolbox.sock");
    std::fs::create_dir_all(folder)?;
    let program = folder.join("codebutler-agent");
    symlink(std::env::current_exe()?, &program)?;
    let serving = Command::new(program)
        .args(["toolbox", "--sandbox=runtime"])
        .arg(format!("--socket={}", socket.display()))
        .arg(format!("--work-dir={}", folder.join("work").display()))
        .kill_on_drop(true)
        .spawn()?;
    Ok((serving, ToolboxClient::connect(&socket).await?))
}

/// Seconds until the toolbox has a worktree.
async fn time_worktree(folder: &Path, relay: &GitRelay, branch: &str) -> anyhow::Result<f64> {
    let (mut serving, toolbox) = start_toolbox(folder).await?;
    let hello = ToolboxHello {
        relay_url: relay.url(),
        proxy: relay.proxy(),
        branch: branch.to_owned(),
        base_branch: "main".to_owned(),
        sparse: Vec::new(),
        author: CommitAuthor {
            name: "CodeButler".to_owned(),
            email: "coder@example.com".to_owned(),
        },
        role: "pm".to_owned(),
    };
    toolbox.ask(ToolboxRequest::Hello(hello)).await?;
    let started = Instant::now();
    let reply = toolbox.ask(ToolboxRequest::Prepare { made_at: None, planned: vec![] }).await?;
    let took = started.elapsed().as_secs_f64();
    ensure!(matches!(&reply, ToolboxReply::Text(_)), "{reply:?}");
    ensure!(folder.join("work/tree/begin.txt").exists(), "no worktree: {reply:?}");
    drop(toolbox);
    let status = serving.wait().await?;
    ensure!(status.success(), "the toolbox: {status}");
    Ok(took)
}
