//! The cost of a repository's memory when a run starts: 500 learnings and a megabyte of `.codebutler/`,
//! read from Git, looked up and chosen.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::ensure;
use codebutler_agent::memory::MAX_MEMORY_TOKENS;
use codebutler_agent::prompt::count_tokens;
use codebutler_agent::toolbox::git::learn::bench::serve_memory;

use super::{MeasuredFigure, long_or_short};

const LEARNINGS: usize = 500;
const SOURCES: usize = 100;
/// Bytes of pages that no run is shown, such as research and journals.
const OTHERS: usize = 800 * 1024;
const ROUNDS: usize = long_or_short(30, 2);

/// Milliseconds of a run's start, and tokens of what a role is shown.
pub(super) fn measure_memory() -> anyhow::Result<Vec<MeasuredFigure>> {
    let dir = tempfile::tempdir()?;
    let tree = dir.path().join("tree");
    fill_repository(&tree)?;
    let files: Vec<_> = (0..8).map(|n| format!("src/part{n}/mod.rs")).collect();
    let pages = ["coder.md", "global.md"];
    let mut times = Vec::new();
    let mut shown = 0;
    for _ in 0..ROUNDS {
        let started = Instant::now();
        let text = serve_memory(dir.path(), &pages, &files)?;
        times.push(started.elapsed().as_secs_f64() * 1e3);
        shown = count_tokens(text.len());
    }
    let everything = serve_memory(dir.path(), &pages, &[])?;
    ensure!(everything.contains("{#l-"), "no learning is shown");
    times.sort_by(f64::total_cmp);
    let most = shown.max(count_tokens(everything.len()));
    Ok(vec![
        MeasuredFigure::at_most("memory.start_p50", times[ROUNDS / 2], "ms", 5.0),
        MeasuredFigure::at_most(
            "memory.tokens",
            f64::from(most),
            "count",
            f64::from(MAX_MEMORY_TOKENS),
        ),
    ])
}

fn fill_repository(tree: &Path) -> anyhow::Result<()> {
    let memory = tree.join(".codebutler");
    std::fs::create_dir_all(memory.join("research"))?;
    for n in 0..SOURCES {
        let folder = tree.join(format!("src/part{n}"));
        std::fs::create_dir_all(&folder)?;
        let lines: String = (0..200).fold(String::new(), |mut text, line| {
            let _ = writeln!(text, "pub fn part{n}_line{line}() -> usize {{ {line} }}");
            text
        });
        std::fs::write(folder.join("mod.rs"), lines)?;
    }
    for (page, from) in [("coder.md", 0), ("global.md", LEARNINGS / 2)] {
        let mut text = format!("# {page}\n\nHow we work.\n\n## Learnings\n\n");
        for n in from..from + LEARNINGS / 2 {
            let part = n % SOURCES;
            let _ = writeln!(
                text,
                "### Part {part} counts from {n} {{#l-{n:08x}}}\n- When: a number of part {part} is \
                 compared\n- Rule: compare with the line that names it, never with {n} itself\n- Example: \
                 `part{part}_line{}()`\n- Confidence: medium\n- Scope: src/part{part}/**\n- Cites: \
                 src/part{part}/mod.rs:{} \"pub fn part{part}_line{}()\"\n- Source: \
                 https://team.slack.example/archives/C1/p{n}\n",
                n % 200,
                n % 200 + 1,
                n % 200
            );
        }
        std::fs::write(memory.join(page), text)?;
    }
    let page = "What somebody found out, and nobody reads at the start of a run.\n".repeat(1200);
    for n in 0..OTHERS / page.len() {
        std::fs::write(memory.join(format!("research/{n}.md")), &page)?;
    }
    for arguments in [
        &["init", "-q"][..],
        &["add", "-A"],
        &["-c", "user.name=a", "-c", "user.email=a@b.invalid", "commit", "-q", "-m", "All"],
        &["gc", "-q"],
    ] {
        let done = Command::new("git").args(arguments).current_dir(tree).status()?;
        ensure!(done.success(), "git {arguments:?}");
    }
    Ok(())
}
