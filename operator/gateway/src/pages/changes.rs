//! The page of a branch's changes, from the gateway's own copy of the repository.

use axum::extract::State;
use axum::response::Html;
use codebutler_crds::Repo;
use codebutler_gateway_core::history::millis_now;
use codebutler_gateway_core::masks;
use codebutler_git::ShownBranch;
use codebutler_history::ThreadPlace;
use codebutler_pages::{BranchShown, ChangedFile, ChangesPage, FilePatch, ThreadSummary};
use serde::Deserialize;

use super::address::{AddressPath, AddressQuery};
use super::door::PageViewer;
use super::{PageProblem, PageServices, base_path, parse_place};

const NO_BRANCH: &str = "Nothing was pushed in this thread yet.";
const NO_COPY: &str =
    "The gateway has no copy of this branch at hand. Load this page again in a minute.";
const GONE: &str = "The branch is no longer in the gateway's copy of the repository.";
const UNKNOWN: &str = "Git can't show these changes right now. Load this page again in a minute.";

#[derive(Deserialize)]
pub(super) struct ChangesQuery {
    /// The one file that is shown.
    file: Option<String>,
    /// The first of its lines that is.
    #[serde(default)]
    from: usize,
}

/// Serves the changes of a branch as a page, or one of its files.
pub(super) async fn serve_changes(
    State(pages): State<PageServices>,
    viewer: PageViewer,
    AddressPath((namespace, name)): AddressPath<(String, String)>,
    AddressQuery(ChangesQuery { file, from }): AddressQuery<ChangesQuery>,
) -> Result<Html<String>, PageProblem> {
    let place = parse_place(&namespace, &name)?;
    let (summary, _) = pages.permit(&viewer, &place).await?;
    if summary.lines == 0 {
        return Err(PageProblem::NoPage);
    }
    let _turn = pages.limits.diff().await?;
    let names = pages.names(&viewer, &place, &summary).await;
    let changes = pages.read_changes(&place, &summary, file.as_deref()).await;
    let page = ChangesPage {
        base: base_path(&place),
        now: millis_now(),
        slack: pages.conversation(&place).is_some(),
        file,
        from,
        changes,
        names,
        summary,
    };
    Ok(Html(codebutler_pages::render_changes(&page, &viewer.visitor(&page.names))))
}

impl PageServices {
    /// The branch's changes, or a sentence that says why nothing is shown.
    async fn read_changes(
        &self,
        place: &ThreadPlace,
        summary: &ThreadSummary,
        file: Option<&str>,
    ) -> Result<BranchShown, &'static str> {
        let (repo, _) = self.sight.origin(place, summary).ok_or(GONE)?;
        let pushed = summary.pushed.as_ref();
        let thread = self.conversation(place);
        let status = thread.as_ref().and_then(|thread| thread.status.as_ref());
        let known = status.and_then(|status| status.branch.clone());
        let branch = known.or_else(|| pushed.map(|pushed| pushed.branch.clone()));
        let branch = branch.ok_or(NO_BRANCH)?;
        let mirror = self.mirrors.of(&repo);
        if !mirror.is_there() {
            return Err(NO_COPY);
        }
        let refs = mirror.list_refs().await.map_err(|error| log_failure(place, &error))?;
        let base = refs.get(&format!("refs/heads/{}", repo.spec.git.branch)).ok_or(NO_COPY)?;
        let tip = refs.get(&format!("refs/heads/{branch}"));
        // A merged branch may be deleted while its commits are still there.
        let left = pushed.filter(|pushed| is_commit(&pushed.commit)).map(|pushed| &pushed.commit);
        // A thread has the name of its branch before the branch is there.
        let missing = if pushed.is_some() { GONE } else { NO_BRANCH };
        let git = mirror.git();
        let pull = status.and_then(|status| status.pull_request.as_ref());
        let merged = pull.and_then(|pull| pull.merge_commit.as_deref());
        let stack = status.and_then(|status| status.stack.as_ref());
        let below = stack.filter(|stack| !stack.settled).and_then(|stack| stack.has.as_deref());
        let is_commit = |id: &&str| is_commit(id);
        let other = git.compared_commits(merged.filter(is_commit), below.filter(is_commit)).await;
        let other = other.map_err(|error| log_failure(place, &error))?;
        let found = tip.or(left);
        let is_there = match found {
            Some(tip) => git.has_commit(tip).await.map_err(|error| log_failure(place, &error))?,
            None => false,
        };
        let tip = found.filter(|_| is_there).or(other.merge.as_ref()).ok_or(missing)?;
        if pushed.is_none() && tip == base {
            return Err(NO_BRANCH);
        }
        let base = other.base.as_ref().unwrap_or(base);
        let shown = ShownBranch { git, base, tip };
        self.read_branch(&repo, &shown, branch, file)
            .await
            .map_err(|error| log_failure(place, &error))
    }

    async fn read_branch(
        &self,
        repo: &Repo,
        shown: &ShownBranch<'_>,
        branch: String,
        file: Option<&str>,
    ) -> anyhow::Result<BranchShown> {
        let redactor = masks::as_known(&self.sight.context, repo).await;
        let files = ChangedFile::read_all(&shown.counts().await?);
        let commits = redactor.mask(&shown.commits().await?).into_owned();
        let wanted: Vec<&ChangedFile> = match file {
            Some(file) => files.iter().filter(|one| one.path == file).collect(),
            None if ChangedFile::fit_on_a_page(&files) => files.iter().collect(),
            None => Vec::new(),
        };
        let paths: Vec<String> = wanted.iter().map(|file| file.path.clone()).collect();
        // All of them in one order, however odd a path is.
        let asked = if file.is_some() { &*paths } else { &[] };
        let patch = if paths.is_empty() { None } else { shown.patch(asked).await? };
        // Too large together, files are listed; one that is too large alone is named as that.
        let patch = patch.unwrap_or_default();
        let patch = redactor.mask(&String::from_utf8_lossy(&patch)).into_owned();
        let patches = FilePatch::read_all(&patch, &paths);
        Ok(BranchShown { branch, tip: shown.tip.to_owned(), files, commits, patches })
    }
}

fn is_commit(id: &str) -> bool {
    id.len() >= 40 && id.bytes().all(|b| b.is_ascii_hexdigit())
}

fn log_failure(place: &ThreadPlace, error: &dyn std::fmt::Display) -> &'static str {
    tracing::warn!(%place, %error, "page_diff_failed");
    UNKNOWN
}
