//! The earlier build that some figures are measured beside, in turns: `CODEBUTLER_BASELINE` names its `figures`, in the
//! target folder of its own checkout. `.ci/baseline COMMIT` makes one.

use std::io::Write as _;
use std::path::Path;

use codebutler_testbed::stack::earlier::EarlierBuild;

const NAMED: &str = "CODEBUTLER_BASELINE";

/// The earlier build; `None`, with a line for the reader, where none is named. Then `figure` is not measured.
pub(super) fn find_baseline(figure: &str) -> anyhow::Result<Option<EarlierBuild>> {
    let Some(program) = std::env::var_os(NAMED).filter(|named| !named.is_empty()) else {
        let said =
            format!("{figure} is not measured: {NAMED} names no earlier build (.ci/baseline)");
        let _ = writeln!(std::io::stderr(), "{said}");
        return Ok(None);
    };
    EarlierBuild::find(Path::new(&program)).map(Some)
}
