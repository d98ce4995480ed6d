//! The browser: found on the machine, and started for one page.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, ChildStderr, Command};

use super::BrowserError;

/// Names of the browser's program, in the order in which they are looked for.
const NAMES: [&str; 6] = [
    "chromium",
    "chromium-browser",
    "google-chrome-stable",
    "google-chrome",
    "chrome-headless-shell",
    "headless_shell",
];
/// Timeout for the browser's start, until its DevTools port listens.
const START: Duration = Duration::from_secs(30);
/// Longest line of its log that is read, and what is kept of the last one.
const LINE: u64 = 16 << 10;
const SAID: usize = 300;
/// No network but the loopback address, nothing in the background, and no sandbox of its own: the pod is its wall.
const FLAGS: [&str; 18] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-proxy-server",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE *.localhost, EXCLUDE 127.0.0.1, EXCLUDE [::1]",
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-component-update",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-sync",
    "--hide-scrollbars",
    "--mute-audio",
    "--remote-debugging-port=0",
];

/// The first Chromium of a search path.
#[must_use]
pub fn find_browser(path: &std::ffi::OsStr) -> Option<PathBuf> {
    let folders: Vec<PathBuf> = std::env::split_paths(path).collect();
    let mut programs = NAMES.iter().flat_map(|name| folders.iter().map(move |dir| dir.join(name)));
    programs.find(|program| program.is_file()).map(skip_script)
}

/// Debian's `chromium` is a script that ends where `/etc/chromium.d` can't be listed, as in the sandbox of commands.
/// The program that the wrapper script starts needs none of the script's settings.
fn skip_script(program: PathBuf) -> PathBuf {
    let behind = program.parent().and_then(Path::parent);
    let behind = behind.map(|folder| folder.join("lib/chromium/chromium"));
    behind.filter(|behind| behind.is_file()).unwrap_or(program)
}

/// A browser that runs until this is dropped.
pub(crate) struct RunningBrowser {
    /// Address of the browser's DevTools socket.
    pub address: String,
    child: Child,
}

impl RunningBrowser {
    /// Starts one that keeps everything in a folder.
    pub(crate) async fn start(program: &Path, folder: &Path) -> Result<Self, BrowserError> {
        let mut child = Command::new(program)
            .args(FLAGS)
            .arg(format!("--user-data-dir={}", folder.join("profile").display()))
            .arg("about:blank")
            // Chromium's fonts and caches need a home that it may write to.
            .env("HOME", folder)
            .env("XDG_CONFIG_HOME", folder)
            .env("XDG_CACHE_HOME", folder)
            .env("TMPDIR", folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| BrowserError::Start(error.to_string()))?;
        let Some(errors) = child.stderr.take() else {
            return Err(BrowserError::Start("it has no output".to_owned()));
        };
        let found = tokio::time::timeout(START, read_place(errors)).await;
        let address = found.unwrap_or_else(|_| {
            Err(BrowserError::Start(format!(
                "it does not listen after {} seconds",
                START.as_secs()
            )))
        })?;
        Ok(Self { address, child })
    }

    /// Ends it, and waits until it is gone.
    pub(crate) async fn stop(mut self) {
        let _ = self.child.kill().await;
    }
}

/// Reads where it listens. The rest of its log is read too, so that it never waits for a reader.
async fn read_place(errors: ChildStderr) -> Result<String, BrowserError> {
    let mut lines = BufReader::new(errors);
    let mut last = String::new();
    loop {
        let mut line = Vec::new();
        let read = (&mut lines).take(LINE).read_until(b'\n', &mut line).await;
        let line = String::from_utf8_lossy(&line).trim().to_owned();
        if !read.is_ok_and(|count| count > 0) {
            let said: String = last.chars().take(SAID).collect();
            return Err(BrowserError::Start(format!("it ended ({said})")));
        }
        if let Some(address) = line.strip_prefix("DevTools listening on ") {
            let address = address.to_owned();
            tokio::spawn(async move {
                let _ = tokio::io::copy(&mut lines, &mut tokio::io::sink()).await;
            });
            return Ok(address);
        }
        if !line.is_empty() {
            last = line;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_started_past_the_script_in_front_of_it() {
        let root = tempfile::tempdir().unwrap();
        let (bin, lib) = (root.path().join("bin"), root.path().join("lib/chromium"));
        std::fs::create_dir_all(&bin).unwrap();
        assert_eq!(find_browser(bin.as_os_str()), None);
        std::fs::write(bin.join("chromium"), "#!/bin/sh\n").unwrap();
        assert_eq!(find_browser(bin.as_os_str()), Some(bin.join("chromium")));
        std::fs::create_dir_all(&lib).unwrap();
        std::fs::write(lib.join("chromium"), "").unwrap();
        assert_eq!(find_browser(bin.as_os_str()), Some(lib.join("chromium")));
    }
}
