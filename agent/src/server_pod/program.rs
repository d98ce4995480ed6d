//! The program of a server: how it is found, confined, and ended with everything that it started.

use std::env;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use codebutler_wire::{NotStarted, ProgramExit};
use nix::sys::signal::Signal;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::args::ExecArgs;
use crate::toolbox::processes::signal_below;

/// Time that a program has after each request to end.
const GRACE: Duration = Duration::from_secs(3);
/// Variables of ours, which say nothing to a program.
const OWN: &str = "CODEBUTLER_";

/// Command and supervisor with which a program is started.
#[derive(Clone, Debug)]
pub struct ProgramPlan {
    /// Sandbox and command line, which no shell reads.
    pub exec: ExecArgs,
    /// The binary that confines it: this one.
    pub supervisor: std::path::PathBuf,
}

/// A running program and its pipes.
pub struct RunningProgram {
    /// Process of the supervisor, the program's parent.
    pub child: Child,
    pub input: ChildStdin,
    pub output: ChildStdout,
    pub errors: ChildStderr,
}

impl ProgramPlan {
    /// Starts the program below a supervisor.
    pub fn start(&self) -> Result<RunningProgram, NotStarted> {
        let program = self.exec.command.first().cloned().unwrap_or_default();
        if !is_program(&program, &env::var_os("PATH").unwrap_or_default()) {
            return Err(NotStarted::Missing(program.to_string_lossy().into_owned()));
        }
        let mut command = Command::new(&self.supervisor);
        command
            .arg0(crate::install::BINARY)
            .args(self.exec.words())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        for (name, _) in env::vars_os() {
            if name.to_string_lossy().starts_with(OWN) {
                command.env_remove(name);
            }
        }
        let failed = |error: std::io::Error| NotStarted::Failed(error.to_string());
        let mut child = command.spawn().map_err(failed)?;
        let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(input), Some(output), Some(errors)) = streams else {
            return Err(NotStarted::Failed("its standard streams are missing".to_owned()));
        };
        Ok(RunningProgram { child, input, output, errors })
    }
}

/// True if `program` can be started: a path, or a name in one of the folders of `path`.
fn is_program(program: &OsStr, path: &OsStr) -> bool {
    let runs = |file: &Path| {
        file.metadata()
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if program.is_empty() {
        return false;
    }
    if program.to_string_lossy().contains('/') {
        return runs(Path::new(program));
    }
    env::split_paths(path).any(|folder| runs(&folder.join(program)))
}

/// Ends a program whose standard input is closed: it has a while to end by itself, then it is asked, then killed.
/// Everything that it started ends with it.
pub(super) async fn end_program(child: &mut Child) -> ProgramExit {
    for signal in [None, Some(Signal::SIGTERM), Some(Signal::SIGKILL)] {
        if let (Some(signal), Some(supervisor)) = (signal, process_id(child)) {
            signal_below(supervisor, signal);
        }
        if let Ok(ended) = timeout(GRACE, child.wait()).await {
            return read_exit(ended);
        }
    }
    // The container's first process adopts what is left of the program; it ends with that.
    let _ = child.start_kill();
    read_exit(child.wait().await)
}

/// The exit as the gateway hears of it.
pub(super) fn read_exit(ended: std::io::Result<ExitStatus>) -> ProgramExit {
    match ended {
        Ok(status) => {
            ProgramExit { code: status.code(), signal: status.signal(), not_started: None }
        }
        Err(error) => ProgramExit {
            not_started: Some(NotStarted::Failed(error.to_string())),
            ..ProgramExit::default()
        },
    }
}

fn process_id(child: &Child) -> Option<i32> {
    child.id().and_then(|id| i32::try_from(id).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_as_a_shell_finds_them() {
        let dir = tempfile::tempdir().unwrap();
        let (tool, data) = (dir.path().join("tool"), dir.path().join("data"));
        for (file, mode) in [(&tool, 0o755), (&data, 0o644)] {
            std::fs::write(file, "#!/bin/sh\n").unwrap();
            std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        let path = || env::join_paths([Path::new("/nowhere"), dir.path()]).unwrap();
        let found = |program: &str| is_program(OsStr::new(program), &path());
        assert!(found("tool") && found(tool.to_str().unwrap()));
        assert!(!found("data"), "not executable");
        assert!(!found("tool --flag") && !found("other") && !found(""));
        assert!(!found(dir.path().to_str().unwrap()), "a folder");
    }
}
