//! Egress presets for a repository, chosen by its files: without them its builds reach no registry.

use codebutler_crds::egress::EgressPreset;
use codebutler_testbed::github::git::{BareRepository, GitError};

/// Files by whose name an ecosystem shows.
const SIGNS: [(&str, EgressPreset); 18] = [
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
    ("compose.yaml", EgressPreset::Containers),
    ("compose.yml", EgressPreset::Containers),
    ("docker-compose.yaml", EgressPreset::Containers),
    ("docker-compose.yml", EgressPreset::Containers),
];
/// The file from which Debian's tools build a package.
const PACKAGE: &str = "debian/control";
/// Names of files that say how an image is built, alone or with a word before or behind.
const RECIPES: [&str; 2] = ["dockerfile", "containerfile"];
/// Recipes that are read, those nearest to the top.
const READ: usize = 8;
/// Words with which a recipe has apt fetch something.
const APT: [&str; 5] =
    ["apt-get install", "apt-get update", "apt install", "apt update", "apt-get -"];
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
    let files = own_files(tree.split('\0'));
    let mut chosen = choose_presets(&files);
    if !chosen.iter().any(|one| one.preset == EgressPreset::Debian) {
        for file in files.iter().filter(|path| is_recipe(path)).take(READ) {
            // One that can't be read, such as a submodule of that name, says nothing.
            let Ok(text) = git.show(branch, file).await else { continue };
            if fetches_from_debian(&String::from_utf8_lossy(&text)) {
                let file = (*file).to_owned();
                chosen.push(ChosenPreset { preset: EgressPreset::Debian, file });
                chosen.sort_by_key(|one| one.preset);
                break;
            }
        }
    }
    Ok(chosen)
}

/// The repository's own files, those nearest to the top first.
fn own_files<'a>(files: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut files: Vec<&str> = files.filter(|path| is_own(path)).collect();
    files.sort_by_key(|path| (path.matches('/').count(), *path));
    files
}

/// Presets that the names of files ask for.
fn choose_presets(files: &[&str]) -> Vec<ChosenPreset> {
    let choose = |preset| {
        let file = files.iter().find(|path| sign_of(path) == Some(preset))?;
        Some(ChosenPreset { preset, file: (*file).to_owned() })
    };
    EgressPreset::ALL.into_iter().filter_map(choose).collect()
}

/// The ecosystem that a file of this name belongs to.
fn sign_of(path: &str) -> Option<EgressPreset> {
    let name = path.rsplit('/').next().unwrap_or_default();
    if let Some((_, preset)) = SIGNS.iter().find(|(sign, _)| *sign == name) {
        return Some(*preset);
    }
    if path == PACKAGE || path.strip_suffix(PACKAGE).is_some_and(|above| above.ends_with('/')) {
        return Some(EgressPreset::Debian);
    }
    is_recipe(path).then_some(EgressPreset::Containers)
}

/// True for `Dockerfile`, `Dockerfile.dev`, `dev.Dockerfile` and their like.
fn is_recipe(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default().to_lowercase();
    let is_named = |recipe: &str| {
        let rest = name.strip_prefix(recipe);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            || name.strip_suffix(recipe).is_some_and(|before| before.ends_with('.'))
    };
    // It names files that an image does not get.
    name.rsplit('.').next() != Some("dockerignore") && RECIPES.into_iter().any(is_named)
}

/// True where a recipe has apt fetch packages, unless it begins with Ubuntu, which has mirrors of its own.
fn fetches_from_debian(recipe: &str) -> bool {
    let lines = || recipe.lines().map(str::trim_start).filter(|line| !line.starts_with('#'));
    let is_of_ubuntu = |line: &str| {
        let mut words = line.split_whitespace();
        words.next().is_some_and(|word| word.eq_ignore_ascii_case("from"))
            && words.any(|word| word.starts_with("ubuntu") || word.contains("/ubuntu"))
    };
    lines().any(|line| APT.iter().any(|words| line.contains(words))) && !lines().any(is_of_ubuntu)
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
        let chosen = choose_presets(&own_files(files.into_iter()));
        assert_eq!(
            describe_presets(&chosen),
            "commands reach the registries of npm (web/package.json), crates (Cargo.toml)"
        );
        assert!(describe_presets(&choose_presets(&["README.md"])).contains("no host"));
        for (sign, preset) in SIGNS {
            assert_eq!(choose_presets(&[sign])[0].preset, preset, "{sign}");
        }
    }

    #[test]
    fn recipes_of_images_and_packages_are_signs_by_their_names() {
        for (path, preset) in [
            ("Dockerfile", Some(EgressPreset::Containers)),
            ("deploy/Containerfile", Some(EgressPreset::Containers)),
            ("Dockerfile.dev", Some(EgressPreset::Containers)),
            ("web/dev.dockerfile", Some(EgressPreset::Containers)),
            ("Dockerfile.dockerignore", None),
            ("docs/dockerfiles.md", None),
            ("mydockerfile", None),
            ("debian/control", Some(EgressPreset::Debian)),
            ("packaging/debian/control", Some(EgressPreset::Debian)),
            ("notdebian/control", None),
            ("src/control", None),
        ] {
            assert_eq!(sign_of(path), preset, "{path}");
        }
    }

    #[test]
    fn a_recipe_asks_for_debian_where_it_fetches_packages_from_there() {
        for (recipe, asks) in [
            ("FROM debian:13\nRUN apt-get update && apt-get install -y jq\n", true),
            ("FROM python:3.13\nRUN set -e; \\\n  apt-get -qq install jq\n", true),
            ("FROM alpine\n# RUN apt-get install jq\nRUN apk add jq\n", false),
            ("FROM ubuntu:24.04 AS base\nRUN apt-get update\n", false),
            ("from docker.io/library/ubuntu\nRUN apt install jq\n", false),
            ("FROM node:22\nRUN npm ci\n", false),
        ] {
            assert_eq!(fetches_from_debian(recipe), asks, "{recipe}");
        }
    }
}
