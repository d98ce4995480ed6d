//! Puts this binary where the toolbox's container, whatever its image, can run it.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

pub const BINARY: &str = "codebutler-agent";

/// The binary could not be copied.
#[derive(Debug, thiserror::Error)]
#[error("can't copy this binary to {path}")]
pub struct InstallError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// Copies the running binary to `dir/codebutler-agent`, mode 0755. The name appears only when the
/// copy is complete.
pub fn install_binary(dir: &Path) -> Result<PathBuf, InstallError> {
    let path = dir.join(BINARY);
    copy_binary(Path::new("/proc/self/exe"), dir, &path)
        .map_err(|source| InstallError { path: path.clone(), source })?;
    Ok(path)
}

fn copy_binary(from: &Path, dir: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let partial = dir.join(format!(".{BINARY}.{}", std::process::id()));
    fs::copy(from, &partial)?;
    fs::set_permissions(&partial, Permissions::from_mode(0o755))?;
    // Not brought to the disk: after a node has lost its power, it is copied anew.
    fs::rename(&partial, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_is_complete_executable_and_alone() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("bin");
        for _ in 0..2 {
            let path = install_binary(&target).unwrap();
            let own = fs::metadata("/proc/self/exe").unwrap().len();
            let copy = fs::metadata(&path).unwrap();
            assert_eq!(copy.len(), own);
            assert_eq!(copy.permissions().mode() & 0o777, 0o755);
            assert_eq!(fs::read_dir(&target).unwrap().count(), 1);
        }
    }
}
