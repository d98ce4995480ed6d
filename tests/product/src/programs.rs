//! The product's own programs in one binary: `cargo run` builds one package only, so a link to the binary with
//! the name `codebutler-operator`, `kubectl-codebutler` or `codebutler-agent` is that program.

use std::path::Path;
use std::process::ExitCode;

use codebutler_testbed::kubelet;

/// Runs the program after which this process is named; [`None`] where it has the binary's own name.
pub fn run_named_program() -> Option<ExitCode> {
    let name = std::env::args_os().next().unwrap_or_default();
    let program = Path::new(&name).file_name().map(|name| name.to_string_lossy().into_owned());
    match program.as_deref() {
        Some("codebutler-operator") => {
            // It never outlives the testbed, however that ends.
            let _ = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL);
            Some(codebutler_operator::main(std::env::args_os()))
        }
        Some("kubectl-codebutler") => Some(codebutler_kubectl::main(std::env::args_os())),
        Some("codebutler-agent") => Some(codebutler_agent::main(std::env::args_os())),
        Some("codebutler-pause") => Some(kubelet::pause_main(std::env::args_os())),
        _ => None,
    }
}
