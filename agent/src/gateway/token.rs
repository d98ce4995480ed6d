//! The pod's projected token. The kubelet rotates it, so the file's time is checked for every request, and the file
//! read again when it changed.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;

use super::GatewayError;

/// A token in a file. Cheap to clone; never shows the token.
#[derive(Clone)]
pub struct TokenFile {
    path: PathBuf,
    cached: Arc<Mutex<Option<(SystemTime, String)>>>,
}

impl fmt::Debug for TokenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenFile").field("path", &self.path).finish_non_exhaustive()
    }
}

impl TokenFile {
    /// Creates a reader of the token in `path`, which need not exist yet.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), cached: Arc::default() }
    }

    /// Returns the current token, read from its file if that has changed.
    pub fn read(&self) -> Result<String, GatewayError> {
        let fail = |source| GatewayError::Token { path: self.path.clone(), source };
        let modified = fs::metadata(&self.path).and_then(|meta| meta.modified()).map_err(fail)?;
        let mut cached = self.cached.lock();
        if let Some((at, token)) = &*cached
            && *at == modified
        {
            return Ok(token.clone());
        }
        let token = fs::read_to_string(&self.path).map_err(fail)?.trim().to_owned();
        *cached = Some((modified, token.clone()));
        Ok(token)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_new_token_is_noticed_and_never_shown() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let token = TokenFile::new(&path);
        assert!(token.read().is_err());
        fs::write(&path, "first\n").unwrap();
        assert_eq!(token.read().unwrap(), "first");
        fs::write(&path, "second\n").unwrap();
        let later = SystemTime::now() + Duration::from_secs(5);
        fs::File::open(&path).unwrap().set_modified(later).unwrap();
        assert_eq!(token.read().unwrap(), "second");
        assert!(!format!("{token:?}").contains("second"));
    }
}
