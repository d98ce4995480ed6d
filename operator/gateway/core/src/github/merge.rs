//! Merging: how GitHub is asked to, what its refusals mean, and what becomes of a pull request that it
//! merges later by itself.

use std::time::Duration;

use codebutler_crds::repo::MergeMethod;
use codebutler_crds::thread::MergeWait;
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::client::GraphqlAnswer;
use super::{GitHub, GitHubError, GitHubPull};

/// Attempts at a merge while others merge at the same time, and the base of the backoff between
/// them.
const ATTEMPTS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(700);

const ENQUEUE: &str = "mutation($input: EnqueuePullRequestInput!) { \
    enqueuePullRequest(input: $input) { mergeQueueEntry { state position } } }";
const STANDING: &str = "query($id: ID!) { node(id: $id) { ... on PullRequest { \
    mergeQueueEntry { state position } autoMergeRequest { enabledAt } } } }";

/// Message of the commit on the base branch. A rebase has none of its own, and a queue writes its
/// own.
#[derive(Clone, Copy, Debug)]
pub struct MergeMessage<'a> {
    pub title: &'a str,
    pub text: &'a str,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeProgress {
    /// The commit on the base branch.
    Done(String),
    /// The merge is not done yet; with GitHub's words.
    Waits(MergeWait, String),
}

#[derive(Deserialize)]
struct MergedCommit {
    sha: String,
}

/// Merge methods that the repository allows for pull requests.
#[derive(Deserialize)]
struct AllowedMethods {
    #[serde(default, rename = "allow_squash_merge")]
    squash: bool,
    #[serde(default, rename = "allow_merge_commit")]
    merge: bool,
    #[serde(default, rename = "allow_rebase_merge")]
    rebase: bool,
}

/// Refusal of a merge, by what can be done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MergeRefusal {
    /// Another merge was faster: it goes through a moment later.
    Again,
    /// The repository does not allow this method.
    Method,
    /// The branch takes changes only from its merge queue.
    Queue,
    /// Required checks have not reported.
    Checks,
    /// Somebody has to do something first.
    Final,
}

impl GitHub {
    /// Merges a pull request, provided that its newest commit is `head`.
    ///
    /// # Errors
    /// When it has another commit by now, or can't be merged until somebody does something.
    pub async fn merge(
        &self,
        pull: &GitHubPull,
        head: &str,
        wanted: Option<MergeMethod>,
        message: MergeMessage<'_>,
    ) -> Result<MergeProgress, GitHubError> {
        let mut method = wanted.unwrap_or_default();
        let (mut attempt, mut refused) = (1, Vec::new());
        loop {
            let (refusal, said) = match self.merge_once(pull, head, method, message).await? {
                Ok(commit) => return Ok(MergeProgress::Done(commit)),
                Err(why) => why,
            };
            match refusal {
                MergeRefusal::Again if attempt < ATTEMPTS => {
                    tokio::time::sleep(PAUSE * attempt).await;
                }
                MergeRefusal::Method if wanted.is_none() => {
                    refused.push(method);
                    method = self.other_method(&refused, said).await?;
                }
                MergeRefusal::Method => {
                    return Err(GitHubError::MergeMethod { method, said });
                }
                MergeRefusal::Queue => return self.enqueue(pull, head, said).await,
                MergeRefusal::Checks => return Ok(MergeProgress::Waits(MergeWait::Checks, said)),
                MergeRefusal::Again | MergeRefusal::Final => {
                    return Err(GitHubError::NotMergeable { said });
                }
            }
            attempt += 1;
        }
    }

    async fn merge_once(
        &self,
        pull: &GitHubPull,
        head: &str,
        method: MergeMethod,
        message: MergeMessage<'_>,
    ) -> Result<Result<String, (MergeRefusal, String)>, GitHubError> {
        let mut request = json!({"merge_method": method.name(), "sha": head});
        if method != MergeMethod::Rebase {
            request["commit_title"] = message.title.into();
            request["commit_message"] = message.text.into();
        }
        let path = self.client.repo(&format!("pulls/{}/merge", pull.number));
        let answer = self.client.put(&path, &request).await?;
        match answer.status {
            StatusCode::METHOD_NOT_ALLOWED => {
                Ok(Err((classify_refusal(&answer.words()), self.client.said(&answer))))
            }
            StatusCode::CONFLICT => Err(GitHubError::HeadMoved),
            // An App's token may merge, or there would be none: what it may not is change a workflow.
            StatusCode::FORBIDDEN if answer.mentions("not accessible by integration") => {
                Err(self.client.bar_workflows(&answer))
            }
            _ => {
                self.client.expect::<MergedCommit>(&answer, StatusCode::OK).map(|done| Ok(done.sha))
            }
        }
    }

    async fn allowed(&self) -> Result<AllowedMethods, GitHubError> {
        let answer = self.client.get(&self.client.repo("")).await?;
        self.client.expect(&answer, StatusCode::OK)
    }

    /// The first way that the repository allows and GitHub has not refused.
    async fn other_method(
        &self,
        refused: &[MergeMethod],
        said: String,
    ) -> Result<MergeMethod, GitHubError> {
        let allowed = self.allowed().await?;
        let is_allowed = |method: &MergeMethod| match method {
            MergeMethod::Squash => allowed.squash,
            MergeMethod::Merge => allowed.merge,
            MergeMethod::Rebase => allowed.rebase,
        };
        let mut others = MergeMethod::ALL.into_iter().filter(|method| !refused.contains(method));
        others.find(is_allowed).ok_or(GitHubError::NotMergeable { said })
    }

    /// Puts it into the merge queue, at exactly this commit. GitHub's auto-merge would do so later by
    /// itself, but also with commits that a role pushes after people have decided.
    async fn enqueue(
        &self,
        pull: &GitHubPull,
        head: &str,
        said: String,
    ) -> Result<MergeProgress, GitHubError> {
        if self.is_on_its_way(pull).await? {
            return Ok(MergeProgress::Waits(MergeWait::Queue, said));
        }
        let input = json!({"pullRequestId": pull.node_id, "expectedHeadOid": head});
        match self.client.graphql(ENQUEUE, &json!({"input": input})).await? {
            GraphqlAnswer::Data(_) => Ok(MergeProgress::Waits(MergeWait::Queue, said)),
            GraphqlAnswer::Refused(said) if classify_refusal(&said) == MergeRefusal::Checks => {
                Ok(MergeProgress::Waits(MergeWait::Checks, said))
            }
            GraphqlAnswer::Refused(said) => Err(GitHubError::NotMergeable { said }),
        }
    }

    /// Returns true if GitHub will merge it: it is in the queue, or goes there or is merged when it
    /// may.
    ///
    /// # Errors
    /// When GitHub can't be asked.
    pub async fn is_on_its_way(&self, pull: &GitHubPull) -> Result<bool, GitHubError> {
        let data = match self.client.graphql(STANDING, &json!({"id": pull.node_id})).await? {
            GraphqlAnswer::Data(data) => data,
            GraphqlAnswer::Refused(said) => return Err(GitHubError::NotMergeable { said }),
        };
        let is_set = |name: &str| data["node"].get(name).is_some_and(Value::is_object);
        Ok(is_set("mergeQueueEntry") || is_set("autoMergeRequest"))
    }
}

/// GitHub tells its refusals apart by words alone.
fn classify_refusal(words: &str) -> MergeRefusal {
    let words = words.to_ascii_lowercase();
    let has = |part: &str| words.contains(part);
    let pending = ["expected", "pending", "progress", "queued", "have not succeeded"];
    match () {
        () if has("base branch was modified") || has("merge already in progress") => {
            MergeRefusal::Again
        }
        () if has("merge queue") => MergeRefusal::Queue,
        () if has("merges are not allowed") || has("merge commits are not allowed") => {
            MergeRefusal::Method
        }
        // A linear history, or commits that can't be put on top of the base one by one.
        () if has("must not contain merge commits") || has("can't be rebased") => {
            MergeRefusal::Method
        }
        // Next to these, nothing else may be missing: a person has to do that.
        () if has("review") || has("conversation") || has("fail") => MergeRefusal::Final,
        () if has("status check") && pending.iter().any(|part| has(part)) => MergeRefusal::Checks,
        () => MergeRefusal::Final,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_apart_by_githubs_words() {
        let rule = |text: &str| {
            classify_refusal(&format!("Repository rule violations found\n\n{text}\n\n"))
        };
        assert_eq!(
            classify_refusal("Base branch was modified. Review and try the merge again."),
            MergeRefusal::Again
        );
        assert_eq!(
            classify_refusal("Squash merges are not allowed on this repository."),
            MergeRefusal::Method
        );
        assert_eq!(
            classify_refusal("Merge commits are not allowed on this repository."),
            MergeRefusal::Method
        );
        assert_eq!(rule("This branch must not contain merge commits."), MergeRefusal::Method);
        assert_eq!(classify_refusal("Merge already in progress"), MergeRefusal::Again);
        assert_eq!(rule("Changes must be made through the merge queue"), MergeRefusal::Queue);
        assert_eq!(
            classify_refusal("Required status check \"ci\" is expected."),
            MergeRefusal::Checks
        );
        assert_eq!(rule("Required status check \"ci\" is in progress."), MergeRefusal::Checks);
        assert_eq!(
            classify_refusal("2 of 2 required status checks are pending."),
            MergeRefusal::Checks
        );
        assert_eq!(
            classify_refusal("Required status check \"ci\" is failing."),
            MergeRefusal::Final
        );
        let both = "2 of 3 required status checks have not succeeded: 1 expected and 1 failing.";
        assert_eq!(rule(both), MergeRefusal::Final);
        let review = "At least 1 approving review is required by reviewers with write access.";
        assert_eq!(rule(review), MergeRefusal::Final);
        assert_eq!(classify_refusal("Pull Request is not mergeable"), MergeRefusal::Final);
    }
}
