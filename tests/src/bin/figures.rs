//! `cargo figures NAME…` measures what the README promises in numbers.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::path::Path;
use std::process::ExitCode;

use codebutler_testbed::figures::{NAMES, measure};

fn main() -> ExitCode {
    // Under this name (a link to itself) it is the process that is measured.
    let name = std::env::args_os().next().unwrap_or_default();
    if Path::new(&name).file_name().is_some_and(|name| name == "codebutler-operator") {
        // Never outlives the measurement, however that ends.
        let _ = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL);
        return codebutler_operator::main(std::env::args_os());
    }
    let _ = rustls::crypto::ring::default_provider().install_default();
    match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(run()),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> ExitCode {
    let names: Vec<String> = std::env::args().skip(1).collect();
    if names.is_empty() {
        eprintln!("usage: cargo figures NAME…\nfigures: {}", NAMES.join(", "));
        return ExitCode::from(2);
    }
    let mut kept = true;
    for name in &names {
        match measure(name).await {
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
