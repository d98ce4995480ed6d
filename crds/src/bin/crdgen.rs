//! Writes the CustomResourceDefinitions to `crds/yaml`, or with `--check` compares them with it.
#![allow(clippy::print_stderr, reason = "a program for people at a terminal")]

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("yaml");
    let check = std::env::args().any(|arg| arg == "--check");
    match run(&dir, check) {
        Ok(stale) if stale.is_empty() => ExitCode::SUCCESS,
        Ok(stale) => {
            eprintln!(
                "out of date: {}; run `cargo crdgen` and commit the result",
                stale.join(", ")
            );
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the names of the files that differ from the code (always empty unless `check`).
fn run(dir: &Path, check: bool) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let mut stale = Vec::new();
    for (name, yaml) in codebutler_crds::manifests()? {
        let path = dir.join(&name);
        if !check {
            std::fs::write(path, yaml)?;
        } else if std::fs::read_to_string(path).unwrap_or_default() != yaml {
            stale.push(name);
        }
    }
    Ok(stale)
}
