//! `cargo demo`: the whole product on one machine.
//!
//! `cargo run` builds one package only, so this binary is every process of the product: under the
//! name `codebutler-operator` or `codebutler-agent` (a link to itself) it is that program.
#![allow(clippy::print_stderr, reason = "a program for people at a terminal")]

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser as _;
use codebutler_testbed::demo::{self, DemoEnd};
use codebutler_testbed::kubelet;

fn main() -> ExitCode {
    let name = std::env::args_os().next().unwrap_or_default();
    let program = Path::new(&name).file_name().map(|n| n.to_string_lossy().into_owned());
    match program.as_deref() {
        Some("codebutler-operator") => {
            // Never outlives the testbed, however that ends.
            let _ = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL);
            codebutler_operator::main(std::env::args_os())
        }
        Some("codebutler-agent") => codebutler_agent::main(std::env::args_os()),
        Some("codebutler-pause") => kubelet::pause_main(std::env::args_os()),
        _ => play_demo(),
    }
}

/// Whoever reads this may have stopped reading: no reason to leave everything running.
fn say_text(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

fn play_demo() -> ExitCode {
    let args = demo::DemoArgs::parse();
    let played = std::env::current_exe().map_err(anyhow::Error::from).and_then(|program| {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let _ = rustls::crypto::ring::default_provider().install_default();
        runtime.block_on(demo::run_demo(&args, &program, &mut say_text))
    });
    match played {
        Ok(DemoEnd::Played(summary)) => {
            if args.json {
                say_text(&serde_json::to_string(&summary).unwrap_or_default());
            }
            if summary.passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        // Ctrl-C: the shell's figure for it.
        Ok(DemoEnd::Interrupted) => ExitCode::from(130),
        Ok(DemoEnd::Left | DemoEnd::Measured(true)) => ExitCode::SUCCESS,
        Ok(DemoEnd::Measured(false)) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}
