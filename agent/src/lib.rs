//! The processes of an agent pod, each a subcommand of one binary.
//!
//! - [`run`] is the loop of the agent container: model ⇄ tools, with a [`transcript`] from which a
//!   killed pod resumes, and the [`relay`] through which the toolbox reaches Git. It has the pod's
//!   token and never touches the worktree.
//! - [`toolbox`] is the other container: every file access, all Git and every command. It has no
//!   token and no secret.
//! - [`sending`] sends what transcripts record to the gateway, for people to see.
//! - [`builds`] keeps the pod's build slot at the gateway.
//! - [`supervise`] is what the toolbox starts for each command, and [`sandbox`] what confines it.
//! - [`reading`] reads one document, in a process that the toolbox starts for each.
//! - [`screenshot`] takes pictures of one page, in a process of its own too.
//! - `codebutler_guides` reads and judges what a repository says in `.codebutler/`, `validate` in its CI.
//! - `init` writes the one that a repository begins with.
//! - `alive` is how the kubelet learns that the loop still turns.
//! - [`server_pod`] is what the pod of a server of `spec.mcpServers` runs.
//! - [`install`] copies this binary to where the toolbox's container waits for it.

mod alive;
mod animation;
pub mod args;
pub mod builds;
pub mod decisions;
pub mod egress;
pub mod experiment;
pub mod gateway;
pub mod history;
pub mod init;
pub mod install;
mod journal;
pub mod memory;
mod mentions;
pub mod model;
mod policy_report;
pub mod prompt;
pub mod reading;
pub mod relay;
pub mod research;
mod review;
pub mod run;
pub mod sandbox;
pub mod screenshot;
mod sending;
pub mod server_pod;
pub mod step;
pub mod supervise;
mod tokens;
pub mod tool_args;
pub mod toolbox;
pub mod tools;
pub mod transcript;
mod work_report;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser as _;
use codebutler_redact::log::{MaskedLog, OneLine};
use codebutler_wire::exit_code;
use tracing_subscriber::EnvFilter;

/// Runs the part of an agent pod that the command line names.
///
/// Exit codes: 0 when there is nothing (more) to do, 2 for wrong flags, those of
/// [`exit_code`], 1 for anything else. `validate` has its own, see [`codebutler_guides::validate::run_validate`].
pub fn main(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args = match args::AgentArgs::try_parse_from(words) {
        Ok(args) => args,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    log_to_stderr(&args.log, args.log_format);
    match start_command(args.command) {
        Ok(code) => code,
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "process_failed");
            ExitCode::FAILURE
        }
    }
}

fn start_command(command: args::AgentCommand) -> anyhow::Result<ExitCode> {
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    match command {
        args::AgentCommand::Alive(args) => Ok(alive::judge_beats(&args.share, args.within)),
        args::AgentCommand::Cloned(args) => Ok(alive::judge_clone(&args.share)),
        args::AgentCommand::Exec(args) => Ok(supervise::run_supervised(&args)),
        args::AgentCommand::ReadDocument(args) => {
            Ok(reading::run_reader(&args.name, args.part.as_deref()))
        }
        args::AgentCommand::Screenshot(args) => {
            Ok(screenshot::run_screenshot(&args.folder, &args.url, &args.frames, &args.path))
        }
        args::AgentCommand::Validate(args) => Ok(codebutler_guides::validate::run_validate(
            &args.dir,
            args.strict,
            &args.roles,
            &mut std::io::stdout(),
        )),
        args::AgentCommand::Init(args) => Ok(init::run_init(&args, &mut std::io::stdout())),
        args::AgentCommand::Policy(args) => {
            Ok(policy_report::run_policy(&args, &mut std::io::stdout(), &mut std::io::stderr()))
        }
        args::AgentCommand::Toolbox(args) => {
            let runtime = runtime()?;
            let served = runtime.block_on(toolbox::run_toolbox(&args));
            // A blocking Git or search call must not hold up the end of the process.
            runtime.shutdown_background();
            match served {
                Err(error) if error.is_denied() => {
                    tracing::error!(
                        error = format!("{:#}", anyhow::Error::new(error)),
                        "process_failed"
                    );
                    Ok(ExitCode::from(exit_code::VOLUME_NOT_WRITABLE))
                }
                served => Ok(served.map(|()| ExitCode::SUCCESS)?),
            }
        }
        args::AgentCommand::McpInstall(args) => {
            install::install_binary(&args.dir)?;
            Ok(ExitCode::SUCCESS)
        }
        args::AgentCommand::McpServer(args) => runtime()?.block_on(server_pod::host_server(args)),
        args::AgentCommand::McpBridge(args) => runtime()?.block_on(server_pod::run_bridge(args)),
        args::AgentCommand::Run(args) => {
            step::arm(args.die_at_step);
            if let Some(dir) = &args.share {
                install::install_binary(dir)?;
            }
            // It waits for others nearly all the time: one thread is less memory, and no hand-over.
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let beats = args.share.as_deref().map(alive::begin_beats).transpose()?;
            let _beats = beats.map(|beats| runtime.spawn(beats));
            let code = runtime.block_on(run::run_agent(*args));
            runtime.shutdown_background();
            Ok(code)
        }
    }
}

/// Logs to stderr, credentials masked. A filter that can't be parsed is reported and replaced by `info`.
fn log_to_stderr(filter: &str, format: args::LogFormat) {
    let (parsed, problem) = match EnvFilter::try_new(filter) {
        Ok(parsed) => (parsed, None),
        Err(error) => (EnvFilter::new("info"), Some(error)),
    };
    let builder = tracing_subscriber::fmt().with_env_filter(parsed);
    let masked = || MaskedLog(std::io::stderr());
    // A second call (tests) keeps the first subscriber.
    let _ = match format {
        args::LogFormat::Text => {
            builder.with_ansi(false).with_writer(move || OneLine(masked())).try_init()
        }
        args::LogFormat::Json => {
            builder.json().with_span_list(false).with_writer(masked).try_init()
        }
    };
    if let Some(error) = problem {
        tracing::warn!(%error, filter, "log_filter_invalid");
    }
}
