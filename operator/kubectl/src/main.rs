//! The `kubectl-codebutler` binary, which kubectl finds by its name.

fn main() -> std::process::ExitCode {
    codebutler_kubectl::main(std::env::args_os())
}
