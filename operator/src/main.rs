//! The `codebutler-operator` binary: `controller` or `gateway`.

fn main() -> std::process::ExitCode {
    codebutler_operator::main(std::env::args_os())
}
