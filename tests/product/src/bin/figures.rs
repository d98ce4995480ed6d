//! `cargo figures NAME…` measures what the README promises in numbers.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

use codebutler_product::figures::{NAMES, measure_figure};
use codebutler_product::programs::run_named_program;

fn main() -> ExitCode {
    // Links to this program are the processes that are measured.
    if let Some(ended) = run_named_program() {
        return ended;
    }
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_writer(std::io::stderr)
        .init();
    let _ = rustls::crypto::ring::default_provider().install_default();
    match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(run_figures()),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run_figures() -> ExitCode {
    let names: Vec<String> = std::env::args().skip(1).collect();
    if names.is_empty() {
        eprintln!("usage: cargo figures NAME…\nfigures: {}", NAMES.join(", "));
        return ExitCode::from(2);
    }
    let mut kept = true;
    for name in &names {
        match measure_figure(name).await {
            Ok(figures) => {
                for figure in figures {
                    kept &= figure.holds();
                    println!("{}", serde_json::json!(figure));
                }
            }
            Err(error) => {
                eprintln!("{name}: {error:#}");
                kept = false;
            }
        }
    }
    if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
