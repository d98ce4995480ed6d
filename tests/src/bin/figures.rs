//! `cargo figures NAME…` measures what the README promises in numbers.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::path::Path;
use std::process::ExitCode;

use codebutler_testbed::figures::{NAMES, measure};

fn main() -> ExitCode {
    let program = std::env::args_os().next().unwrap_or_default();
    if Path::new(&program).file_name().is_some_and(|name| name == "codebutler-operator") {
        // One of the product's processes, under test here; it never outlives the measurement.
        let _ = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL);
        return codebutler_operator::main(std::env::args_os());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let Ok(runtime) = runtime else { return ExitCode::from(2) };
    let _ = rustls::crypto::ring::default_provider().install_default();
    runtime.block_on(figures())
}

async fn figures() -> ExitCode {
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
