//! A sandbox for tests of code that a model wrote: no network, nothing of the machine to write to but
//! their own folder, an environment without anybody's keys, and the same programs that the testbed's
//! workspaces have.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::Command;

const UNSHARE: [&str; 8] =
    ["unshare", "--user", "--map-root-user", "--net", "--pid", "--fork", "--mount", "--kill-child"];
/// Everything becomes read-only but the work folder, which is mounted on itself for that.
const WALLS: &str = "set -e\n\
    ip link set lo up 2>/dev/null || true\n\
    mount -t proc proc /proc\n\
    while read -r _ at _; do\n\
      mount -o remount,bind,ro \"$at\" 2>/dev/null || true\n\
    done < <(grep -v ' /proc' /proc/self/mounts)\n\
    mount --bind \"$1\" \"$1\"\n\
    mount -o remount,bind,rw \"$1\"\n\
    cd \"$2\"\n";

/// Folders of programs, as workspaces have them.
pub(super) fn program_path() -> String {
    const USUAL: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    static PATH: OnceLock<String> = OnceLock::new();
    let path = || match rust_folder() {
        Some(sysroot) => format!("{}/bin:{USUAL}", sysroot.display()),
        None => USUAL.to_owned(),
    };
    PATH.get_or_init(path).clone()
}

/// Folder of the Rust toolchain, without rustup's proxies, which look for settings in a home.
fn rust_folder() -> Option<PathBuf> {
    let output = std::process::Command::new("rustc").args(["--print", "sysroot"]).output().ok()?;
    let sysroot = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    sysroot.join("bin/cargo").exists().then_some(sysroot)
}

/// True if one of those folders has the program.
pub(super) fn has_program(program: &str) -> bool {
    program_path().split(':').any(|folder| Path::new(folder).join(program).is_file())
}

/// True if this machine lets ordinary users make namespaces. Without them, tests are run unconfined.
pub(super) fn is_walled() -> bool {
    static WALLED: OnceLock<bool> = OnceLock::new();
    *WALLED.get_or_init(|| {
        let mut probe = std::process::Command::new(UNSHARE[0]);
        probe.args(&UNSHARE[1..]).args(["bash", "-c", "mount -t proc proc /proc"]);
        probe.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        probe.status().is_ok_and(|status| status.success())
    })
}

/// The output of a command, and whether it was killed for taking too long.
#[derive(Clone, Debug, Default)]
pub(super) struct PrintedOutput {
    /// Standard output and error.
    pub text: String,
    /// True if the command was killed at its timeout.
    pub late: bool,
}

/// Runs a bash command in `folder`, which lies in `work`.
///
/// # Errors
/// When it can't be started. One that fails is a result.
pub(super) async fn run_confined(
    command: &str,
    folder: &Path,
    work: &Path,
    limit: Duration,
) -> io::Result<PrintedOutput> {
    let script = format!("exec 2>&1\n{command}\n");
    let mut process = if is_walled() {
        let mut process = Command::new(UNSHARE[0]);
        let inner = format!("{WALLS}exec bash -c \"$3\"");
        process.args(&UNSHARE[1..]).args(["bash", "-c", &inner, "bash"]);
        process.arg(work).arg(folder).arg(&script);
        process
    } else {
        let mut process = Command::new("bash");
        process.args(["-c", &script]).current_dir(folder);
        process
    };
    let home = work.join("home");
    std::fs::create_dir_all(&home)?;
    process
        .env_clear()
        .env("PATH", program_path())
        .env("HOME", &home)
        .env("TMPDIR", &home)
        .env("CARGO_HOME", home.join("cargo"))
        .env("CARGO_TARGET_DIR", home.join("target"))
        .env("CARGO_TERM_COLOR", "never")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("LC_ALL", "C.UTF-8")
        .env("TZ", "UTC")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true);
    let child = process.spawn()?;
    let group = child.id().and_then(|id| i32::try_from(id).ok());
    if let Ok(output) = tokio::time::timeout(limit, child.wait_with_output()).await {
        let text = String::from_utf8_lossy(&output?.stdout).into_owned();
        return Ok(PrintedOutput { text, late: false });
    }
    if let Some(group) = group {
        let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
    }
    Ok(PrintedOutput { text: String::new(), late: true })
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn ran(command: &str, seconds: u64) -> PrintedOutput {
        let work = tempfile::tempdir().unwrap();
        let folder = work.path().join("code");
        std::fs::create_dir(&folder).unwrap();
        run_confined(command, &folder, work.path(), Duration::from_secs(seconds)).await.unwrap()
    }

    #[tokio::test]
    async fn it_has_its_folder_and_nobody_s_environment() {
        let printed = ran("touch here && ls; env | grep -c CARGO_MANIFEST; echo end", 30).await;
        assert_eq!(printed.text, "here\n0\nend\n");
    }

    #[tokio::test]
    async fn what_takes_too_long_is_killed() {
        assert!(ran("sleep 600", 1).await.late);
    }

    #[tokio::test]
    async fn there_is_no_network_and_nothing_else_to_write_to() {
        if !is_walled() {
            return;
        }
        let outside = tempfile::tempdir_in("/var/tmp").unwrap();
        let file = outside.path().join("x");
        let command =
            format!("echo x > {}; ls /sys/class/net 2>/dev/null; echo end", file.display());
        let printed = ran(&command, 30).await;
        assert!(printed.text.ends_with("end\n") && !file.exists(), "{printed:?}");
    }
}
