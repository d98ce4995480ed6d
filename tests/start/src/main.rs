//! `cargo demo` as cargo starts it.

fn main() -> std::process::ExitCode {
    codebutler_start::main(std::env::args_os().skip(1))
}
