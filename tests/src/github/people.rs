//! Actions of people on the host's pages: they write, review, close and merge, as themselves.

use jiff::Timestamp;

use super::git::GitSignature;
use super::permissions::PersonStanding;
use super::rest::{merge, talk};
use super::state::{
    HostedCheck, HostedIssue, HostedPull, HostedRepository, PullComment, PullFork, PullReview,
};
use super::{DrivenRepository, GitHubError};

impl DrivenRepository {
    /// Does something with the repository as it is after what was pushed.
    pub(super) async fn with<T>(
        &self,
        act: impl AsyncFnOnce(&mut HostedRepository) -> Result<T, GitHubError>,
    ) -> Result<T, GitHubError> {
        let mut all = self.shared.repositories.lock().await;
        let key = (self.owner.clone(), self.name.clone());
        let missing = || GitHubError::Name(format!("no {}/{}", self.owner, self.name));
        let repository = all.get_mut(&key).ok_or_else(missing)?;
        repository.refresh().await?;
        act(repository).await
    }

    /// Moves a branch to a commit wherever that is, or deletes it, as one of the people.
    ///
    /// # Errors
    /// When git refuses.
    pub async fn force_push(
        &self,
        login: &str,
        branch: &str,
        commit: Option<&str>,
    ) -> Result<(), GitHubError> {
        let name = format!("refs/heads/{branch}");
        self.with(async |repository| {
            match commit {
                Some(commit) => repository.git.run(&["update-ref", &name, commit]).await?,
                None => repository.git.run(&["update-ref", "-d", &name]).await?,
            };
            Ok(repository.refresh_by(Some(login)).await?)
        })
        .await
    }

    fn said(&self, login: &str, standing: PersonStanding, body: &str) -> PullComment {
        PullComment {
            id: self.shared.next_id(),
            user: login.to_owned(),
            body: body.to_owned(),
            created_at: Timestamp::now(),
            association: standing.association().into(),
            reactions: Vec::new(),
        }
    }

    /// Somebody comments on a pull request.
    ///
    /// # Errors
    /// When there is none.
    pub async fn comment(
        &self,
        number: u64,
        login: &str,
        standing: PersonStanding,
        body: &str,
    ) -> Result<(), GitHubError> {
        let comment = self.said(login, standing, body);
        self.with(async |repository| {
            repository.people.insert(login.to_owned(), standing);
            let pull = find_pull(repository, number)?;
            pull.updated_at = comment.created_at;
            pull.comments.push(comment);
            Ok(())
        })
        .await
    }

    /// A collaborator edits title or description on the page, where a browser sends its own line breaks.
    ///
    /// # Errors
    /// When there is no such pull request.
    pub async fn edit_pull(
        &self,
        number: u64,
        title: Option<&str>,
        body: Option<&str>,
    ) -> Result<(), GitHubError> {
        let breaks = |text: &str| text.replace("\r\n", "\n").replace('\n', "\r\n");
        self.with(async |repository| {
            let pull = find_pull(repository, number)?;
            pull.title = title.map_or_else(|| pull.title.clone(), str::to_owned);
            pull.body = body.map(breaks).or_else(|| pull.body.clone());
            pull.updated_at = Timestamp::now();
            Ok(())
        })
        .await
    }

    /// A collaborator comments on a line.
    ///
    /// # Errors
    /// When there is no such pull request.
    pub async fn comment_on_line(
        &self,
        number: u64,
        login: &str,
        (path, line): (&str, u64),
        body: &str,
    ) -> Result<(), GitHubError> {
        let comment = self.said(login, PersonStanding::Collaborator, body);
        self.with(async |repository| {
            repository.people.insert(login.to_owned(), PersonStanding::Collaborator);
            let pull = find_pull(repository, number)?;
            let head = pull.head_sha.clone();
            talk::on_line(&self.shared, pull, comment, talk::DiffPlace::of(path, line), head);
            Ok(())
        })
        .await
    }

    /// A collaborator reviews: `APPROVED`, `CHANGES_REQUESTED` or `COMMENTED`.
    ///
    /// # Errors
    /// When there is no such pull request.
    pub async fn review(
        &self,
        number: u64,
        login: &str,
        state: &'static str,
        body: &str,
    ) -> Result<(), GitHubError> {
        let PullComment { id, user, body, created_at, association, .. } =
            self.said(login, PersonStanding::Collaborator, body);
        self.with(async |repository| {
            repository.people.insert(login.to_owned(), PersonStanding::Collaborator);
            let pull = find_pull(repository, number)?;
            let commit = pull.head_sha.clone();
            let submitted_at = created_at;
            let review = PullReview {
                id,
                user,
                body,
                state: state.into(),
                commit,
                submitted_at,
                association,
            };
            pull.updated_at = created_at;
            pull.reviews.push(review);
            Ok(())
        })
        .await
    }

    /// Somebody closes a pull request, or opens it again.
    ///
    /// # Errors
    /// When there is none.
    pub async fn set_open(&self, number: u64, open: bool) -> Result<(), GitHubError> {
        self.with(async |repository| {
            let pull = find_pull(repository, number)?;
            pull.close(Timestamp::now());
            if open {
                pull.open = true;
                pull.closed_at = None;
            }
            Ok(())
        })
        .await
    }

    /// Somebody opens a pull request from a fork; its number. `Some` writes a file, `None` removes it.
    ///
    /// # Errors
    /// When git refuses.
    pub async fn open_fork_pull(
        &self,
        login: &str,
        (branch, title): (&str, &str),
        files: &[(&str, Option<&str>)],
    ) -> Result<u64, GitHubError> {
        let files = files
            .iter()
            .map(|(path, text)| ((*path).to_owned(), text.map(|text| text.as_bytes().to_vec())));
        let files = files.collect();
        self.with(async |repository| {
            let base = repository.default_branch.clone();
            let base_sha = repository.git.branch(&base).await.unwrap_or_default();
            let tree = repository.git.tree_with(Some(&base_sha), &files).await?;
            let who = GitSignature::of(login);
            let head =
                repository.git.commit_tree(&tree, &[&base_sha], "Change\n", &who, &who).await?;
            let number = repository.next_number();
            let name = format!("refs/pull/{number}/head");
            repository.git.update_ref(&name, &head, "").await?;
            let heads = (branch.to_owned(), head, base, base_sha);
            let fork = PullFork { owner: login.to_owned(), deleted: false };
            let pull = HostedPull {
                title: title.to_owned(),
                body: Some("From a fork.".to_owned()),
                fork: Some(fork),
                ..HostedPull::opened(self.shared.next_id(), number, heads, login)
            };
            repository.pulls.insert(number, pull);
            Ok(number)
        })
        .await
    }

    /// Somebody deletes the fork of a pull request.
    ///
    /// # Errors
    /// When there is no such pull request.
    pub async fn delete_fork(&self, number: u64) -> Result<(), GitHubError> {
        self.with(async |repository| {
            if let Some(fork) = &mut find_pull(repository, number)?.fork {
                fork.deleted = true;
            }
            Ok(())
        })
        .await
    }

    /// Somebody asks an account to review a pull request, of which nothing is said yet.
    ///
    /// # Errors
    /// When there is no such pull request.
    pub async fn ask_review(&self, number: u64, login: &str) -> Result<(), GitHubError> {
        self.with(async |repository| {
            find_pull(repository, number)?.reviewers.push(login.to_owned());
            Ok(())
        })
        .await
    }

    /// Gives an account this standing from now on.
    ///
    /// # Errors
    /// When the repository is gone.
    pub async fn admit(&self, login: &str, standing: PersonStanding) -> Result<(), GitHubError> {
        self.with(async |repository| {
            repository.people.insert(login.to_owned(), standing);
            Ok(())
        })
        .await
    }

    /// The standing of an issue: open or its reason, who works on it, and the number of the issue above it.
    ///
    /// # Errors
    /// When there is none.
    pub async fn issue_standing(
        &self,
        number: u64,
    ) -> Result<(String, Vec<String>, Option<u64>), GitHubError> {
        self.with(async |repository| {
            let missing = || GitHubError::Name(format!("no issue {number}"));
            let issue = repository.issues.get(&number).ok_or_else(missing)?;
            let closed = || issue.reason.clone().unwrap_or_default();
            let state = if issue.open { "open".to_owned() } else { closed() };
            Ok((state, issue.assignees.clone(), issue.parent))
        })
        .await
    }

    /// Somebody gives a pull request another base.
    ///
    /// # Errors
    /// When there is no such pull request or branch.
    pub async fn retarget(&self, number: u64, base: &str) -> Result<(), GitHubError> {
        self.with(async |repository| {
            let missing = || GitHubError::Name(format!("no branch {base}"));
            let sha = repository.git.branch(base).await.ok_or_else(missing)?;
            let pull = find_pull(repository, number)?;
            base.clone_into(&mut pull.base);
            pull.base_sha = sha;
            pull.updated_at = Timestamp::now();
            Ok(())
        })
        .await
    }

    /// Somebody merges a pull request on its page; the commit.
    ///
    /// # Errors
    /// When there is none, or it conflicts.
    pub async fn merge(&self, number: u64, login: &str) -> Result<String, GitHubError> {
        self.with(async |repository| {
            let taken = find_pull(repository, number)?.clone();
            let message = format!("{} (#{number})\n", taken.title);
            let sha = merge::make_commit(repository, &taken, true, &message, login).await?;
            merge::record_merge(repository, &taken, &sha, login);
            Ok(sha)
        })
        .await
    }

    /// Somebody opens an issue; its number.
    ///
    /// # Errors
    /// When the repository is gone.
    pub async fn open_issue(
        &self,
        login: &str,
        title: &str,
        body: &str,
        labels: &[&str],
    ) -> Result<u64, GitHubError> {
        self.with(async |repository| {
            let number = repository.next_number();
            let (ids, text) = ((self.shared.next_id(), number), Some(body.to_owned()));
            let issue = HostedIssue {
                labels: labels.iter().map(|label| (*label).to_owned()).collect(),
                ..HostedIssue::opened(ids, login, title.to_owned(), text)
            };
            repository.issues.insert(number, issue);
            Ok(number)
        })
        .await
    }

    /// Somebody comments on an issue.
    ///
    /// # Errors
    /// When there is none.
    pub async fn comment_on_issue(
        &self,
        number: u64,
        login: &str,
        standing: PersonStanding,
        body: &str,
    ) -> Result<(), GitHubError> {
        let comment = self.said(login, standing, body);
        self.with(async |repository| {
            repository.people.insert(login.to_owned(), standing);
            let missing = || GitHubError::Name(format!("no issue {number}"));
            let issue = repository.issues.get_mut(&number).ok_or_else(missing)?;
            issue.comments.push(comment);
            Ok(())
        })
        .await
    }

    /// Reactions to comments that contain these words, as account and content.
    ///
    /// # Errors
    /// When the repository is gone.
    pub async fn reactions(&self, words: &str) -> Result<Vec<(String, String)>, GitHubError> {
        self.with(async |repository| {
            let issues = repository.issues.values().flat_map(|issue| &issue.comments);
            let pulls = repository.pulls.values();
            let said = issues.chain(pulls.clone().flat_map(|pull| &pull.comments));
            let said = said.chain(pulls.flat_map(|pull| &pull.lines).map(|line| &line.comment));
            let found = said.filter(|comment| comment.body.contains(words));
            Ok(found.flat_map(|comment| comment.reactions.clone()).collect())
        })
        .await
    }

    /// A service reports a check of a commit: `success`, `failure`, …, or that it runs.
    ///
    /// # Errors
    /// When the repository is gone.
    pub async fn report_check(
        &self,
        commit: &str,
        name: &str,
        conclusion: Option<&str>,
        summary: &str,
    ) -> Result<(), GitHubError> {
        self.with(async |repository| {
            repository.checks.push(HostedCheck {
                id: self.shared.next_id(),
                commit: commit.to_owned(),
                name: name.to_owned(),
                state: conclusion.map(str::to_owned),
                summary: summary.to_owned(),
                status: false,
                at: Timestamp::now(),
            });
            Ok(())
        })
        .await
    }
}

pub(super) fn find_pull(
    repository: &mut HostedRepository,
    number: u64,
) -> Result<&mut HostedPull, GitHubError> {
    let missing = || GitHubError::Name(format!("no pull request {number}"));
    repository.pulls.get_mut(&number).ok_or_else(missing)
}
