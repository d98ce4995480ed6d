//! `cargo demo`: the whole product on one machine.
//!
//! `cargo run` builds one package only, so this binary is every process of the product: under the
//! name `codebutler-operator` or `codebutler-agent` (a link to itself) it is that program.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut argv = std::env::args_os();
    let name = argv.next().unwrap_or_default();
    let program = std::path::Path::new(&name).file_name().map(|n| n.to_string_lossy().into_owned());
    match program.as_deref() {
        Some("codebutler-operator") => codebutler_operator::main(std::env::args_os()),
        Some("codebutler-agent") => codebutler_agent::main(std::env::args_os()),
        Some("codebutler-pause") => codebutler_testbed::kubelet::pause_main(std::env::args_os()),
        _ => ExitCode::FAILURE,
    }
}
