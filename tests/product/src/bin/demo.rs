//! `cargo demo`: the whole product on one machine.
#![allow(clippy::print_stderr, reason = "a program for people at a terminal")]

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use codebutler_product::demo::{self, DemoEnd};
use codebutler_product::demo_program::run_program;
use codebutler_product::programs::run_named_program;

fn main() -> ExitCode {
    run_named_program().unwrap_or_else(play_demo)
}

/// A reader that has closed the pipe is no reason to leave everything running.
fn say_text(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

fn play_demo() -> ExitCode {
    let args = demo::DemoArgs::parse().with_typed_provider();
    let played = std::env::current_exe().map_err(anyhow::Error::from).and_then(|program| {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let _ = rustls::crypto::ring::default_provider().install_default();
        runtime.block_on(run_program(&args, &program, &mut say_text))
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
