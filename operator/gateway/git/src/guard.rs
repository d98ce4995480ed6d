//! Decides which files a push may change: no protected ones, and only those that the role may push. Pure.

use codebutler_crds::policy::PolicySpec;
use codebutler_crds::role::PushRights;
use codebutler_gateway_core::image_kind::is_image_path;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// Reason why a push may not change a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GuardedReason {
    /// The Repo protects it from every role.
    Protected,
    /// The role may push other files only.
    NotAllowed,
}

/// Patterns that can't be used, by the field that has them. Nothing may be pushed then.
#[derive(Debug, thiserror::Error)]
pub enum UnusablePatterns {
    #[error("spec.policy.protectedPaths of the Repo can't be used: {0}")]
    Protected(globset::Error),
    #[error("spec.push.paths of the role can't be used: {0}")]
    Pushed(globset::Error),
    #[error("the paths of images can't be used: {0}")]
    Images(globset::Error),
}

/// The Repo's and the role's word on paths.
#[derive(Clone, Debug)]
pub struct PathGuard {
    protected: GlobSet,
    /// Folders that lead to protected files: nothing else may stand in their place.
    leading: Vec<String>,
    allowed: Option<GlobSet>,
    /// Paths at which the role may put images all the same.
    images: GlobSet,
}

impl PathGuard {
    /// Reads the patterns.
    ///
    /// # Errors
    /// When a pattern can't be used.
    pub fn new(
        policy: &PolicySpec,
        rights: Option<&PushRights>,
        images: &[String],
    ) -> Result<Self, UnusablePatterns> {
        let folded: Vec<String> = policy.protected_paths.iter().map(|p| p.to_lowercase()).collect();
        let protected = glob_set(&folded).map_err(UnusablePatterns::Protected)?;
        let paths = rights.map_or(&[][..], |rights| &rights.paths);
        let allowed = if paths.is_empty() {
            None
        } else {
            Some(glob_set(paths).map_err(UnusablePatterns::Pushed)?)
        };
        let leading = folded.iter().flat_map(|pattern| leading_folders(pattern)).collect();
        let images = images.iter().map(|path| globset::escape(path.trim_start_matches("./")));
        let images: Vec<String> =
            images.filter(|path| !matches!(path.trim_matches('/'), "" | ".")).collect();
        let images = glob_set(&images).map_err(UnusablePatterns::Images)?;
        Ok(Self { protected, leading, allowed, images })
    }

    /// Returns why a file may not be changed, or None if it may.
    pub fn why(&self, path: &str) -> Option<GuardedReason> {
        let folded = fold_path(path);
        if self.protected.is_match(&folded) || self.leading.contains(&folded) {
            return Some(GuardedReason::Protected);
        }
        let allowed = self.allowed.as_ref().is_none_or(|allowed| allowed.is_match(path));
        let allowed = allowed || (is_image_path(path) && self.images.is_match(path));
        (!allowed).then_some(GuardedReason::NotAllowed)
    }
}

/// A pattern that names a folder means all that is in it.
fn glob_set(patterns: &[String]) -> Result<GlobSet, globset::Error> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let pattern = pattern.trim_matches('/');
        for pattern in [pattern.to_owned(), format!("{pattern}/**")] {
            set.add(GlobBuilder::new(&pattern).literal_separator(true).build()?);
        }
    }
    set.build()
}

/// `a`, `a/b` for `a/b/*.c`: the folders that a pattern names.
fn leading_folders(pattern: &str) -> Vec<String> {
    let plain = |part: &&str| !part.contains(['*', '?', '[', '{', '\\']);
    let parts: Vec<&str> = pattern.trim_matches('/').split('/').take_while(plain).collect();
    (1..=parts.len()).map(|count| parts[..count].join("/")).collect()
}

/// The name under which a careless file system finds the file too: case, characters that don't show,
/// and what some leave out at the end make no difference.
fn fold_path(path: &str) -> String {
    let shown: String = path
        .chars()
        .filter(|c| {
            !matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
        })
        .collect();
    let parts: Vec<&str> = shown.split('/').map(|part| part.trim_end_matches(['.', ' '])).collect();
    parts.join("/").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(protected: &[&str], allowed: &[&str]) -> PathGuard {
        let policy = PolicySpec {
            protected_paths: protected.iter().map(ToString::to_string).collect(),
            ..PolicySpec::default()
        };
        let paths = allowed.iter().map(ToString::to_string).collect();
        let rights =
            PushRights { needs_approved_plan: true, rewrite: false, paths, planned_images: false };
        PathGuard::new(&policy, Some(&rights), &[]).unwrap()
    }

    #[test]
    fn what_ci_runs_and_who_owns_what_is_protected_however_they_are_written() {
        let guard = PathGuard::new(&PolicySpec::default(), None, &[]).unwrap();
        for path in [
            ".github/workflows/ci.yml",
            ".github/workflows/deep/er.yml",
            ".GitHub/Workflows/ci.yml",
            ".github/work\u{200b}flows/ci.yml",
            ".github./workflows /ci.yml",
            // A link or a file in a folder's place.
            ".github/workflows",
            ".github",
            ".github/actions/setup/action.yml",
            ".github/CODEOWNERS",
            "codeowners",
            "docs/CODEOWNERS",
        ] {
            assert_eq!(guard.why(path), Some(GuardedReason::Protected), "{path}");
        }
        for path in ["src/main.rs", ".codebutler/coder.md", "docs/.github/workflows/ci.yml", "x"] {
            assert_eq!(guard.why(path), None, "{path}");
        }
    }

    #[test]
    fn a_folder_means_all_that_is_in_it() {
        let guard = guard(&["infra/", "*.lock"], &[]);
        assert_eq!(guard.why("infra/prod/main.tf"), Some(GuardedReason::Protected));
        assert_eq!(guard.why("Cargo.lock"), Some(GuardedReason::Protected));
        assert_eq!(guard.why("a/Cargo.lock"), None);
    }

    #[test]
    fn a_role_may_be_kept_to_its_own_files() {
        let guard = guard(&[".github/workflows/**"], &["assets/**", "*.md"]);
        assert_eq!(guard.why("assets/logo.svg"), None);
        assert_eq!(guard.why("README.md"), None);
        assert_eq!(guard.why("src/main.rs"), Some(GuardedReason::NotAllowed));
        assert_eq!(guard.why("Assets/logo.svg"), Some(GuardedReason::NotAllowed));
        assert_eq!(guard.why(".github/workflows/x.md"), Some(GuardedReason::Protected));
    }

    #[test]
    fn images_may_go_where_people_want_them_and_nothing_else() {
        let paths = vec![".codebutler/artist/**".to_owned()];
        let rights =
            PushRights { needs_approved_plan: false, rewrite: false, paths, planned_images: true };
        let planned = ["public/logo.png", "./site", "src/main.rs", "", "./", "a[1].png"];
        let planned = planned.map(str::to_owned);
        let guard = PathGuard::new(&PolicySpec::default(), Some(&rights), &planned).unwrap();
        for path in [
            ".codebutler/artist/assets/logo.svg",
            "public/logo.png",
            "site/img/hero.WEBP",
            "a[1].png",
        ] {
            assert_eq!(guard.why(path), None, "{path}");
        }
        for path in ["src/main.rs", "public/other.png", "site/index.html", "a1.png", "logo.png"] {
            assert_eq!(guard.why(path), Some(GuardedReason::NotAllowed), "{path}");
        }
    }

    #[test]
    fn a_pattern_that_is_none_is_told() {
        let policy = PolicySpec { protected_paths: vec!["a[".to_owned()], ..PolicySpec::default() };
        let why = PathGuard::new(&policy, None, &[]).unwrap_err().to_string();
        assert!(why.contains("protectedPaths") && why.contains("a["), "{why}");
    }
}
