//! Writes what is made from code and schemas: the CustomResourceDefinitions in `crds/yaml`, the
//! table of values on the chart's page, and the pages of reasons and of egress presets beside it. With `--check` it compares instead.
#![allow(clippy::print_stderr, reason = "a program for people at a terminal")]

mod egress;
mod reasons;
mod values;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let check = std::env::args().any(|arg| arg == "--check");
    match run_crdgen(crate_dir, check) {
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

/// Returns the files that differ from their sources (always none unless `check`).
fn run_crdgen(crate_dir: &Path, check: bool) -> Result<Vec<String>, Box<dyn Error>> {
    let mut stale = Vec::new();
    for (path, text) in generate_files(crate_dir)? {
        if !check {
            std::fs::write(path, text)?;
        } else if std::fs::read_to_string(&path).unwrap_or_default() != text {
            let path = path.strip_prefix(crate_dir).unwrap_or(&path);
            stale.push(path.display().to_string());
        }
    }
    Ok(stale)
}

/// Every generated file with its text.
fn generate_files(crate_dir: &Path) -> Result<Vec<(PathBuf, String)>, Box<dyn Error>> {
    let yaml = crate_dir.join("yaml");
    let manifests = codebutler_crds::manifests()?;
    let mut files: Vec<_> =
        manifests.into_iter().map(|(name, text)| (yaml.join(name), text)).collect();
    let chart = crate_dir.join("../charts/codebutler");
    files.push(values::values_page(&chart)?);
    files.push(reasons::reasons_page(&chart));
    files.push(egress::egress_page(&chart));
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_files_are_up_to_date() {
        let stale = run_crdgen(Path::new(env!("CARGO_MANIFEST_DIR")), true).unwrap();
        assert!(stale.is_empty(), "run `cargo crdgen` and commit the result: {stale:?}");
    }
}
