//! In-memory state of prepared volumes: claims of which no clone was made in time. The Repo's status says so, too, after
//! its next look.

use std::collections::HashSet;

use codebutler_crds::Repo;
use parking_lot::Mutex;

use crate::index::ObjectKey;

#[derive(Debug, Default)]
pub(crate) struct PreparedVolumeMemory {
    failed: Mutex<HashSet<(ObjectKey, String)>>,
}

impl PreparedVolumeMemory {
    /// No clone of this claim was made in time.
    pub(crate) fn fail(&self, repo: &Repo, claim: &str) {
        self.failed.lock().insert((ObjectKey::of(repo), claim.to_owned()));
    }

    pub(crate) fn has_failed(&self, repo: &Repo, claim: &str) -> bool {
        self.failed.lock().contains(&(ObjectKey::of(repo), claim.to_owned()))
    }
}
