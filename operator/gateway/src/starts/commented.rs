//! Comments at GitHub that begin with the word of their Repo.

use std::collections::BTreeSet;

use codebutler_crds::Repo;
use codebutler_crds::starts::{CommentsStatus, MOST_COMMENTS};
use codebutler_gateway_core::github::{
    CommandPlace, GitHub, GitHubError, HeardCommand, HeardComments,
};
use codebutler_runtime::step;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;

use super::record::{self, BegunWork};
use super::{
    PATIENCE, StartError, ThreadOrigin, WorkServices, comment, ensure_thread, is_open, thread_of,
};

/// Comments are listed late and in no order: those of this long before the newest one are looked at again.
const OVERLAP: SignedDuration = SignedDuration::from_mins(10);
/// Comments of one look that begin work or are turned away.
const MOST: usize = 20;

/// Begins what comments of a Repo ask for that was not begun yet.
///
/// # Errors
/// When GitHub or the cluster refuses.
pub(super) async fn look_at(gateway: &WorkServices, repo: &Repo) -> Result<(), StartError> {
    let known = repo.status.as_ref().and_then(|status| status.comments.clone());
    let (spec, known) = match (&repo.spec.comments, known) {
        (Some(spec), Some(known)) => (spec, known),
        // Comments from before the Repo had this setting begin nothing.
        (Some(_), None) => {
            let next = Timestamp::from_second(Timestamp::now().as_second() + 1);
            // GitHub counts in seconds: what was written in this one may have been before.
            let since = Time(next.unwrap_or_else(|_| Timestamp::now()));
            return keep_status(gateway, repo, Some(CommentsStatus { since, settled: Vec::new() }))
                .await;
        }
        (None, _) => return keep_status(gateway, repo, None).await,
    };
    let asking = async {
        let github = GitHub::of(&gateway.context, repo).await?;
        let heard = github.commands(known.since.0, &spec.command).await?;
        let new = heard.commands.iter().filter(|one| !known.settled.contains(&one.id));
        let authors: BTreeSet<_> = new.map(|one| one.author.clone()).collect();
        let members = github.members(authors).await?;
        Ok::<_, StartError>((github, heard, members))
    };
    let asked = tokio::time::timeout(PATIENCE, asking).await.map_err(|_| StartError::Slow)?;
    let (github, heard, members) = asked?;
    let (mut settled, mut failed) = (Vec::new(), None);
    let new = heard.commands.iter().filter(|one| !known.settled.contains(&one.id));
    for command in new.take(MOST) {
        let begun = match members.contains(&command.author) {
            true if is_told(gateway, repo, command.number) => Ok(None),
            true => begin_commented(gateway, repo, &github, command).await.map(|()| Some("eyes")),
            false => Ok(Some("confused")),
        };
        match begun {
            Ok(sign) => {
                settled.push(command.id);
                if let Some(sign) = sign
                    && let Err(error) = github.react(command, sign).await
                {
                    tracing::info!(repo = repo.name_any(), %error, "comment_reaction_failed");
                }
            }
            // The issue or pull request of the comment is gone: it begins nothing.
            Err(StartError::GitHub(GitHubError::NoIssue)) => settled.push(command.id),
            // This comment has to wait: the others go on.
            Err(StartError::Going) => {}
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    let next = next_status(&known, &heard, &settled);
    if next != known {
        keep_status(gateway, repo, Some(next)).await?;
    }
    failed.map_or(Ok(()), Err)
}

/// The record after a look. Pure.
fn next_status(known: &CommentsStatus, heard: &HeardComments, settled: &[u64]) -> CommentsStatus {
    let is_settled = |id: &u64| known.settled.contains(id) || settled.contains(id);
    let waiting = heard.commands.iter().filter(|one| !is_settled(&one.id)).map(|one| one.at).min();
    let late = heard.newest.map(|newest| newest - OVERLAP);
    let since = late.map_or(known.since.0, |late| late.max(known.since.0));
    let since = waiting.map_or(since, |waiting| since.min(waiting)).max(known.since.0);
    let listed = heard.commands.iter().filter(|one| one.at >= since).map(|one| one.id);
    let mut settled: Vec<u64> = listed.filter(is_settled).collect();
    let surplus = settled.len().saturating_sub(MOST_COMMENTS);
    settled.drain(..surplus);
    CommentsStatus { since: Time(since), settled }
}

/// True if a Thread listens to comments on this pull request.
fn is_told(gateway: &WorkServices, repo: &Repo, number: u64) -> bool {
    gateway.context.attended.all().into_iter().any(|thread| {
        let here = thread.namespace() == repo.namespace() && thread.spec.repo == repo.name_any();
        let pull = thread.status.as_ref().and_then(|status| status.pull_request.as_ref());
        here && is_open(&thread) && pull.is_some_and(|pull| pull.number == number)
    })
}

async fn begin_commented(
    gateway: &WorkServices,
    repo: &Repo,
    github: &GitHub,
    command: &HeardCommand,
) -> Result<(), StartError> {
    let prompt = match command.place {
        CommandPlace::Issue => {
            let issue = github.issue(command.number).await?;
            comment::about_issue(command, &issue)
        }
        CommandPlace::Pull | CommandPlace::Line(..) => {
            let (title, body, files) = github.described(command.number).await?;
            comment::about_pull(command, (&title, &body), &files)
        }
    };
    let kind = if matches!(command.place, CommandPlace::Line(..)) { "line" } else { "said" };
    let (id, shown) = (format!("{kind} {}", command.id), format!("comment-{}", command.number));
    let by = format!("comment on #{}", command.number);
    let own = thread_of(repo, ThreadOrigin::Comment, (&id, &shown), &by, prompt);
    let thread = ensure_thread(gateway, repo, own).await?;
    step::point("a comment has its thread");
    tracing::info!(thread = thread.name_any(), number = command.number, "comment_thread_started");
    Ok(())
}

async fn keep_status(
    gateway: &WorkServices,
    repo: &Repo,
    comments: Option<CommentsStatus>,
) -> Result<(), StartError> {
    let change = |work: &mut BegunWork| work.comments.clone_from(&comments);
    record::update_record(&gateway.context.client, repo, change).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minute: i8) -> Timestamp {
        format!("2026-01-01T10:{minute:02}:00Z").parse().unwrap()
    }

    fn command(id: u64, minute: i8) -> HeardCommand {
        HeardCommand {
            id,
            place: CommandPlace::Issue,
            number: 1,
            author: "ana".into(),
            page: String::new(),
            at: at(minute),
            words: String::new(),
        }
    }

    #[test]
    fn what_waits_is_looked_at_again_and_what_is_old_is_forgotten() {
        let known = CommentsStatus { since: Time(at(0)), settled: vec![1] };
        let look = |commands: Vec<HeardCommand>, newest: i8, settled: &[u64]| {
            let heard = HeardComments { newest: Some(at(newest)), commands };
            let next = next_status(&known, &heard, settled);
            (next.since.0, next.settled)
        };
        let all = || vec![command(1, 5), command(2, 25), command(3, 30)];
        assert_eq!(look(all(), 30, &[2, 3]), (at(20), vec![2, 3]));
        // A comment that could not begin a Thread holds the cursor.
        assert_eq!(look(all(), 55, &[2]), (at(30), vec![]));
        assert_eq!(look(vec![command(2, 3)], 55, &[]), (at(3), vec![]));
        // The cursor never moves back.
        assert_eq!(look(vec![], 5, &[]), (at(0), vec![]));
        let none = next_status(&known, &HeardComments::default(), &[]);
        assert_eq!(none.since.0, at(0));
    }
}
