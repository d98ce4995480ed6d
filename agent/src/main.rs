//! The `codebutler-agent` binary: `run`, `toolbox` or `install`.

fn main() -> std::process::ExitCode {
    codebutler_agent::main(std::env::args_os())
}
