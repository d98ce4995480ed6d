//! The prompts and skills that a repository starts with, built into the binary from `seeds/`.

use include_dir::{Dir, include_dir};

static SEEDS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../seeds");

/// A seed such as `pm.md` (a role's instructions), `global.md` or `workflows.md`.
pub fn find_seed(file: &str) -> Option<&'static str> {
    SEEDS
        .get_file(format!("prompts/{file}"))
        .or_else(|| SEEDS.get_file(file))
        .and_then(include_dir::File::contents_utf8)
}

/// The roles that CodeButler brings.
pub fn role_names() -> impl Iterator<Item = &'static str> {
    let files = SEEDS.get_dir("prompts").into_iter().flat_map(Dir::files);
    files.filter_map(|file| file.path().file_stem()?.to_str())
}

/// A skill that every repository has, such as `explain.md`.
pub fn find_skill(file: &str) -> Option<&'static str> {
    list_skills().find(|(name, _)| *name == file).map(|(_, text)| text)
}

/// File name and text of the skills that every repository has.
pub fn list_skills() -> impl Iterator<Item = (&'static str, &'static str)> {
    let files = SEEDS.get_dir("skills").into_iter().flat_map(Dir::files);
    files.filter_map(|file| Some((file.path().file_name()?.to_str()?, file.contents_utf8()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guides_are_found_and_nothing_else_is() {
        for file in ["pm.md", "coder.md", "global.md", "workflows.md"] {
            assert!(find_seed(file).is_some_and(|text| !text.trim().is_empty()), "{file}");
        }
        assert!(find_seed("../Cargo.toml").is_none());
        assert!(find_seed("no-such-role.md").is_none());
    }
}
