//! Templates for the description of a pull request, wherever GitHub looks for them on the base branch.

use git2::{ObjectType, Repository, Tree as GitTree};

use super::GitSite;
use super::base::{MAX_FILE, usable_text};
use super::sealed::read_base;
use crate::toolbox::ToolError;

/// Folders in the order in which GitHub looks in them; the root has no name.
const PLACES: [&str; 3] = [".github", "", "docs"];
const NAME: &str = "pull_request_template";
const EXTENSIONS: [&str; 2] = [".md", ".txt"];
/// Templates of a folder that are read.
const MAX_TEMPLATES: usize = 20;

/// Path and text of each: the one that GitHub takes by itself first, then those that can be chosen.
pub fn read_templates(place: &GitSite) -> Result<Vec<(String, String)>, ToolError> {
    read_base(place, find_templates)
}

fn find_templates(
    repo: &Repository,
    base: &GitTree<'_>,
) -> Result<Vec<(String, String)>, ToolError> {
    let mut found: Vec<(String, String)> = Vec::new();
    let mut chosen = Vec::new();
    for wanted in PLACES {
        for (folder, tree) in folders_named(repo, base, wanted) {
            for entry in &tree {
                let Ok(name) = entry.name() else { continue };
                let path = join_path(&folder, name);
                let is_folder = entry.kind() == Some(ObjectType::Tree);
                if is_folder && name.eq_ignore_ascii_case(NAME) {
                    chosen.extend(template_names(repo, base, &path));
                } else if !is_folder && is_template(&name.to_lowercase()) {
                    add_template(repo, base, &mut found, path)?;
                }
            }
        }
    }
    // Only the first of them is used.
    found.truncate(1);
    for path in chosen.into_iter().take(MAX_TEMPLATES) {
        add_template(repo, base, &mut found, path)?;
    }
    Ok(found)
}

fn add_template(
    repo: &Repository,
    base: &GitTree<'_>,
    found: &mut Vec<(String, String)>,
    path: String,
) -> Result<(), ToolError> {
    let text = usable_text(repo, base, &path, MAX_FILE)?;
    found.extend(text.filter(|text| !text.trim().is_empty()).map(|text| (path, text)));
    Ok(())
}

/// `pull_request_template.md`, and nothing that only begins so.
fn is_template(lower: &str) -> bool {
    let bare = EXTENSIONS.iter().find_map(|extension| lower.strip_suffix(extension));
    bare.unwrap_or(lower) == NAME
}

/// The folders of this name, in any case.
fn folders_named<'r>(
    repo: &'r Repository,
    base: &GitTree<'r>,
    wanted: &str,
) -> Vec<(String, GitTree<'r>)> {
    if wanted.is_empty() {
        return vec![(String::new(), base.clone())];
    }
    let folders = base.iter().filter(|entry| entry.kind() == Some(ObjectType::Tree));
    let folders = folders.filter_map(|entry| {
        let name = entry.name().ok()?.to_owned();
        let is_it = name.eq_ignore_ascii_case(wanted);
        let tree = repo.find_tree(entry.id()).ok().filter(|_| is_it)?;
        Some((name, tree))
    });
    folders.collect()
}

/// Paths of the templates in a folder of them.
fn template_names(repo: &Repository, base: &GitTree<'_>, folder: &str) -> Vec<String> {
    let entry = base.get_path(std::path::Path::new(folder)).ok();
    let tree = entry.and_then(|entry| repo.find_tree(entry.id()).ok());
    let Some(tree) = tree else { return Vec::new() };
    let fits = |name: &&str| {
        let lower = name.to_lowercase();
        EXTENSIONS.iter().any(|extension| lower.ends_with(extension))
    };
    let names = tree
        .iter()
        .filter_map(|entry| entry.name().ok().filter(fits).map(|name| join_path(folder, name)));
    names.collect()
}

fn join_path(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::GitFixture;
    use super::super::prepare_worktree;
    use super::*;

    fn paths(f: &GitFixture) -> Vec<String> {
        f.place.fetch(&f.place.open().unwrap()).unwrap();
        read_templates(&f.place).unwrap().into_iter().map(|(path, _)| path).collect()
    }

    #[test]
    fn templates_are_found_wherever_github_looks() {
        let f = GitFixture::new();
        prepare_worktree(&f.place).unwrap();
        assert_eq!(paths(&f), Vec::<String>::new());
        f.merge(&[
            ("docs/Pull_Request_Template.TXT", "docs"),
            ("docs/pull_request_template_notes.md", "no template"),
            ("docs/pull_request_template.rst", "no template"),
        ]);
        assert_eq!(paths(&f), ["docs/Pull_Request_Template.TXT"]);
        f.merge(&[("PULL_REQUEST_TEMPLATE.md", "root"), (".github/x.md", "no template")]);
        assert_eq!(paths(&f), ["PULL_REQUEST_TEMPLATE.md"]);
        f.merge(&[
            (".github/pull_request_template.md", "github"),
            (".github/PULL_REQUEST_TEMPLATE/bug.md", "bug"),
            (".github/PULL_REQUEST_TEMPLATE/config.yml", "no template"),
            ("docs/PULL_REQUEST_TEMPLATE/Feature.MD", "feature"),
            (".github/pull_request_template/empty.md", " \n"),
        ]);
        assert_eq!(
            paths(&f),
            [
                ".github/pull_request_template.md",
                ".github/PULL_REQUEST_TEMPLATE/bug.md",
                "docs/PULL_REQUEST_TEMPLATE/Feature.MD",
            ]
        );
    }
}
