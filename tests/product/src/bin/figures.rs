//! `cargo figures NAME…` measures what the README promises in numbers.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

use codebutler_product::figures::table::render_table;
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
    match names.first().map(String::as_str) {
        None => {
            eprintln!("usage: cargo figures NAME…\nfigures: {}", NAMES.join(", "));
            return ExitCode::from(2);
        }
        Some("--names") => {
            println!("{}", NAMES.join("\n"));
            return ExitCode::SUCCESS;
        }
        Some("--table") => return print_table(&names[1..]),
        Some(_) => {}
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

/// The first file holds what was measured, the second, if there is one, the last release's. Fails where one is red.
fn print_table(files: &[String]) -> ExitCode {
    let mut texts = Vec::new();
    for file in files {
        match std::fs::read_to_string(file) {
            Ok(text) => texts.push(text),
            Err(error) => {
                eprintln!("{file}: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    let text = |n: usize| texts.get(n).map(String::as_str).unwrap_or_default();
    let table = render_table(text(0), text(1));
    print!("{}", table.text);
    if table.holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
