//! Published releases: fetched by the registries' own clients, checked, unpacked once and kept below
//! `target/`.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest as _, Sha256};

use super::task::{PackageRegistry, TaskPackage};
use codebutler_testbed::pytools::cache_dir;

/// An error of fetching a release. A task whose package can't is skipped.
#[derive(Debug, thiserror::Error)]
pub(super) enum PackageError {
    /// The registry's client, or what unpacks its files, is not installed.
    #[error("`{program}` is not on this machine: install it ({hint})")]
    NoProgram {
        program: String,
        /// Hint for people: the software that brings it.
        hint: &'static str,
    },
    /// A program that is installed could not be started.
    #[error("`{program}` can't be started: {source}")]
    Start {
        program: String,
        /// Underlying error of the system.
        source: io::Error,
    },
    /// The client could not fetch the release.
    #[error("{client} can't fetch {what}: {said}")]
    Client {
        client: &'static str,
        /// Name and version of the release.
        what: String,
        /// The end of the client's output.
        said: String,
    },
    /// The registry served other content than expected.
    #[error("{what} has the checksum {found}, the task names {expected}")]
    Checksum {
        /// Name and version of the release.
        what: String,
        /// Checksum of the content that was served.
        found: String,
        /// Checksum that the task names.
        expected: String,
    },
    /// The cache can't be read or written.
    #[error("{path}: {source}")]
    Cache {
        /// Path of the folder or file in the cache.
        path: PathBuf,
        /// Underlying error of the system.
        source: io::Error,
    },
}

impl PackageRegistry {
    /// The registry's client, and a hint for people on how to install it.
    const fn client(self) -> (&'static str, &'static str) {
        match self {
            Self::Cargo => ("cargo", "rustup, or the Debian package cargo"),
            Self::Pip => ("python3", "the Debian packages python3 and python3-pip"),
            Self::Npm => ("npm", "the Debian package npm"),
        }
    }
}

/// A folder with the release's files, not to be changed. Blocks while it is fetched, here or by
/// another process.
///
/// # Errors
/// When there is no client, no network, or something else than the task names.
pub(super) fn ensure_package(package: &TaskPackage) -> Result<PathBuf, PackageError> {
    let what = format!("{} {}", package.name, package.version);
    let root = cache_dir().join("packages");
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| PackageError::Cache { path, source }
    };
    fs::create_dir_all(&root).map_err(at(&root))?;
    // By content, so that a wrong checksum never finds another task's right one.
    let name = package.name.replace(['/', '@'], "_");
    let own = root.join(format!("{name}-{}-{}", package.version, &package.sha256[..16]));
    let lock_path = own.with_extension("lock");
    let lock = File::create(&lock_path).map_err(at(&lock_path))?;
    lock.lock().map_err(at(&lock_path))?;
    if own.exists() {
        return Ok(own);
    }
    let work = tempfile::tempdir_in(&root).map_err(at(&root))?;
    let unpacked = work.path().join("unpacked");
    let found = match package.registry {
        PackageRegistry::Cargo => from_cargo(package, work.path(), &unpacked)?,
        PackageRegistry::Pip => from_pip(package, work.path(), &unpacked)?,
        PackageRegistry::Npm => from_npm(package, work.path(), &unpacked)?,
    };
    if found != package.sha256 {
        return Err(PackageError::Checksum { what, found, expected: package.sha256.clone() });
    }
    // The whole folder or none: another start may be looking.
    fs::rename(&unpacked, &own).map_err(at(&own))?;
    Ok(own)
}

/// `cargo vendor` of a package that depends on nothing else checks the crate itself and says what
/// its checksum is.
fn from_cargo(package: &TaskPackage, work: &Path, into: &Path) -> Result<String, PackageError> {
    let TaskPackage { name, version, .. } = package;
    let at = |source| PackageError::Cache { path: work.to_owned(), source };
    let manifest = format!(
        "[package]\nname = \"fetches\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n\
         [dependencies]\n{name} = \"={version}\"\n\n[workspace]\n"
    );
    fs::create_dir(work.join("src")).map_err(at)?;
    fs::write(work.join("src/lib.rs"), "").map_err(at)?;
    fs::write(work.join("Cargo.toml"), manifest).map_err(at)?;
    run_client(package, work, ["cargo", "vendor", "--quiet", "vendor"])?;
    let own = work.join("vendor").join(name);
    let sums = fs::read_to_string(own.join(".cargo-checksum.json")).map_err(at)?;
    let sums: serde_json::Value = serde_json::from_str(&sums).unwrap_or_default();
    for file in [".cargo-checksum.json", ".cargo_vcs_info.json", "Cargo.toml.orig"] {
        let _ = fs::remove_file(own.join(file));
    }
    fs::rename(&own, into).map_err(at)?;
    Ok(sums["package"].as_str().unwrap_or_default().to_owned())
}

fn from_pip(package: &TaskPackage, work: &Path, into: &Path) -> Result<String, PackageError> {
    let wanted = format!("{}=={}", package.name, package.version);
    run_client(
        package,
        work,
        [
            "python3",
            "-m",
            "pip",
            "download",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
            "--no-binary",
            ":all:",
            "--dest",
            ".",
            &wanted,
        ],
    )?;
    unpack_archive(package, work, into)
}

fn from_npm(package: &TaskPackage, work: &Path, into: &Path) -> Result<String, PackageError> {
    let wanted = format!("{}@{}", package.name, package.version);
    run_client(package, work, ["npm", "pack", "--silent", "--ignore-scripts", &wanted])?;
    unpack_archive(package, work, into)
}

/// Unpacks the one archive that a client left.
fn unpack_archive(package: &TaskPackage, work: &Path, into: &Path) -> Result<String, PackageError> {
    let at = |source| PackageError::Cache { path: work.to_owned(), source };
    let files = fs::read_dir(work).map_err(at)?.flatten().map(|entry| entry.path());
    let archive = files.into_iter().find(|path| path.is_file());
    let archive = archive.ok_or_else(|| at(io::ErrorKind::NotFound.into()))?;
    let sum = hex::encode(Sha256::digest(fs::read(&archive).map_err(at)?));
    if sum != package.sha256 {
        // Nothing of it is looked at.
        return Ok(sum);
    }
    fs::create_dir(into).map_err(at)?;
    let (archive, into) = (archive.to_string_lossy(), into.to_string_lossy());
    let options = ["tar", "--extract", "--strip-components=1", "--no-same-owner", "--directory"];
    run_client(package, work, options.into_iter().chain([&*into, "--file", &*archive]))?;
    Ok(sum)
}

fn run_client<S: AsRef<OsStr>>(
    package: &TaskPackage,
    work: &Path,
    command: impl IntoIterator<Item = S>,
) -> Result<(), PackageError> {
    let (client, hint) = package.registry.client();
    let mut words = command.into_iter();
    let Some(program) = words.next() else { return Ok(()) };
    let program = program.as_ref();
    let mut process = Command::new(program);
    // A run under cargo sets this variable for its children; this process is not one that it is meant for.
    process.args(words).current_dir(work).stdin(Stdio::null()).env_remove("CARGO_TARGET_DIR");
    let output = match process.output() {
        Ok(output) => output,
        Err(source) => {
            let is_missing = source.kind() == io::ErrorKind::NotFound && work.is_dir();
            let (is_client, program) =
                (program == OsStr::new(client), program.to_string_lossy().into_owned());
            if !is_missing {
                return Err(PackageError::Start { program, source });
            }
            let hint = if is_client { hint } else { "the Debian package of this name" };
            return Err(PackageError::NoProgram { program, hint });
        }
    };
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let mut end: Vec<&str> = said.lines().filter(|l| !l.trim().is_empty()).rev().take(3).collect();
    end.reverse();
    let what = format!("{} {}", package.name, package.version);
    Err(PackageError::Client { client, what, said: end.join(" ") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_cant_be_started_is_named_with_the_reason() {
        let work = tempfile::tempdir().unwrap();
        let package = TaskPackage {
            registry: PackageRegistry::Npm,
            name: "left".to_owned(),
            version: "1.0.0".to_owned(),
            sha256: String::new(),
        };
        let run =
            |program: &Path| run_client(&package, work.path(), [program]).unwrap_err().to_string();
        // No file of it may be executed.
        let plain = work.path().join("plain");
        fs::write(&plain, "").unwrap();
        let said = run(&plain);
        assert!(said.starts_with(&format!("`{}` can't be started: ", plain.display())), "{said}");
        let missing = work.path().join("missing");
        let said = run(&missing);
        let expected = format!("`{}` is not on this machine", missing.display());
        assert!(said.starts_with(&expected) && !said.contains("npm"), "{said}");
    }
}
