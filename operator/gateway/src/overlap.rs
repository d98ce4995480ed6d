//! Overlaps of a Repo's open threads: places that their plans name, or that their branches change. Nothing of what
//! people said leaves a thread.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use codebutler_crds::thread::PlanDetails;
use codebutler_crds::wire::{ErrorCode, OtherThread, TextMerge, ThreadOverlap};
use codebutler_crds::{Repo, Thread, names};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::github::GitHub;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_git::{BranchChange, BranchSurvey, take_survey};
use kube::ResourceExt as _;

use crate::naming::path_as_code;
use crate::radar::{BranchContact, compare_branches};
use crate::roadmap::stack;
use crate::work::WorkServices;

/// Files and folders that a plan may name, and the longest of them, in bytes.
const MAX_FILES: usize = 24;
const MAX_PATH: usize = 120;
/// Maximum number of threads that are looked at, and of files that are told of each.
const MAX_THREADS: usize = 50;
const MAX_CHANGED: usize = 100;
/// Maximum number of places that are named where two threads meet.
const MAX_NAMED: usize = 10;

/// Checks that a plan's files can be kept.
///
/// # Errors
/// A sentence for the role.
pub fn check_files(files: &[String]) -> Result<(), ApiError> {
    let invalid = |message: String| Err(ApiError::new(ErrorCode::InvalidRequest, message));
    if files.len() > MAX_FILES {
        return invalid(format!("`files` has more than {MAX_FILES} entries: name folders instead"));
    }
    let plain = |file: &String| {
        let inside = !file.starts_with('/') && !file.split('/').any(|part| part == "..");
        let shown = !file.chars().any(|c| c.is_control() || c == '`');
        inside && shown && !file.trim().is_empty() && file.len() <= MAX_PATH
    };
    match files.iter().find(|file| !plain(file)) {
        None => Ok(()),
        Some(_) => invalid(format!(
            "each of `files` has to be a path relative to the repository's root, of at most {MAX_PATH} bytes"
        )),
    }
}

/// The other open threads of the caller's Repo, and where each meets the caller's own.
pub async fn other_threads(gateway: &WorkServices, caller: &ProvenCaller) -> Vec<OtherThread> {
    let own = gateway.threads.freshest(&caller.key(), Some(Arc::clone(&caller.thread)));
    let planned = own.as_deref().map(planned_files).unwrap_or_default();
    find_others(gateway, &caller.repo, &caller.key(), &planned).await
}

/// Overlaps of a plan for `files` with other open threads.
pub async fn of_plan(
    gateway: &WorkServices,
    caller: &ProvenCaller,
    files: &[String],
) -> Vec<ThreadOverlap> {
    if files.is_empty() {
        return Vec::new();
    }
    let others = find_others(gateway, &caller.repo, &caller.key(), files).await;
    others.into_iter().filter_map(|other| other.overlap).collect()
}

/// Tells the threads that are at the same places as a merged one: their branches lack what the base
/// branch has now. Told once, by key. The branch may be gone, as many repositories have it, so GitHub is
/// asked too; for some large changes it never answers, which is no reason to keep a thread open.
pub async fn tell_of_merge(
    gateway: &WorkServices,
    github: &GitHub,
    repo: &Arc<Repo>,
    key: &ThreadKey,
    (pull, commit): (u64, &str),
) {
    gateway.branches.touch(repo);
    if gateway.open_threads(repo, Some(key)).is_empty() {
        return;
    }
    let short: String = commit.chars().take(10).collect();
    let changed = match github.changed_by(pull).await {
        Ok(files) => files.paths,
        Err(error) => {
            tracing::warn!(thread = key.name, %error, "pull_request_diff_failed");
            Vec::new()
        }
    };
    for other in find_others(gateway, repo, key, &changed).await {
        let Some(ThreadOverlap { files, folders, .. }) = other.overlap else { continue };
        let of = ThreadKey { namespace: key.namespace.clone(), name: other.name.clone() };
        let known = gateway.threads.freshest(&of, gateway.context.thread(&of));
        // The gateway itself brings a branch that is built on this one up to date, and tells its thread then.
        let is_above = known.is_some_and(|thread| stack::is_above(gateway, &thread, &key.name));
        if files.is_empty() || is_above {
            continue;
        }
        let base = &repo.spec.git.branch;
        let text = format!(
            "Thread {} was merged into `{base}` as `{short}`. It changed {}, which this thread is at too: \
             the branch has to be put on top of `{base}` before it can be merged.",
            key.name,
            name_paths(&files, &folders)
        );
        let thread = ThreadKey { namespace: key.namespace.clone(), name: other.name };
        let id = format!("merged-{short}");
        if let Err(error) = gateway.slack.notice(&thread, &id, &text).await {
            tracing::warn!(thread = thread.name, %error, notice = "merge", "notice_post_failed");
        }
    }
}

/// Tells the other threads of a plan that wants to be where they are: each once, by key.
pub async fn tell_of_plan(gateway: &WorkServices, key: &ThreadKey, overlaps: &[ThreadOverlap]) {
    for ThreadOverlap { thread, files, folders, .. } in overlaps {
        if files.is_empty() {
            continue;
        }
        let text = format!(
            "Thread {} plans to change {}, which this thread is at too. Nothing has to be done: once both \
             have pushed, I say here whether they merge.",
            key.name,
            name_paths(files, folders)
        );
        let other = ThreadKey { namespace: key.namespace.clone(), name: thread.clone() };
        let id = format!("overlap-{}-plan", key.name);
        if let Err(error) = gateway.slack.notice(&other, &id, &text).await {
            tracing::warn!(thread, %error, notice = "plan", "notice_post_failed");
        }
    }
}

/// Markdown for people: a line for each overlapping thread.
pub fn overlap_lines(overlaps: &[ThreadOverlap]) -> Option<String> {
    let line = |overlap: &ThreadOverlap| {
        let ThreadOverlap { thread, branch, files, folders, symbols, text } = overlap;
        let branch = branch.as_ref().map(|branch| format!(" (`{branch}`)")).unwrap_or_default();
        let symbols = match &symbols[..] {
            [] => String::new(),
            symbols => format!(" ({})", name_paths(symbols, &[])),
        };
        let text = match text {
            None => "",
            Some(TextMerge::Clean) => "; what both have pushed merges",
            Some(TextMerge::Conflict) => "; what both have pushed **conflicts**",
            Some(TextMerge::Unknown) => "; whether what both have pushed merges is not known",
        };
        format!(
            ":warning: Thread {thread}{branch} is at {} too{symbols}{text}",
            name_paths(files, folders)
        )
    };
    let lines: Vec<_> = overlaps.iter().take(MAX_NAMED).map(line).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn name_paths(files: &[String], folders: &[String]) -> String {
    let list = |all: &[String]| {
        let all: Vec<_> = all.iter().take(5).map(|one| path_as_code(one)).collect();
        all.join(", ")
    };
    match (files, folders) {
        ([], []) => "the same definitions".to_owned(),
        ([], folders) => format!("other files in {}", list(folders)),
        (files, _) => {
            let more = if files.len() > 5 { " and others" } else { "" };
            format!("{}{more}", list(files))
        }
    }
}

async fn find_others(
    gateway: &WorkServices,
    repo: &Arc<Repo>,
    own: &ThreadKey,
    planned: &[String],
) -> Vec<OtherThread> {
    let mut threads = gateway.open_threads(repo, Some(own));
    threads.truncate(MAX_THREADS);
    if threads.is_empty() {
        return Vec::new();
    }
    let mut known = KnownBranches::default();
    match take_survey(&gateway.git, repo, own).await {
        Ok(survey) => known = KnownBranches::read(gateway, &survey, own, &threads).await,
        // The result is only a warning, so an error keeps nobody from working.
        Err(error) => tracing::warn!(%error, "branch_survey_failed"),
    }
    let mine = known.changes.get(&names::branch_name(&own.name));
    let mine = mine.map(|change| change.files.clone()).unwrap_or_default();
    let mine: Vec<String> = mine.into_iter().chain(planned.iter().cloned()).collect();
    threads.iter().map(|thread| describe_thread(thread, &mine, &known)).collect()
}

/// Changes of the branches, and the contacts of the caller's own branch with others, by branch.
#[derive(Default)]
struct KnownBranches {
    changes: BTreeMap<String, Arc<BranchChange>>,
    met: BTreeMap<String, (BranchContact, TextMerge)>,
}

impl KnownBranches {
    async fn read(
        gateway: &WorkServices,
        survey: &BranchSurvey,
        own: &ThreadKey,
        threads: &[Arc<Thread>],
    ) -> Self {
        let own = names::branch_name(&own.name);
        let branch = |thread: &Arc<Thread>| thread.status.as_ref()?.branch.clone();
        let branches: Vec<String> = threads.iter().filter_map(branch).collect();
        let mut known = Self::default();
        for branch in branches.iter().chain([&own]) {
            let Some(tip) = survey.tip(branch) else { continue };
            if let Some(change) = gateway.branches.change(survey, tip).await {
                known.changes.insert(branch.clone(), change);
            }
        }
        let (Some(mine), Some(tip)) = (known.changes.get(&own), survey.tip(&own)) else {
            return known;
        };
        let contact = |branch: &String| {
            let contact = compare_branches(mine, known.changes.get(branch)?)?;
            Some((branch.clone(), contact, survey.tip(branch)?))
        };
        let contacts: Vec<_> =
            branches.iter().filter(|branch| **branch != own).filter_map(contact).collect();
        let pairs: Vec<_> = contacts.iter().map(|(_, _, other)| (tip, *other)).collect();
        let merged = gateway.branches.merges(survey, &pairs).await;
        let met = contacts.into_iter().zip(merged);
        known.met = met.map(|((branch, c, _), merged)| (branch, (c, merged.text))).collect();
        known
    }
}

/// Files that a thread's plan names, unless people did not want it.
fn planned_files(thread: &Thread) -> Vec<String> {
    let Some(status) = &thread.status else { return Vec::new() };
    let plan = status.plan.as_ref().filter(|plan| plan.declined_by.is_none());
    let details: Option<&PlanDetails> = plan
        .and_then(|plan| status.plan_details.as_deref().filter(|details| details.plan == plan.ts));
    details.map(|details| details.files.clone()).unwrap_or_default()
}

fn describe_thread(thread: &Thread, mine: &[String], known: &KnownBranches) -> OtherThread {
    let status = thread.status.clone().unwrap_or_default();
    let planned = planned_files(thread);
    let change = status.branch.as_ref().and_then(|branch| known.changes.get(branch));
    let mut changed: Vec<String> =
        change.map(|change| change.files.iter().cloned().collect()).unwrap_or_default();
    let theirs: Vec<String> = planned.iter().chain(&changed).cloned().collect();
    let (files, folders) = find_common(mine, &theirs);
    let met = status.branch.as_ref().and_then(|branch| known.met.get(branch));
    let symbols = match (met, change) {
        (Some((contact, _)), _) => contact.symbols.clone(),
        // Nothing is pushed here yet, so the symbols are those that the other one changes in those files.
        (None, Some(change)) => symbols_in(change, &files),
        (None, None) => Vec::new(),
    };
    let meets = !files.is_empty() || !folders.is_empty() || !symbols.is_empty();
    let overlap = meets.then(|| ThreadOverlap {
        thread: thread.name_any(),
        branch: status.branch.clone(),
        files: files.into_iter().take(MAX_NAMED).collect(),
        folders: folders.into_iter().take(MAX_NAMED).collect(),
        symbols: symbols.into_iter().take(MAX_NAMED).collect(),
        text: met.map(|(_, text)| *text),
    });
    let more = changed.len().saturating_sub(MAX_CHANGED);
    changed.truncate(MAX_CHANGED);
    OtherThread {
        name: thread.name_any(),
        branch: status.branch,
        phase: status.phase,
        approved: status.plan.map(|plan| plan.approved_by.is_some()),
        pull_request: status.pull_request.map(|pull| pull.number),
        planned,
        changed,
        more: u64::try_from(more).unwrap_or_default(),
        size: change.map(|change| change.size),
        overlap,
    }
}

/// The definitions at which a change is, in some files.
fn symbols_in(change: &BranchChange, files: &BTreeSet<String>) -> Vec<String> {
    let inside = |path: &str| files.iter().any(|file| file == path || is_below(path, file));
    let found = change.symbols.iter().filter(|(path, _)| inside(path));
    found.map(|(path, name)| format!("{path}: {name}")).collect()
}

/// Files that both name, or one of them by its folder; and folders of which both name different
/// files. The root is everybody's.
fn find_common(mine: &[String], theirs: &[String]) -> (BTreeSet<String>, BTreeSet<String>) {
    let mine: BTreeSet<&str> = mine.iter().map(|path| bare_path(path)).collect();
    let theirs: BTreeSet<&str> = theirs.iter().map(|path| bare_path(path)).collect();
    let (mut files, mut folders) = (BTreeSet::new(), BTreeSet::new());
    for own in mine.iter().filter(|path| !path.is_empty()) {
        for other in theirs.iter().filter(|path| !path.is_empty()) {
            if own == other || is_below(own, other) {
                files.insert((*own).to_owned());
            } else if is_below(other, own) {
                files.insert((*other).to_owned());
            } else if let (Some((a, _)), Some((b, _))) =
                (own.rsplit_once('/'), other.rsplit_once('/'))
                && a == b
            {
                folders.insert(a.to_owned());
            }
        }
    }
    (files, folders)
}

/// A path without what is around it; of a pattern, the folder that it is about.
fn bare_path(path: &str) -> &str {
    let path = path.trim().trim_start_matches("./");
    let path = match path.find(['*', '?', '[', '{']) {
        Some(at) => path[..at].rsplit_once('/').map_or("", |(folder, _)| folder),
        None => path,
    };
    path.trim_end_matches('/')
}

fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn met(mine: &[&str], theirs: &[&str]) -> (String, String) {
        let owned = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
        let (files, folders) = find_common(&owned(mine), &owned(theirs));
        let text = |all: BTreeSet<String>| all.into_iter().collect::<Vec<_>>().join(" ");
        (text(files), text(folders))
    }

    #[test]
    fn files_meet_by_name_or_folder_and_folders_by_what_is_in_them() {
        for (mine, theirs, files, folders) in [
            (&["src/a.rs", "b"][..], &["./src/a.rs", "c"][..], "src/a.rs", ""),
            (&["src/"][..], &["src/a.rs", "srcs/b.rs"][..], "src/a.rs", ""),
            (&["src/cart/x.rs"][..], &["src/**/*.rs"][..], "src/cart/x.rs", ""),
            (&["src/a.rs"][..], &["src/b.rs", "tests/a.rs"][..], "", "src"),
            // Everything has files in the root, and a pattern of all says nothing.
            (&["README.md"][..], &["LICENSE", "*.md", ""][..], "", ""),
        ] {
            let (found, around) = met(mine, theirs);
            assert_eq!((found.as_str(), around.as_str()), (files, folders), "{mine:?} {theirs:?}");
        }
    }

    #[test]
    fn only_paths_inside_the_repository_are_kept() {
        let of = |files: &[&str]| {
            check_files(&files.iter().map(|f| (*f).to_owned()).collect::<Vec<_>>())
        };
        of(&["src/a.rs", "tests/", "docs/*.md"]).unwrap();
        for bad in ["/etc/passwd", "../x", "a/../../b", " ", "a`b", "a\nb", &"x".repeat(121)] {
            assert!(of(&[bad]).is_err(), "{bad:?}");
        }
        assert!(of(&["x"; 25]).unwrap_err().message.contains("name folders"));
    }

    #[test]
    fn people_read_where_threads_meet() {
        let overlap = |files: &[&str], folders: &[&str]| ThreadOverlap {
            thread: "shop-2".into(),
            branch: Some("codebutler/shop-2".into()),
            files: files.iter().map(|f| (*f).to_owned()).collect(),
            folders: folders.iter().map(|f| (*f).to_owned()).collect(),
            ..ThreadOverlap::default()
        };
        assert_eq!(
            overlap_lines(&[overlap(&["a"], &["b"]), overlap(&[], &["src"])]).unwrap(),
            ":warning: Thread shop-2 (`codebutler/shop-2`) is at `a` too\n\
             :warning: Thread shop-2 (`codebutler/shop-2`) is at other files in `src` too"
        );
        assert_eq!(overlap_lines(&[]), None);
    }
}
