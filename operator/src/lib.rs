//! CodeButler's operator: one binary with two processes.
//!
//! - [`codebutler_controller`] turns Repos, AgentRoles and Threads into pods and volumes. It has Kubernetes
//!   rights and no external secret.
//! - [`codebutler_gateway`] holds every external secret and almost no Kubernetes right. Slack, model APIs, Git
//!   and GitHub are reached through it alone.
//!
//! Both watch the namespaces of a [`scope`](codebutler_runtime::scope) and stand on [`codebutler_runtime`].

pub mod args;
mod history;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser as _;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};

/// Runs the operator as `argv` says and returns when it was told to stop (SIGTERM, SIGINT).
pub fn main(argv: impl IntoIterator<Item = OsString>) -> ExitCode {
    let parsed = match args::OperatorArgs::try_parse_from(argv) {
        Ok(parsed) => parsed,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    if matches!(parsed.command, args::OperatorCommand::Metrics) {
        let page = codebutler_runtime::metrics::page::render_markdown();
        let written = std::io::stdout().write_all(page.as_bytes());
        return if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    if let args::OperatorCommand::History(wanted) = &parsed.command {
        return match history::run_history(wanted, &mut std::io::stdout().lock()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                let _ = writeln!(std::io::stderr(), "codebutler-operator: {error:#}");
                ExitCode::FAILURE
            }
        };
    }
    // Held until the end, so that traces on their way to a collector are sent before.
    let _traces =
        codebutler_runtime::telemetry::init_telemetry(&parsed.telemetry, parsed.command.service());
    match run_component(parsed) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "process_failed");
            ExitCode::FAILURE
        }
    }
}

/// Every secret passes through the gateway: no other process of its user reads its memory, and no core
/// dump holds it.
fn hide_memory() -> anyhow::Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .context("the kernel does not let the process hide its memory")
}

fn run_component(args: args::OperatorArgs) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        // kube, reqwest and slack-morphism have to share one crypto provider.
        let _ = rustls::crypto::ring::default_provider().install_default();
        match args.command {
            args::OperatorCommand::Controller(args) => {
                codebutler_controller::run_controller(*args).await
            }
            args::OperatorCommand::Gateway(args) => {
                hide_memory()?;
                if args.git_without_landlock {
                    codebutler_git::allow_without_landlock();
                }
                if args.gateway.idle_background_work {
                    codebutler_gateway_core::low_priority::run_when_idle();
                }
                Box::pin(codebutler_gateway::run_gateway(args.gateway)).await
            }
            args::OperatorCommand::Metrics | args::OperatorCommand::History(_) => Ok(()),
        }
    })
}
