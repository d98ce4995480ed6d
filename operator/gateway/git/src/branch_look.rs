//! People who force-push a thread's branch, take commits off it, delete it or push to it change what its roles work
//! on. Whoever looks at the remote finds it out here, by what the Thread's status says of the branch: what was
//! removed is remembered, the conversation is told once, and roles that are at work read it before their next step.

use std::collections::BTreeSet;

use codebutler_crds::thread::BranchPush;
use codebutler_crds::{Repo, Thread, ThreadStatus, names};
use codebutler_gateway_core::github::GitHub;
use codebutler_gateway_core::redact::SecretRedactor;
use codebutler_gateway_core::thread_key::ThreadKey;
use jiff::Timestamp;
use kube::ResourceExt as _;

use super::command::{CommandError, GitRepository};
use super::commit_text::{MOST_NAMED, NamedCommit, harmless, name_commits, short_id};
use super::graft::contains;
use super::host::RemoteRefs;
use super::removed::{self, BranchLoss};
use super::survey::RemoteView;
use crate::services::GitServices;

/// Outcome of comparing a branch with its state at the last look.
#[derive(Clone, Debug, PartialEq, Eq)]
enum BranchMove {
    /// The branch has not moved, or the product has moved it.
    Own,
    /// People pushed these commits; with the number of all.
    Pushed(Vec<NamedCommit>, usize),
    /// Commits that it had are not in it.
    Rewritten(BranchLoss),
    /// The branch is gone; these other branches are at its last commit.
    Gone(Vec<String>),
}

/// A branch's tip at the last look and now.
struct BranchSpan<'s> {
    branch: &'s str,
    before: Option<&'s str>,
    now: Option<&'s str>,
}

/// Finds out what people did to a Thread's branch, and tells and remembers it. `thread` is what was known of it
/// before the remote was looked at. What can't be told is tried again with the next look.
pub(crate) async fn look_at_branch(
    gateway: &GitServices,
    repo: &Repo,
    view: &RemoteView<'_>,
    thread: &Thread,
) {
    let key = ThreadKey::from(thread);
    let known = thread.status.clone().unwrap_or_default();
    let branch = known.branch.clone().unwrap_or_else(|| names::branch_name(&thread.name_any()));
    let before = known.radar.as_ref().and_then(|radar| radar.tip.clone());
    let now = view.refs.get(&format!("refs/heads/{branch}")).cloned();
    let latest = gateway.threads.freshest(&key, gateway.context.thread(&key));
    let latest = latest.and_then(|thread| thread.status.clone()).unwrap_or_else(|| known.clone());
    let radar = latest.radar.as_deref().cloned().unwrap_or_default();
    if radar.tip != before {
        // A push of ours has ended meanwhile: the next look sees all of it.
        gateway.branches.touch(repo);
        return;
    }
    if before == now {
        return;
    }
    let redactor = gateway.context.redactors.of(repo);
    let span = BranchSpan { branch: &branch, before: before.as_deref(), now: now.as_deref() };
    let moved = match find_move((repo, &redactor), view, &span, &latest).await {
        Ok(moved) => moved,
        Err(error) => {
            tracing::warn!(thread = key.name, %error, "branch_rewrite_check_failed");
            return;
        }
    };
    if let BranchMove::Rewritten(loss) = &moved
        && let Err(error) = remember_loss(gateway, &key, loss, (view, now.as_deref())).await
    {
        tracing::warn!(thread = key.name, %error, part = "removed_commits", "thread_status_write_failed");
        return;
    }
    if is_news(&moved, is_worked_on(&latest)) {
        let who = find_mover(gateway, repo, &branch, (span.before, span.now)).await;
        let text = describe_move(&moved, &span, who.as_deref().unwrap_or("Somebody"));
        let id = format!(
            "branch-rewritten:{}:{}",
            before.as_deref().unwrap_or_default(),
            now.as_deref().unwrap_or_default()
        );
        if let Err(error) = gateway.notices.post_in_runs(&key, &id, &text).await {
            tracing::warn!(thread = key.name, %error, notice = "branch_rewritten", "notice_post_failed");
            return;
        }
    }
    let note = |status: &mut ThreadStatus| {
        let radar = status.radar.get_or_insert_default();
        if radar.tip == before {
            radar.tip.clone_from(&now);
            radar.pushing.take_if(|own| Some(&own.to) == now.as_ref());
        }
    };
    if let Err(error) = gateway.threads.update(&key, note).await {
        tracing::warn!(thread = key.name, %error, part = "branch_tip", "thread_status_write_failed");
    }
}

/// Puts on record what a push of a role is about to do, so that nobody takes it for people's.
pub(crate) async fn announce_push(gateway: &GitServices, key: &ThreadKey, push: &BranchPush) {
    let note = |status: &mut ThreadStatus| {
        status.radar.get_or_insert_default().pushing = Some(push.clone());
    };
    if let Err(error) = gateway.threads.update(key, note).await {
        tracing::warn!(%error, thread = key.name, part = "pushing", "thread_status_write_failed");
    }
}

/// Puts on record how it ended.
pub(crate) async fn note_push(
    gateway: &GitServices,
    key: &ThreadKey,
    push: &BranchPush,
    is_done: bool,
) {
    let note = |status: &mut ThreadStatus| {
        let radar = status.radar.get_or_insert_default();
        if !is_done {
            radar.pushing.take_if(|own| own == push);
        } else if radar.tip.is_none() || radar.tip == push.from {
            radar.tip = Some(push.to.clone());
            radar.pushing.take_if(|own| own == push);
        }
    };
    if let Err(error) = gateway.threads.update(key, note).await {
        tracing::warn!(%error, thread = key.name, part = "pushed", "thread_status_write_failed");
    }
}

fn is_worked_on(status: &ThreadStatus) -> bool {
    status.roles.keys().any(|role| status.is_running(role))
}

async fn find_move(
    (repo, redactor): (&Repo, &SecretRedactor),
    view: &RemoteView<'_>,
    span: &BranchSpan<'_>,
    status: &ThreadStatus,
) -> Result<BranchMove, CommandError> {
    let (before, now) = match (span.before, span.now) {
        (Some(before), Some(now)) => (before, now),
        // Deleting a branch closes its pull request, which is told by itself: only a branch without one is reported
        // here.
        (Some(before), None) if status.pull_request.is_none() => {
            return Ok(BranchMove::Gone(find_names(view.refs, before)));
        }
        _ => return Ok(BranchMove::Own),
    };
    let own = own_tips(view.git, status, now).await?;
    let radar = status.radar.as_deref();
    let pushed = radar.and_then(|radar| radar.pushing.as_ref());
    // Rewrites that a role is allowed to make itself are not attributed to a person.
    let own_rewrite =
        pushed.filter(|push| push.from.as_deref() == Some(before) && own.contains(&push.to));
    let before = own_rewrite.map_or(before, |push| &push.to);
    let base = view.refs.get(&format!("refs/heads/{}", repo.spec.git.branch)).map(String::as_str);
    if !(before == now || contains(view.git, now, before).await?) {
        return removed::find_loss(view.git, (before, now), base, (redactor, Timestamp::now()))
            .await
            .map(BranchMove::Rewritten);
    }
    let there: Vec<&str> =
        std::iter::once(before).chain(own.iter().map(String::as_str)).chain(base).collect();
    let range = [&["rev-list", "--count", now, "--not"], &there[..]].concat();
    let count = super::graft::git_line(view.git, &range).await?.parse().unwrap_or_default();
    if count == 0 {
        return Ok(BranchMove::Own);
    }
    let named = removed::commits_apart(view.git, (now, &there), MOST_NAMED, redactor).await?;
    Ok(BranchMove::Pushed(named, count))
}

/// Commits that the product itself put on the branch last, as far as they are on it.
async fn own_tips(
    git: &GitRepository,
    status: &ThreadStatus,
    now: &str,
) -> Result<Vec<String>, CommandError> {
    let pushed =
        status.radar.as_ref().and_then(|radar| radar.pushing.as_ref()).map(|push| &push.to);
    let merged =
        status.stack.as_ref().and_then(|stack| stack.merge.as_ref()).map(|merge| &merge.to);
    let mut own = Vec::new();
    for tip in pushed.into_iter().chain(merged) {
        if tip == now || contains(git, now, tip).await? {
            own.push(tip.clone());
        }
    }
    Ok(own)
}

/// Names of other branches at a commit.
fn find_names(refs: &RemoteRefs, commit: &str) -> Vec<String> {
    let same = refs.iter().filter(|(_, id)| *id == commit);
    let names = same.filter_map(|(name, _)| name.strip_prefix("refs/heads/"));
    names.take(MOST_NAMED).map(|name| name.replace('`', "'")).collect()
}

async fn remember_loss(
    gateway: &GitServices,
    key: &ThreadKey,
    loss: &BranchLoss,
    (view, now): (&RemoteView<'_>, Option<&str>),
) -> Result<(), LookError> {
    let thread = gateway.threads.freshest(key, gateway.context.thread(key));
    let radar = thread.and_then(|thread| thread.status.clone()).and_then(|status| status.radar);
    let known = radar.map(|radar| radar.removed.clone()).unwrap_or_default();
    let mut there = BTreeSet::new();
    for one in known {
        if let Some(now) = now
            && contains(view.git, now, &one.commit).await?
        {
            there.insert(one.commit);
        }
    }
    let change = |status: &mut ThreadStatus| {
        let radar = status.radar.get_or_insert_default();
        removed::remember_removed(&mut radar.removed, &loss.commits, &there);
    };
    gateway.threads.update(key, change).await?;
    Ok(())
}

/// A removal was noticed, but could not be recorded.
#[derive(Debug, thiserror::Error)]
enum LookError {
    #[error(transparent)]
    Git(#[from] CommandError),
    #[error(transparent)]
    Write(#[from] codebutler_gateway_core::threads::WriteError),
}

fn is_news(moved: &BranchMove, is_worked_on: bool) -> bool {
    match moved {
        BranchMove::Own => false,
        // People's own commits concern only those who work beside them.
        BranchMove::Pushed(..) => is_worked_on,
        BranchMove::Rewritten(_) | BranchMove::Gone(_) => true,
    }
}

/// The account of the person who moved a branch from one commit to another, as the host names it; None if it does not
/// say so.
pub(crate) async fn find_mover(
    gateway: &GitServices,
    repo: &Repo,
    branch: &str,
    (before, now): (Option<&str>, Option<&str>),
) -> Option<String> {
    let before = before?;
    let found = async {
        let github = GitHub::of(&gateway.context, repo).await?;
        github.find_mover(branch, (before, now)).await
    };
    match found.await {
        Ok(login) => login.map(|login| format!("`{}`", harmless(&login))),
        Err(error) => {
            tracing::info!(repo = repo.name_any(), %error, "branch_mover_unknown");
            None
        }
    }
}

/// Describes the move for the conversation; empty if the product did it.
fn describe_move(moved: &BranchMove, span: &BranchSpan<'_>, who: &str) -> String {
    let short = |commit: Option<&str>| format!("`{}`", short_id(commit.unwrap_or_default()));
    let (branch, was, is) = (span.branch, short(span.before), short(span.now));
    match moved {
        BranchMove::Own => String::new(),
        BranchMove::Pushed(named, count) => {
            let commits = if *count == 1 { "1 commit" } else { &*format!("{count} commits") };
            let named = name_commits(named.iter().cloned(), *count);
            format!(
                "{who} pushed {commits} to this thread's branch `{branch}` while a role works on it: {named}. It is at \
                 {is}. GitPush puts the role's own commits on top."
            )
        }
        BranchMove::Rewritten(loss) => {
            let what = match loss.count {
                Some(1) => "1 commit that it had is".to_owned(),
                Some(count) => format!("{count} commits that it had are"),
                None => "Commits that it had are".to_owned(),
            };
            let gone = loss.commits.iter().filter(|one| !loss.moved.contains(&one.commit));
            let gone: Vec<NamedCommit> = gone.map(NamedCommit::from).collect();
            let count = loss.count.unwrap_or(gone.len()).saturating_sub(loss.moved.len());
            let named = match name_commits(gone.into_iter(), count) {
                named if named.is_empty() => String::new(),
                named => format!(": {named}"),
            };
            let moved = match loss.moved.len() {
                0 => String::new(),
                1 => " 1 of them is in it under another id.".to_owned(),
                moved => format!(" {moved} of them are in it under other ids."),
            };
            format!(
                ":warning: {who} rewrote this thread's branch `{branch}` on the remote. It was at {was} and is at {is}. \
                 {what} not in it any more{named}.{moved} The roles go on from what is there now (GitUpdate takes it over) and \
                 bring nothing back by themselves; {was} is what it was."
            )
        }
        BranchMove::Gone(names) => {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            let renamed = match names.as_slice() {
                [] => String::new(),
                names => format!(" ({} is there now: it may have been renamed)", names.join(", ")),
            };
            format!(
                ":warning: {who} deleted or renamed this thread's branch `{branch}` on the remote. It was at {was}{renamed}. \
                 It is not made again by itself: say here whether to go on."
            )
        }
    }
}

#[cfg(test)]
mod tests;
