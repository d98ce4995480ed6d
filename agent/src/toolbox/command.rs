//! Bash: one command at a time, with everything it started gone when it ends.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};

use super::ToolError;
use super::processes::kill_descendants;
use super::protocol::Author;
use crate::tools::args;

const DEFAULT_TIMEOUT: u32 = 120;
const MAX_TIMEOUT: u32 = 600;
/// Bytes kept of the beginning and of the end of the output.
const HALF_OUTPUT: usize = 15_000;
/// How long to read on what a command wrote before it ended.
const DRAIN: Duration = Duration::from_secs(1);

/// The environment of commands: what the container was given, without what the platform adds.
#[derive(Clone, Debug)]
pub struct Environment {
    variables: Vec<(OsString, OsString)>,
    home: PathBuf,
    tmp: PathBuf,
}

impl Environment {
    /// From this process' own environment, which the pod's author configured and which holds no
    /// secret.
    pub fn inherit(work: &Path) -> Self {
        Self::from(std::env::vars_os(), work)
    }

    fn from(given: impl Iterator<Item = (OsString, OsString)>, work: &Path) -> Self {
        let platform = |name: &str| {
            name.starts_with("KUBERNETES_") || name.starts_with("CODEBUTLER_") || name == "RUST_LOG"
        };
        let mut variables: Vec<_> =
            given.filter(|(name, _)| !platform(&name.to_string_lossy())).collect();
        let mut or = |name: &str, value: OsString| -> PathBuf {
            if let Some((_, given)) = variables.iter().find(|(known, _)| known == name) {
                return given.into();
            }
            variables.push((name.into(), value.clone()));
            value.into()
        };
        let home = or("HOME", work.join("home").into());
        let tmp = or("TMPDIR", "/tmp".into());
        or("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".into());
        or("LANG", "C.UTF-8".into());
        // Build outputs stay out of the worktree, and roles of one thread share them.
        or("CARGO_TARGET_DIR", work.join("build/target").into());
        variables.retain(|(name, _)| name != "TERM");
        variables.push(("TERM".into(), "dumb".into()));
        Self { variables, home, tmp }
    }

    /// With an identity for `git` on the command line, which must not ask for anything either.
    pub fn with_author(&self, author: &Author) -> Self {
        let mut with = self.clone();
        for (name, value) in [
            ("GIT_AUTHOR_NAME", author.name.as_str()),
            ("GIT_AUTHOR_EMAIL", &author.email),
            ("GIT_COMMITTER_NAME", &author.name),
            ("GIT_COMMITTER_EMAIL", &author.email),
            ("GIT_EDITOR", "true"),
            ("GIT_TERMINAL_PROMPT", "0"),
        ] {
            with.variables.retain(|(known, _)| known != name);
            with.variables.push((name.into(), value.into()));
        }
        with
    }

    /// With the only way out: most tools take a proxy from the environment, each from its own names.
    /// What the image's author set stays.
    pub fn with_proxy(&self, proxy: &str) -> Self {
        let mut with = self.clone();
        if proxy.is_empty() {
            return with;
        }
        let local = "localhost,127.0.0.1,::1";
        for (name, value) in [
            ("HTTP_PROXY", proxy),
            ("HTTPS_PROXY", proxy),
            ("ALL_PROXY", proxy),
            ("NO_PROXY", local),
            ("http_proxy", proxy),
            ("https_proxy", proxy),
            ("all_proxy", proxy),
            ("no_proxy", local),
            ("npm_config_proxy", proxy),
            ("npm_config_https_proxy", proxy),
            ("npm_config_noproxy", local),
            ("CARGO_HTTP_PROXY", proxy),
            ("PIP_PROXY", proxy),
            ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
            ("NODE_USE_ENV_PROXY", "1"),
        ] {
            if !with.variables.iter().any(|(known, _)| known == name) {
                with.variables.push((name.into(), value.into()));
            }
        }
        with
    }

    /// Folders that commands expect to exist.
    pub fn folders(&self) -> [PathBuf; 2] {
        [self.home.clone(), self.tmp.clone()]
    }
}

/// Runs a command to its end, its time-out or the drop of this future, whichever is first. Processes
/// that it left in the background end with it.
pub async fn bash(tree: &Path, env: &Environment, args: &args::Bash) -> Result<String, ToolError> {
    let seconds = args.timeout.unwrap_or(DEFAULT_TIMEOUT).clamp(1, MAX_TIMEOUT);
    let fail = |e: io::Error| ToolError::refused(format!("the command can't be started: {e}"));
    let (output, input) = io::pipe().map_err(fail)?;
    let mut output = pipe::Receiver::from_owned_fd(OwnedFd::from(output)).map_err(fail)?;
    let started = Instant::now();
    let mut running = Running(spawn(tree, env, &args.command, &input)?);
    // What is read ends when the last writer is gone, so this one must be.
    drop(input);
    let mut kept = Kept::default();
    let ended = {
        let read = async {
            let mut buffer = vec![0; 16 * 1024];
            while let Ok(n @ 1..) = output.read(&mut buffer).await {
                kept.push(&buffer[..n]);
            }
        };
        let wait = async {
            let ended =
                tokio::time::timeout(Duration::from_secs(seconds.into()), running.0.wait()).await;
            // Only now does the pipe close, if something in the background still holds it.
            running.kill_group();
            kill_descendants().await;
            ended
        };
        tokio::pin!(read, wait);
        tokio::select! {
            () = &mut read => wait.await,
            ended = &mut wait => {
                let _ = tokio::time::timeout(DRAIN, read).await;
                ended
            }
        }
    };
    let took = started.elapsed().as_secs_f32();
    let verdict = match ended {
        Ok(Ok(status)) => match status.code() {
            Some(code) => format!("[exit code {code}, {took:.1} s]"),
            None => format!("[ended by a signal: {status}, {took:.1} s]"),
        },
        Ok(Err(error)) => format!("[lost track of the command: {error}]"),
        Err(_) => format!(
            "[killed after {seconds} s, with everything it had started; pass a longer `timeout` (at \
             most {MAX_TIMEOUT}) or do less at once]"
        ),
    };
    let text = kept.text();
    let newline = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    Ok(format!("{text}{newline}{verdict}"))
}

fn spawn(
    tree: &Path,
    env: &Environment,
    command: &str,
    output: &io::PipeWriter,
) -> Result<Child, ToolError> {
    for shell in ["bash", "sh"] {
        let (out, err) = match (output.try_clone(), output.try_clone()) {
            (Ok(out), Ok(err)) => (out, err),
            (Err(e), _) | (_, Err(e)) => {
                return Err(ToolError::refused(format!("the command can't be started: {e}")));
            }
        };
        let spawned = Command::new(shell)
            .arg("-c")
            .arg(command)
            .current_dir(tree)
            .env_clear()
            .envs(env.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .process_group(0)
            .kill_on_drop(true)
            .spawn();
        match spawned {
            Ok(child) => return Ok(child),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(ToolError::refused(format!("the command can't be started: {e}"))),
        }
    }
    Err(ToolError::refused(
        "this role's workspace image has neither bash nor sh: commands can't run here",
    ))
}

/// Kills the group at once if the request is cancelled; the server then looks for the rest.
struct Running(Child);

impl Running {
    fn kill_group(&self) {
        if let Some(id) = self.0.id().and_then(|id| i32::try_from(id).ok()) {
            let _ = killpg(Pid::from_raw(id), Signal::SIGKILL);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill_group();
    }
}

/// The beginning and the end of an output of any length.
#[derive(Default)]
struct Kept {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    dropped: u64,
}

impl Kept {
    fn push(&mut self, bytes: &[u8]) {
        let room = HALF_OUTPUT.saturating_sub(self.head.len()).min(bytes.len());
        let (head, rest) = bytes.split_at(room);
        self.head.extend_from_slice(head);
        self.tail.extend(rest);
        let over = self.tail.len().saturating_sub(HALF_OUTPUT);
        self.tail.drain(..over);
        self.dropped += over as u64;
    }

    fn text(mut self) -> String {
        if self.dropped == 0 {
            self.head.extend(self.tail);
            return String::from_utf8_lossy(&self.head).into_owned();
        }
        let tail: Vec<u8> = self.tail.into();
        format!(
            "{}\n[… {} bytes of output left out: pipe it through head, tail or grep to see them …]\n{}",
            String::from_utf8_lossy(&self.head),
            self.dropped,
            String::from_utf8_lossy(&tail)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_output_keeps_both_ends() {
        let mut kept = Kept::default();
        kept.push(b"begin ");
        for _ in 0..10 {
            kept.push(&[b'x'; 9999]);
        }
        kept.push(b" end");
        let text = kept.text();
        assert!(text.starts_with("begin xx") && text.ends_with("xx end"));
        assert!(text.contains("[… 70000 bytes of output left out"), "{}", &text[14_990..15_100]);
    }

    #[test]
    fn the_environment_is_the_containers_without_the_platforms() {
        let given = [
            ("PATH", "/opt/go/bin"),
            ("GOFLAGS", "-mod=mod"),
            ("KUBERNETES_SERVICE_HOST", "10.0.0.1"),
            ("CODEBUTLER_LOG", "debug"),
            ("TERM", "xterm"),
        ];
        let given = given.into_iter().map(|(name, value)| (name.into(), value.into()));
        let env = Environment::from(given, Path::new("/work"));
        let mut shown: Vec<String> = env
            .variables
            .iter()
            .map(|(name, value)| format!("{}={}", name.display(), value.display()))
            .collect();
        shown.sort();
        insta::assert_snapshot!(shown.join("\n"), @r"
        CARGO_TARGET_DIR=/work/build/target
        GOFLAGS=-mod=mod
        HOME=/work/home
        LANG=C.UTF-8
        PATH=/opt/go/bin
        TERM=dumb
        TMPDIR=/tmp
        ");
    }
}
