//! The AgentRoles that ship in `seeds/roles`.

use include_dir::{Dir, include_dir};

static ROLES: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../seeds/roles");

/// File name and YAML of each role.
pub fn role_files() -> impl Iterator<Item = (&'static str, &'static str)> {
    ROLES.files().filter_map(|file| Some((file.path().to_str()?, file.contents_utf8()?)))
}
