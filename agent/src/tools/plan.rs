//! Check of a push against the files that the approved plan names.

use super::{ToolContext, ToolFailure};
use crate::toolbox::protocol::{ToolboxReply, ToolboxRequest};

const MAX_TOLD: usize = 20;
/// Folder of the team's own notes, which any plan may change.
const NOTES: &str = ".codebutler/";

impl ToolContext {
    /// Lists files that the branch changes and the approved plan does not name. None without such a plan.
    pub async fn beside_plan(&self) -> Result<Vec<String>, ToolFailure> {
        if self.planned.is_empty() {
            return Ok(Vec::new());
        }
        match self.toolbox.ask(ToolboxRequest::Touched).await? {
            ToolboxReply::Names(touched) => Ok(files_beside(&self.planned, touched)),
            other => {
                tracing::warn!(?other, request = "touched", "toolbox_request_failed");
                Ok(Vec::new())
            }
        }
    }
}

/// Names the plan's files for the model.
pub(super) fn told_files(files: &[String]) -> String {
    if files.is_empty() {
        return String::new();
    }
    let named: Vec<_> = files.iter().take(MAX_TOLD).map(|file| format!("`{file}`")).collect();
    format!(
        ". The approved plan does not name {}: when you hand over, name them and say why you changed them.",
        named.join(", ")
    )
}

fn files_beside(planned: &[String], touched: Vec<String>) -> Vec<String> {
    let planned: Vec<&str> = planned.iter().map(|path| bare_path(path)).collect();
    let covered = |file: &str| {
        let below = |folder: &str| file.strip_prefix(folder).is_some_and(|r| r.starts_with('/'));
        planned.iter().any(|place| place.is_empty() || *place == file || below(place))
    };
    touched.into_iter().filter(|file| !file.starts_with(NOTES) && !covered(file)).collect()
}

/// Normalizes a path that a plan names; a pattern becomes the folder that it is about.
fn bare_path(path: &str) -> &str {
    let path = path.trim().trim_start_matches("./");
    let path = match path.find(['*', '?', '[', '{']) {
        Some(at) => path[..at].rsplit_once('/').map_or("", |(folder, _)| folder),
        None => path,
    };
    path.trim_end_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_plan_names_covers_files_and_what_is_below_folders() {
        let of = |planned: &[&str], touched: &[&str]| {
            let owned = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
            files_beside(&owned(planned), owned(touched)).join(" ")
        };
        let touched = ["src/a.rs", "src/b/c.rs", "srcs/d.rs", ".codebutler/coder.md"];
        assert_eq!(of(&["src/"], &touched), "srcs/d.rs");
        assert_eq!(of(&["./src/a.rs"], &touched), "src/b/c.rs srcs/d.rs");
        assert_eq!(of(&["src/b/*.rs", "src/a.rs", "srcs"], &touched), "");
        assert_eq!(of(&["**/*.rs"], &touched), "");
        assert_eq!(told_files(&[]), "");
        assert!(told_files(&["a".to_owned()]).contains("does not name `a`"));
    }
}
