//! The page of reasons, from the catalog.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use codebutler_crds::reason;

const HEAD: &str = "# Reasons\n\n\
    Each condition and each event of CodeButler has one of these words as its reason, and a sentence that names the field,\n\
    the Secret or the command. Words stay as they are within a version of the API; sentences may change. Written by\n\
    `cargo crdgen`.\n";

/// The page, beside the chart.
pub(crate) fn reasons_page(chart: &Path) -> (PathBuf, String) {
    let mut text = HEAD.to_owned();
    for kind in ["Repo", "AgentRole", "Thread"] {
        let _ = write!(
            text,
            "\n## {kind}\n\n| reason | where | what it means | what to do |\n|---|---|---|---|\n"
        );
        for reason in reason::reasons_of(kind) {
            let reason::StatusReason { name, at, means, todo, .. } = reason;
            let _ = writeln!(text, "| `{name}` | {at} | {means} | {todo} |");
        }
    }
    (chart.join("REASONS.md"), text)
}
