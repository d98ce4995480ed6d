//! The program behind `cargo demo`. The demo's first build takes minutes: a machine on which it can't end well gets a
//! sentence before it begins, from a program without dependencies that is compiled in a second. Then it becomes
//! `cargo run` of the demo itself. So does a demo that could only refuse what it was asked for.
//!
//! What can't be known of a machine is no reason to refuse it, and `CODEBUTLER_PREFLIGHT=off` asks nothing.

mod config;
mod facts;
mod hosted;
mod options;
mod provider;
mod reach;
mod repository;
mod request;
mod rules;
mod verdict;

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, ExitCode};

use facts::{JOBS, gather_facts};
pub use facts::{free_disk, free_memory};
pub use options::DEMO_OPTIONS;
use options::GivenOptions;
pub use provider::{NamedProvider, find_provider};
pub use repository::{USUAL_BRANCHES, UnusableRepository, judge_repository, local_path, quiet_ssh};
pub use request::{KEPT, REPO_LIMIT_MB};
use request::{RequestVerdict, judge_request};
use rules::{KUBECONFIG, find_broken_rule};
pub use verdict::RUN_DISK_MB;
use verdict::{BuildPlan, judge_machine};

/// Variable that switches the questions off.
const SWITCH: &str = "CODEBUTLER_PREFLIGHT";
/// Exit code of the demo, too, where it can't begin.
const REFUSED: u8 = 2;

/// Looks at the machine, and becomes the demo with these options; or says what is in the way.
pub fn main(words: impl Iterator<Item = OsString>) -> ExitCode {
    let options = GivenOptions::parse(words);
    let is_off = std::env::var_os(SWITCH).is_some_and(|value| value == "off");
    if is_off || options.asks_cargo() {
        return start_demo(&options, None, &[]);
    }
    let program = std::env::current_exe().unwrap_or_default();
    let facts = gather_facts(program.parent().unwrap_or(Path::new(".")), &options);
    let request = if facts.only_tells {
        RequestVerdict::default()
    } else {
        judge_request(&options, facts.git.is_some(), facts.is_built, &|name| {
            std::env::var(name).ok()
        })
    };
    let (plan, mut troubles) = match judge_machine(&facts) {
        Ok(plan) => (plan, Vec::new()),
        Err(troubles) => (BuildPlan::default(), troubles),
    };
    troubles.extend(request.troubles);
    if troubles.is_empty() {
        for notice in plan.notices.iter().chain(&request.notices) {
            say(notice);
        }
        if !leaves_cluster_alone(&options) {
            return start_demo(&options, plan.jobs, &[]);
        }
        say(
            "KUBECONFIG names a cluster, which is left alone: the demo brings its own. --outside is for the nodes of \
             that one.",
        );
        return start_demo(&options, plan.jobs, &[KUBECONFIG]);
    }
    for trouble in &troubles {
        say(&format!("error: {trouble}"));
    }
    say(&format!("Nothing was built. With {SWITCH}=off it is tried all the same."));
    ExitCode::from(REFUSED)
}

/// Judges the demo's options by themselves: those that it has, and those that go together.
pub fn judge_options(
    words: impl Iterator<Item = OsString>,
    env: &impl Fn(&str) -> Option<String>,
) -> Option<String> {
    let options = GivenOptions::parse(words);
    options.find_wrong_word().or_else(|| find_broken_rule(&options, env))
}

/// Standard output belongs to the demo, which may be asked for JSON.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// True if the user's shell names a cluster and nothing says that the demo is for it. The demo would make definitions,
/// namespaces and a node there.
fn leaves_cluster_alone(options: &GivenOptions) -> bool {
    let names_cluster = std::env::var_os(KUBECONFIG).is_some_and(|value| !value.is_empty());
    let is_for_it = options.uses_other_nodes() || std::env::var_os("CODEBUTLER_OUTSIDE").is_some();
    names_cluster && !is_for_it && !options.asks_demo()
}

fn start_demo(options: &GivenOptions, jobs: Option<u64>, hidden: &[&str]) -> ExitCode {
    // The same cargo again, also where it is none of the search path.
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(&cargo);
    command.arg("run").args(&options.cargo);
    command.args(["--package", "codebutler-product", "--bin", "demo", "--"]).args(&options.demo);
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_of_this_package(name)) {
        command.env_remove(name);
    }
    for name in hidden {
        command.env_remove(name);
    }
    command.envs(jobs.map(|jobs| (JOBS, jobs.to_string())));
    become_command(command)
}

/// True for a variable with which cargo describes this package to this program. Build scripts of some crates, such as
/// `ring`, ask cargo to begin anew when one of these changes: with them, every build here would repeat what
/// `cargo test` has built, and the next `cargo test` what this one has.
fn is_of_this_package(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| name.starts_with(prefix))
        || ["CARGO_BIN_NAME", "CARGO_CRATE_NAME", "CARGO_PRIMARY_PACKAGE"].contains(&&*name)
}

/// This process goes on as that command, so that Ctrl-C reaches the demo alone and the shell waits for its end.
#[cfg(unix)]
fn become_command(mut command: Command) -> ExitCode {
    let error = std::os::unix::process::CommandExt::exec(&mut command);
    say(&format!("error: cargo can't be run: {error}"));
    ExitCode::from(REFUSED)
}

#[cfg(not(unix))]
fn become_command(mut command: Command) -> ExitCode {
    match command.status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            say(&format!("error: cargo can't be run: {error}"));
            ExitCode::from(REFUSED)
        }
    }
}
