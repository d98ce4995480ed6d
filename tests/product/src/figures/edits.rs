//! Edits of 500 files of many forms, beside the edit tools of Codex and opencode on the same files: which of them
//! change a byte that the edit does not name.

mod others;

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use codebutler_agent::toolbox::files::bench;

use super::{MeasuredFigure, long_or_short};

/// Files, each with one edit.
const FILES: usize = long_or_short(500, 20);

/// A file, and one line of it that is to be another.
pub(super) struct EditTrial {
    pub name: String,
    /// The line, as a person sees it.
    pub old: String,
    /// Replacement of the line.
    pub new: String,
    /// The line above it, as context of a patch.
    pub above: String,
    before: Vec<u8>,
    after: Vec<u8>,
}

/// Result of a tool's edits over all files.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EditScore {
    /// Number of files that are as they should be.
    pub done: usize,
    /// Neither that nor as they were.
    pub damaged: usize,
}

impl EditTrial {
    /// The edit as a patch of one file.
    pub(super) fn patch(&self) -> String {
        format!(
            "*** Begin Patch\n*** Update File: {}\n@@\n {}\n-{}\n+{}\n*** End Patch",
            self.name, self.above, self.old, self.new
        )
    }
}

/// Measures the edits of all files: none is damaged here; other programs' counts are for comparison.
pub(super) async fn measure_edits() -> anyhow::Result<Vec<MeasuredFigure>> {
    let trials: Vec<EditTrial> = (0..FILES).map(make_trial).collect();
    let mut scratch = tempfile::tempdir()?;
    let patched = score(&trials, scratch.path(), |tree, scratch, trial| {
        bench::patch_files(tree, scratch, &trial.patch()).is_ok()
    })?;
    scratch = tempfile::tempdir()?;
    let edited = score(&trials, scratch.path(), |tree, scratch, trial| {
        bench::edit_file(tree, scratch, &trial.name, &trial.old, &trial.new).is_ok()
    })?;
    let codex = others::patch_with_codex(&trials).await;
    let opencode = Box::pin(others::edit_with_opencode(&trials)).await;
    let count = |count: usize| u32::try_from(count).map_or(f64::NAN, f64::from);
    let damaged = |name: &str, own: EditScore, other: Option<EditScore>| {
        MeasuredFigure::at_most(name, count(own.damaged), "count", 0.0)
            .perhaps_beside(other.map(|other| count(other.damaged)))
    };
    let done = |name: &str, own: EditScore, other: Option<EditScore>| {
        MeasuredFigure::at_least(name, count(own.done), "count", count(FILES))
            .perhaps_beside(other.map(|other| count(other.done)))
    };
    Ok(vec![
        damaged("edits.patch_damaged_beside_codex", patched, codex),
        done("edits.patch_done_beside_codex", patched, codex),
        damaged("edits.edit_damaged_beside_opencode", edited, opencode),
        done("edits.edit_done_beside_opencode", edited, opencode),
    ])
}

/// Lays the files out, has them edited one by one and looks at each.
fn score(
    trials: &[EditTrial],
    dir: &Path,
    edit: impl Fn(&Path, &Path, &EditTrial) -> bool,
) -> anyhow::Result<EditScore> {
    let (tree, scratch) = (dir.join("tree"), dir.join("scratch"));
    fs::create_dir_all(&scratch)?;
    lay_out(trials, &tree)?;
    for trial in trials {
        edit(&tree, &scratch, trial);
    }
    count_score(trials, &tree)
}

/// Writes all files as they are before their edits.
pub(super) fn lay_out(trials: &[EditTrial], tree: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(tree)?;
    for trial in trials {
        fs::write(tree.join(&trial.name), &trial.before)?;
    }
    Ok(())
}

/// Counts the files that are edited as they should be, and those that are damaged.
pub(super) fn count_score(trials: &[EditTrial], tree: &Path) -> anyhow::Result<EditScore> {
    let mut score = EditScore::default();
    for trial in trials {
        let now = fs::read(tree.join(&trial.name)).context("a file is gone")?;
        score.done += usize::from(now == trial.after);
        score.damaged += usize::from(now != trial.after && now != trial.before);
    }
    Ok(score)
}

/// Files as repositories have them: line ends, marks, encodings, last lines and spaces of every kind.
fn make_trial(number: usize) -> EditTrial {
    let ends: [&[&str]; 4] = [&["\n"], &["\r\n"], &["\r\n", "\n", "\n"], &["\n", "\r\n"]];
    let (ends, form, rest) = (ends[number % 4], number / 4 % 5, number / 20);
    let word = ["plain", "caf\u{e9}", "na\u{ef}ve \u{fc}ber"][rest % 3];
    let spaces = ["", "  ", "\t"][rest / 3 % 3];
    let lines: Vec<String> = (0..6 + rest % 5)
        .map(|line| {
            format!("\tkey{line} = \"{word} {number}\";{}", if line == 2 { spaces } else { "" })
        })
        .collect();
    let at = 3;
    let (old, above) = (lines[at].clone(), lines[at - 1].clone());
    let new = old.replace(" = ", " = other ");
    let write = |changed: bool| {
        let mut text = String::new();
        for (index, line) in lines.iter().enumerate() {
            text.push_str(if changed && index == at { &new } else { line });
            if index + 1 < lines.len() || rest % 2 == 0 {
                text.push_str(ends[index % ends.len()]);
            }
        }
        match form {
            0 => text.into_bytes(),
            1 => format!("\u{feff}{text}").into_bytes(),
            2 => text.chars().map(|c| u8::try_from(u32::from(c)).unwrap_or(b'?')).collect(),
            3 => format!("\u{feff}{text}").encode_utf16().flat_map(u16::to_le_bytes).collect(),
            _ => text.replace('\t', "    ").into_bytes(),
        }
    };
    let (before, after) = (write(false), write(true));
    let plain = |text: &str| if form > 3 { text.replace('\t', "    ") } else { text.to_owned() };
    EditTrial {
        name: format!("f{number}.txt"),
        old: plain(&old),
        new: plain(&new),
        // As a model sees it, and so names it: without what stands at the end of it.
        above: plain(above.trim_end()),
        before,
        after,
    }
}
