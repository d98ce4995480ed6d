//! libgit2's process-wide settings.

#![allow(unsafe_code)]

use std::sync::Once;

use git2::ConfigLevel;

/// Call before anything else of libgit2. Repeating it changes nothing.
pub fn init_libgit() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the setting is a plain variable inside libgit2, written here once and before any
        // other thread of this process uses the library; `Once` makes later callers wait for it.
        // The volume may belong to another uid than this container's (fsGroup), which is the very
        // thing that the check would refuse.
        let done = unsafe { git2::opts::set_verify_owner_validation(false) };
        if let Err(error) = done {
            tracing::warn!(%error, "libgit2_option_failed");
        }
        // The home of commands is theirs to write: ignore files and attributes there are not read.
        for level in [ConfigLevel::Global, ConfigLevel::XDG] {
            // SAFETY: as above: set once, before any other thread uses the library.
            if let Err(error) = unsafe { git2::opts::set_search_path(level, "") } {
                tracing::warn!(%error, "libgit2_option_failed");
            }
        }
    });
}
