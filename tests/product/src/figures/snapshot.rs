//! The cost of a snapshot of a worktree in which nothing changed: 20,000 files, beside `git status` of
//! the same worktree.

use std::path::Path;
use std::time::Instant;

use anyhow::ensure;
use codebutler_agent::toolbox::protocol::{
    CommitAuthor, ToolboxHello, ToolboxReply, ToolboxRequest,
};

use super::worktree::start_toolbox;
use super::{MeasuredFigure, long_or_short};
use codebutler_testbed::github::git::BareRepository;

const FILES: usize = long_or_short(20_000, 500);
/// Number of files in one folder.
const TOGETHER: usize = 100;
/// Size of a file in bytes.
const SIZE: usize = 900;
/// Number of measurements of each side, in turn; the median counts.
const ROUNDS: usize = long_or_short(15, 2);
/// Highest ratio of a snapshot's time to that of `git status`.
const MOST: f64 = 1.3;

/// Measures a snapshot against `git status`.
pub(super) async fn measure_snapshot() -> anyhow::Result<Vec<MeasuredFigure>> {
    let dir = tempfile::tempdir()?;
    let remote = dir.path().join("remote.git");
    make_remote(dir.path(), &remote).await?;
    let folder = dir.path().join("pod");
    let (mut serving, toolbox) = start_toolbox(&folder).await?;
    let author =
        CommitAuthor { name: "CodeButler".to_owned(), email: "coder@example.com".to_owned() };
    let hello = ToolboxHello {
        relay_url: format!("file://{}", remote.display()),
        proxy: String::new(),
        branch: "main".to_owned(),
        base_branch: "main".to_owned(),
        sparse: Vec::new(),
        author,
        role: "coder".to_owned(),
    };
    toolbox.ask(ToolboxRequest::Hello(hello)).await?;
    let reply = toolbox.ask(ToolboxRequest::Prepare { made_at: None, planned: vec![] }).await?;
    ensure!(matches!(&reply, ToolboxReply::Text(_)), "{reply:?}");
    let tree = folder.join("work/tree");
    // The first of each reads every file.
    for _ in 0..2 {
        git(&tree, &["status", "--porcelain"]).await?;
        toolbox.ask(ToolboxRequest::Snapshot).await?;
    }
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let started = Instant::now();
        git(&tree, &["status", "--porcelain"]).await?;
        theirs.push(started.elapsed().as_secs_f64());
        let started = Instant::now();
        let reply = toolbox.ask(ToolboxRequest::Snapshot).await?;
        ours.push(started.elapsed().as_secs_f64());
        ensure!(
            matches!(&reply, ToolboxReply::Kept(kept) if kept.left_out.is_empty()),
            "{reply:?}"
        );
    }
    drop(toolbox);
    let status = serving.wait().await?;
    ensure!(status.success(), "the toolbox: {status}");
    let ours = super::find_percentile(&mut ours, 50);
    let theirs = super::find_percentile(&mut theirs, 50);
    Ok(vec![MeasuredFigure::ratio("snapshot.unchanged", ours, theirs, MOST)])
}

async fn make_remote(dir: &Path, remote: &Path) -> anyhow::Result<()> {
    let seed = dir.join("seed");
    for n in 0..FILES {
        let folder = seed.join(format!("src/m{:03}", n / TOGETHER));
        if n % TOGETHER == 0 {
            std::fs::create_dir_all(&folder)?;
        }
        let line = format!("file {n}\n");
        std::fs::write(folder.join(format!("f{n}.txt")), line.repeat(SIZE / line.len()))?;
    }
    std::fs::write(seed.join(".gitignore"), "target/\n*.log\n")?;
    git(&seed, &["init", "-q", "-b", "main"]).await?;
    git(&seed, &["add", "-A"]).await?;
    git(&seed, &["commit", "-q", "-m", "Begin"]).await?;
    git(dir, &["clone", "-q", "--bare", "seed", &remote.display().to_string()]).await
}

async fn git(dir: &Path, args: &[&str]) -> anyhow::Result<()> {
    let identity = ["-c", "user.name=Ana", "-c", "user.email=ana@example.com"];
    let output =
        BareRepository::command().args(identity).args(args).current_dir(dir).output().await?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
