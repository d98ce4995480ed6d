//! Python packages for tests: virtual environments, made once and kept below `target/`.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use sha2::{Digest as _, Sha256};

/// An error that keeps a test from having Python tools.
#[derive(Debug, thiserror::Error)]
pub enum PyToolsError {
    /// The machine has no `python3` that can make environments (Debian: `python3-venv`); a test
    /// that needs one says so and passes.
    #[error("no python3 with venv on this machine")]
    NoPython,
    /// The cache can't be written.
    #[error("can't use the cache `{path}`")]
    Cache {
        /// Path of the folder or file in the cache.
        path: PathBuf,
        /// Underlying error of the system.
        #[source]
        source: io::Error,
    },
    /// A run of `venv` or `pip` failed.
    #[error("`{step}` failed: {reason}")]
    Install {
        /// The command that was run.
        step: String,
        /// The end of the command's output.
        reason: String,
    },
}

/// A virtual environment that has these packages (`name` or `name==version`), made if there is
/// none yet. Programs are in its `bin/`. Blocks while another process makes the same one.
///
/// # Errors
/// `NoPython` where there is no interpreter with `venv`; others if the network or the disk fails.
pub fn ensure_venv(packages: &[&str]) -> Result<PathBuf, PyToolsError> {
    let script = "import ensurepip, sys; print(sys.version)";
    let python = Command::new("python3").args(["-c", script]).output();
    let version = python.ok().filter(|out| out.status.success()).ok_or(PyToolsError::NoPython)?;
    let mut hash = Sha256::new();
    hash.update(version.stdout);
    for package in packages {
        hash.update(package.as_bytes());
        hash.update(b"\n");
    }
    let cache = cache_dir();
    let name = format!("venv-{}", &hex::encode(hash.finalize())[..16]);
    let venv = cache.join(&name);
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| PyToolsError::Cache { path, source }
    };
    fs::create_dir_all(&cache).map_err(at(&cache))?;
    let lock_path = cache.join(format!("{name}.lock"));
    let lock = File::create(&lock_path).map_err(at(&lock_path))?;
    lock.lock().map_err(at(&lock_path))?;
    let ready = venv.join(".ready");
    if ready.exists() {
        return Ok(venv);
    }
    let _ = writeln!(io::stderr(), "testbed: installing {} with pip", packages.join(" "));
    if venv.exists() {
        fs::remove_dir_all(&venv).map_err(at(&venv))?;
    }
    run_step(Command::new("python3").args(["-m", "venv"]).arg(&venv), "python3 -m venv")?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    run_step(Command::new(venv.join("bin/python")).args(pip).args(packages), "pip install")?;
    fs::write(&ready, packages.join("\n")).map_err(at(&ready))?;
    Ok(venv)
}

fn run_step(command: &mut Command, step: &str) -> Result<Output, PyToolsError> {
    let failed = |reason: String| PyToolsError::Install { step: step.to_owned(), reason };
    let output = command.output().map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(output);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let mut end: Vec<&str> = said.lines().rev().take(3).collect();
    end.reverse();
    Err(failed(end.join(" ")))
}

/// `testbed-cache` in the target folder that the running program was built into, else in the
/// system's temporary folder.
pub fn cache_dir() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    let target = program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").exists());
    target.map_or_else(std::env::temp_dir, Path::to_owned).join("testbed-cache")
}
