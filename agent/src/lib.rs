//! What runs in an agent pod.

use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the part of an agent pod that `argv` names.
pub fn main(_argv: impl IntoIterator<Item = OsString>) -> ExitCode {
    ExitCode::FAILURE
}
