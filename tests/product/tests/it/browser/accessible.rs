//! Looks at a page as axe-core does: for what people can't use who can't see, hear or point.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;

use super::chromium::Browser;

const PACKAGE: &str = "axe-core@4.14.1";

/// Text of the engine, once it is there. Without npm, or a registry, it says so in one line.
fn engine() -> Option<&'static str> {
    static ENGINE: OnceLock<Option<String>> = OnceLock::new();
    let engine = ENGINE.get_or_init(|| {
        let text = installed();
        if text.is_none() {
            let _ = writeln!(std::io::stderr(), "skipped: npm brings no {PACKAGE}");
        }
        text
    });
    engine.as_deref()
}

fn installed() -> Option<String> {
    let root = Path::new(codebutler_testbed::FOLDER).join("../target/tools/axe");
    let file: PathBuf = root.join("node_modules/axe-core/axe.min.js");
    if let Ok(text) = std::fs::read_to_string(&file) {
        return Some(text);
    }
    std::fs::create_dir_all(&root).ok()?;
    let done = std::process::Command::new("npm")
        .args(["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"])
        .arg(&root)
        .arg(PACKAGE)
        .stdin(Stdio::null())
        .status();
    done.ok().filter(std::process::ExitStatus::success)?;
    std::fs::read_to_string(&file).ok()
}

/// Nothing of the page may be an obstacle, however small.
pub(super) async fn check(browser: &mut Browser, name: &str) {
    let Some(engine) = engine() else { return };
    browser.value(&format!("{engine};void 0")).await;
    let found = browser
        .value(
            "axe.run(document, {resultTypes: ['violations']}).then(found => found.violations\
             .map(one => one.impact + ' ' + one.id + ': ' + one.nodes.map(node => node.html).slice(0, 3).join(' ')))",
        )
        .await;
    assert_eq!(found, serde_json::json!([]), "{name}");
}
