//! Finds the Git LFS pointers in a push.

use std::collections::{BTreeMap, BTreeSet};

use codebutler_gateway_core::redact::SecretRedactor;

use super::objects::ObjectReader;
use super::{PushQuarantine, ReceiveError};
use crate::lfs::{self, LfsPointer};
use crate::push::is_object;
use crate::rules::IncomingPush;

impl PushQuarantine {
    /// Files that have to do with Git LFS, by their masked paths.
    ///
    /// # Errors
    /// When they can't be read.
    pub(crate) async fn large_files(
        &self,
        incoming: &IncomingPush,
        redactor: &SecretRedactor,
    ) -> Result<lfs::LfsFiles, ReceiveError> {
        let changes = || incoming.commits.iter().flat_map(|commit| commit.changes.iter());
        let before: BTreeSet<String> = changes()
            .filter(|change| change.blob.is_some())
            .flat_map(|change| change.before.iter().filter(|id| is_object(id)).cloned())
            .collect();
        let mut sizes = self.sizes(&before.into_iter().collect::<Vec<_>>()).await?;
        sizes.extend(incoming.blobs.clone());
        sizes.retain(|_, size| *size <= lfs::MAX_POINTER);
        let mut objects = ObjectReader::open(&self.git)?;
        let mut known: BTreeMap<String, Option<LfsPointer>> = BTreeMap::new();
        for blob in sizes.into_keys() {
            let pointer = LfsPointer::read(&objects.read_small(&blob).await?);
            known.insert(blob, pointer);
        }
        let is_pointer = |blob: &String| known.get(blob).cloned().flatten();
        let mut files = lfs::LfsFiles::default();
        for change in changes() {
            let new = change.blob.as_ref().filter(|blob| incoming.blobs.contains_key(*blob));
            let Some(blob) = new else { continue };
            let path = redactor.mask(&change.path);
            let path: String = path.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
            match is_pointer(blob) {
                Some(pointer) => {
                    files.pointers.insert(path, pointer);
                }
                None if change.before.iter().any(|old| is_pointer(old).is_some()) => {
                    files.replaced.insert(path);
                }
                None => {}
            }
        }
        Ok(files)
    }
}
