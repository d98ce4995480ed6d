//! `cargo figures NAME…` measures what the README promises in numbers.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::path::Path;
use std::process::ExitCode;

use codebutler_testbed::figures::{NAMES, measure_figure};
use codebutler_testbed::kubelet;

fn main() -> ExitCode {
    // Under these names (links to itself) it is a process that is measured.
    let name = std::env::args_os().next().unwrap_or_default();
    let program = Path::new(&name).file_name().map(|name| name.to_string_lossy().into_owned());
    match program.as_deref() {
        Some("codebutler-operator") => {
            // Never outlives the measurement, however that ends.
            let _ = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL);
            return codebutler_operator::main(std::env::args_os());
        }
        Some("codebutler-agent") => return codebutler_agent::main(std::env::args_os()),
        Some("codebutler-pause") => return kubelet::pause_main(std::env::args_os()),
        _ => {}
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
