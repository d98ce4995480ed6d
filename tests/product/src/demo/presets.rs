//! Egress presets for a repository, chosen by the names of its files: without them its builds reach no registry.

use codebutler_crds::egress::EgressPreset;
use codebutler_testbed::github::git::{BareRepository, GitError};

/// Files by whose name an ecosystem shows.
const SIGNS: [(&str, EgressPreset); 14] = [
    ("package.json", EgressPreset::Npm),
    ("pyproject.toml", EgressPreset::Pypi),
    ("requirements.txt", EgressPreset::Pypi),
    ("setup.py", EgressPreset::Pypi),
    ("Pipfile", EgressPreset::Pypi),
    ("Cargo.toml", EgressPreset::Crates),
    ("go.mod", EgressPreset::Go),
    ("pom.xml", EgressPreset::Maven),
    ("build.gradle", EgressPreset::Maven),
    ("build.gradle.kts", EgressPreset::Maven),
    ("settings.gradle", EgressPreset::Maven),
    ("settings.gradle.kts", EgressPreset::Maven),
    ("Gemfile", EgressPreset::Rubygems),
    ("gems.rb", EgressPreset::Rubygems),
];
/// Folders with files of others.
const FOREIGN: [&str; 5] = ["node_modules", "vendor", "third_party", "testdata", "fixtures"];
/// Deepest folder that says something about the whole, such as `services/shop/web`.
const DEEPEST: usize = 3;

/// A preset, and the file that asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChosenPreset {
    pub preset: EgressPreset,
    /// The one nearest to the top.
    pub file: String,
}

/// Looks at the newest commit of a branch.
///
/// # Errors
/// Git can't be run.
pub(super) async fn look_for_presets(
    git: &BareRepository,
    branch: &str,
) -> Result<Vec<ChosenPreset>, GitError> {
    let tree = git.run(&["ls-tree", "-r", "-z", "--name-only", branch]).await?;
    Ok(choose_presets(tree.split('\0')))
}

fn choose_presets<'a>(files: impl Iterator<Item = &'a str>) -> Vec<ChosenPreset> {
    let mut files: Vec<&str> = files.filter(|path| is_own(path)).collect();
    files.sort_by_key(|path| (path.matches('/').count(), *path));
    let choose = |preset| {
        let asks = |path: &&&str| {
            let name = path.rsplit('/').next().unwrap_or_default();
            SIGNS.iter().any(|(sign, asked)| *sign == name && *asked == preset)
        };
        let file = (*files.iter().find(asks)?).to_owned();
        Some(ChosenPreset { preset, file })
    };
    EgressPreset::ALL.into_iter().filter_map(choose).collect()
}

fn is_own(path: &str) -> bool {
    let folders: Vec<&str> = path.split('/').collect();
    folders.len() <= DEEPEST + 1 && !folders.iter().any(|folder| FOREIGN.contains(folder))
}

/// The choice, in words for people.
pub(super) fn describe_presets(chosen: &[ChosenPreset]) -> String {
    if chosen.is_empty() {
        return "commands reach no host, as no file names npm, Cargo or another package manager"
            .to_owned();
    }
    let each = chosen.iter().map(|one| format!("{} ({})", one.preset.name(), one.file));
    format!("commands reach the registries of {}", each.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ecosystems_are_chosen_by_own_files_and_the_one_nearest_to_the_top_is_shown() {
        let files = [
            "services/api/Cargo.toml",
            "Cargo.toml",
            "web/package.json",
            "web/node_modules/left-pad/package.json",
            "vendor/tool/go.mod",
            "a/b/c/d/Gemfile",
            "docs/pom.xml.md",
        ];
        let chosen = choose_presets(files.into_iter());
        assert_eq!(
            describe_presets(&chosen),
            "commands reach the registries of npm (web/package.json), crates (Cargo.toml)"
        );
        assert!(describe_presets(&choose_presets(["README.md"].into_iter())).contains("no host"));
        for (sign, preset) in SIGNS {
            assert_eq!(choose_presets([sign].into_iter())[0].preset, preset, "{sign}");
        }
    }
}
