//! People who force-push a thread's branch, or take commits off it, change what its roles work on. The role hears of it
//! when it next looks at its branch; the conversation hears of it here, once.

use codebutler_crds::{Thread, ThreadStatus};
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_git::{BranchSurvey, LostCommits};

use crate::work::WorkServices;

/// Letters of a commit.
const SHORT: usize = 10;

/// What became of a branch since the last look.
#[derive(Clone, Debug, PartialEq, Eq)]
enum BranchMove {
    /// It is where it was, or commits came to it.
    Forward,
    /// Commits that it had are not in it; as many, as far as that is known.
    Rewritten(Option<u64>),
    Gone,
}

/// Tells the conversation if somebody rewrote or removed its branch, and remembers where it is.
pub(super) async fn look_for_rewrite(
    gateway: &WorkServices,
    survey: &BranchSurvey,
    thread: &Thread,
) {
    let key = ThreadKey::from(thread);
    let Some(status) = thread.status.as_ref() else { return };
    let Some(branch) = status.branch.as_deref() else { return };
    let before = status.radar.as_ref().and_then(|radar| radar.tip.clone());
    let now = survey.commit_of(branch).map(str::to_owned);
    if before == now {
        return;
    }
    let moved = match (&before, &now) {
        (Some(before), Some(now)) => match survey.lost(before, now).await {
            Ok(LostCommits::None) => BranchMove::Forward,
            Ok(LostCommits::Some(count)) => BranchMove::Rewritten(Some(count)),
            Ok(LostCommits::Unknown) => BranchMove::Rewritten(None),
            Err(error) => {
                tracing::warn!(thread = key.name, %error, "what became of a branch is not known");
                return;
            }
        },
        // Its pull request is closed with it, and that is told.
        (Some(_), None) if status.pull_request.is_none() => BranchMove::Gone,
        _ => BranchMove::Forward,
    };
    if let Some(text) = describe_move(&moved, branch, (before.as_deref(), now.as_deref())) {
        let id = format!(
            "branch-rewritten:{}:{}",
            before.as_deref().unwrap_or_default(),
            now.as_deref().unwrap_or_default()
        );
        if let Err(error) = gateway.slack.notice(&key, &id, &text).await {
            tracing::warn!(thread = key.name, %error, "a thread was not told of its branch");
            return;
        }
    }
    note_tip(gateway, &key, now).await;
}

async fn note_tip(gateway: &WorkServices, key: &ThreadKey, tip: Option<String>) {
    let note = |status: &mut ThreadStatus| {
        let known = status.radar.as_ref().and_then(|radar| radar.tip.as_ref());
        if known != tip.as_ref() {
            status.radar.get_or_insert_default().tip.clone_from(&tip);
        }
    };
    if let Err(error) = gateway.threads.update(key, note).await {
        tracing::warn!(thread = key.name, %error, "where a branch is was not written");
    }
}

fn describe_move(
    moved: &BranchMove,
    branch: &str,
    (before, now): (Option<&str>, Option<&str>),
) -> Option<String> {
    let short = |commit: Option<&str>| {
        let commit = commit.unwrap_or_default();
        format!("`{}`", commit.get(..SHORT).unwrap_or(commit))
    };
    let (was, is) = (short(before), short(now));
    match moved {
        BranchMove::Forward => None,
        BranchMove::Rewritten(count) => {
            let lost = match count {
                Some(1) => "1 commit that it had is".to_owned(),
                Some(count) => format!("{count} commits that it had are"),
                None => "Commits that it had are".to_owned(),
            };
            Some(format!(
                ":warning: Somebody rewrote this thread's branch `{branch}` on the remote. It was at {was} and is at {is}. \
                 {lost} not in it any more, unless under another id. The roles go on from what is there now and \
                 bring nothing back by themselves; {was} is what it was."
            ))
        }
        BranchMove::Gone => Some(format!(
            ":warning: Somebody deleted or renamed this thread's branch `{branch}` on the remote. It was at {was}. \
             It is not made again by itself: say here whether to go on."
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_what_was_where_and_what_is_gone() {
        let says = |moved| {
            describe_move(
                &moved,
                "codebutler/t",
                (Some("0123456789abcdef"), Some("fedcba9876543210")),
            )
        };
        assert_eq!(says(BranchMove::Forward), None);
        for (count, lost) in [
            (Some(1), "1 commit that it had is not"),
            (Some(3), "3 commits that it had are not"),
            (None, "Commits that it had are not"),
        ] {
            let text = says(BranchMove::Rewritten(count)).unwrap();
            assert!(
                text.contains("at `0123456789` and is at `fedcba9876`") && text.contains(lost),
                "{text}"
            );
        }
        assert!(says(BranchMove::Gone).unwrap().contains("deleted or renamed"));
    }
}
