//! The host as a test or the demo uses it directly: makes repositories, pushes to them and reads them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::{Timestamp, ToSpan as _};

use super::git::{BareRepository, CommitObject, FileChange, GitSignature};
use super::settings::RepositoryRules;
use super::state::{HostedPull, HostedRepository};
use super::{GitHubError, GitHubServer, Shared};

/// Source of a new repository's first commit.
#[derive(Clone, Debug)]
pub enum FirstCommit {
    /// A folder, its `.gitignore` respected.
    Folder(PathBuf),
    /// Contents of the files by path.
    Files(BTreeMap<String, String>),
    /// No commit is made: the repository lies in the host's folder already.
    Existing,
}

/// A repository, from behind the host's counter.
#[derive(Clone, Debug)]
pub struct DrivenRepository {
    pub(super) shared: Arc<Shared>,
    git: BareRepository,
    pub(super) owner: String,
    pub(super) name: String,
    url: String,
}

/// The state of a pull request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullState {
    /// Neither merged nor closed.
    Open,
    /// Closed without being merged.
    Closed,
    /// Merged into its base branch.
    Merged,
}

/// A pull request, for assertions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullRequest {
    /// Number in the repository.
    pub number: u64,
    /// Title of the pull request, one line.
    pub title: String,
    /// Description, as Markdown text.
    pub body: String,
    /// State: open, closed or merged.
    pub state: PullState,
    /// Branch that is to be merged.
    pub head: String,
    /// Object id of the head commit.
    pub head_sha: String,
    /// Branch that it is to be merged into.
    pub base: String,
    /// The commit that a merge made.
    pub merge_commit: Option<String>,
    /// Comments of its conversation.
    pub comments: Vec<String>,
    /// Reviews as (state, body).
    pub reviews: Vec<(String, String)>,
    /// Comments on lines as (path, line, body).
    pub lines: Vec<(String, u64, String)>,
}

impl GitHubServer {
    /// Creates `<owner>/<name>` with one commit on its default branch.
    ///
    /// # Errors
    /// When it exists, or the content can't be read.
    pub async fn create_repo(
        &self,
        owner: &str,
        name: &str,
        content: FirstCommit,
        default_branch: &str,
    ) -> Result<DrivenRepository, GitHubError> {
        let key = (owner.to_owned(), name.to_owned());
        let mut all = self.shared.repositories.lock().await;
        if all.contains_key(&key) {
            return Err(GitHubError::Name(format!("{owner}/{name} exists")));
        }
        let dir = self.shared.root.join(owner).join(format!("{name}.git"));
        let git = BareRepository::init(&dir, default_branch).await?;
        let tree = match content {
            FirstCommit::Folder(folder) => Some(git.tree_of_folder(&folder.canonicalize()?).await?),
            FirstCommit::Files(files) => {
                let files = files.into_iter().map(|(p, text)| (p, Some(text.into_bytes())));
                Some(git.tree_with(None, &files.collect()).await?)
            }
            FirstCommit::Existing => None,
        };
        if let Some(tree) = tree {
            // A fixed date and author: equal content gives equal object ids.
            let date = Some("1735732800 +0000".to_owned());
            let author = GitSignature { date, ..GitSignature::of(owner) };
            let commit = git.commit_tree(&tree, &[], "Start\n", &author, &author).await?;
            git.update_ref(&format!("refs/heads/{default_branch}"), &commit, "").await?;
        }
        let repository = HostedRepository {
            id: self.shared.next_id(),
            owner: owner.to_owned(),
            name: name.to_owned(),
            default_branch: default_branch.to_owned(),
            renamed: BTreeMap::new(),
            created_at: Timestamp::now(),
            git: git.clone(),
            pulls: BTreeMap::new(),
            issues: BTreeMap::new(),
            releases: Vec::new(),
            checks: Vec::new(),
            rules: RepositoryRules::default(),
            people: BTreeMap::new(),
            tips: BTreeMap::new(),
            activity: Vec::new(),
            pushed_at: Timestamp::now(),
            queue: Vec::new(),
            auto_merge: Vec::new(),
        };
        all.insert(key, repository);
        Ok(self.handle(git, owner, name))
    }

    /// Gives a repository another name; its old handle ends.
    ///
    /// # Errors
    /// When there is none, or its folder can't be moved.
    pub async fn rename(
        &self,
        owner: &str,
        old: &str,
        new: &str,
    ) -> Result<DrivenRepository, GitHubError> {
        let moved = self.move_repository((owner, old), (owner, new)).await?;
        self.shared.rename_for_app(owner, old, new);
        Ok(moved)
    }

    /// Gives a repository to another account; its old handle ends.
    ///
    /// # Errors
    /// When there is none, or its folder can't be moved.
    pub async fn transfer(
        &self,
        owner: &str,
        name: &str,
        to: &str,
    ) -> Result<DrivenRepository, GitHubError> {
        self.move_repository((owner, name), (to, name)).await
    }

    /// Takes an account away, as its renaming does.
    pub fn forget_account(&self, login: &str) {
        let mut gone = self.shared.gone.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        gone.insert(login.to_owned());
    }

    async fn move_repository(
        &self,
        (owner, old): (&str, &str),
        (to, new): (&str, &str),
    ) -> Result<DrivenRepository, GitHubError> {
        let mut all = self.shared.repositories.lock().await;
        let key = (owner.to_owned(), old.to_owned());
        let missing = || GitHubError::Name(format!("no {owner}/{old}"));
        let mut repository = all.remove(&key).ok_or_else(missing)?;
        let folder =
            |owner: &str, name: &str| self.shared.root.join(owner).join(format!("{name}.git"));
        tokio::fs::create_dir_all(self.shared.root.join(to)).await?;
        tokio::fs::rename(folder(owner, old), folder(to, new)).await?;
        repository.git = BareRepository::at(folder(to, new));
        to.clone_into(&mut repository.owner);
        new.clone_into(&mut repository.name);
        let (id, git) = (repository.id, repository.git.clone());
        all.insert((to.to_owned(), new.to_owned()), repository);
        let mut renamed =
            self.shared.renamed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        renamed.insert(key, (id, to.to_owned(), new.to_owned()));
        Ok(self.handle(git, to, new))
    }

    /// A repository that exists.
    pub async fn repo(&self, owner: &str, name: &str) -> Option<DrivenRepository> {
        let all = self.shared.repositories.lock().await;
        let git = all.get(&(owner.to_owned(), name.to_owned()))?.git.clone();
        Some(self.handle(git, owner, name))
    }

    fn handle(&self, git: BareRepository, owner: &str, name: &str) -> DrivenRepository {
        DrivenRepository {
            shared: Arc::clone(&self.shared),
            git,
            owner: owner.to_owned(),
            name: name.to_owned(),
            url: format!("{}/{owner}/{name}.git", self.url()),
        }
    }
}

impl DrivenRepository {
    /// URL from which clients clone it (no credentials in it).
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The bare repository, for everything that has no method here.
    #[must_use]
    pub fn git(&self) -> &BareRepository {
        &self.git
    }

    /// The commit that a branch points at.
    pub async fn head(&self, branch: &str) -> Option<String> {
        self.git.branch(branch).await
    }

    /// Branches with their commits.
    pub async fn branches(&self) -> Result<BTreeMap<String, String>, GitHubError> {
        Ok(self.git.branches().await?)
    }

    /// Commits of a branch or range, newest first.
    pub async fn log(&self, range: &str) -> Result<Vec<CommitObject>, GitHubError> {
        Ok(self.git.log(range, 1000).await?)
    }

    /// Differences between two revisions, by file.
    pub async fn changes(&self, from: &str, to: &str) -> Result<Vec<FileChange>, GitHubError> {
        Ok(self.git.changes(from, to).await?)
    }

    /// A file as text at a revision, if it is there.
    pub async fn show(&self, revision: &str, path: &str) -> Option<String> {
        let bytes = self.git.show(revision, path).await.ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Commits to a branch as an outsider: `Some` writes a file, `None` removes it. The branch is
    /// made from the default branch if it is not there.
    ///
    /// # Errors
    /// When git refuses, for instance because the branch moved meanwhile.
    pub async fn commit(
        &self,
        branch: &str,
        author: &str,
        message: &str,
        files: &[(&str, Option<&str>)],
    ) -> Result<String, GitHubError> {
        let old = self.git.branch(branch).await;
        let parent = match &old {
            Some(sha) => sha.clone(),
            None => self.git.commit_id("HEAD").await.unwrap_or_default(),
        };
        let files = files
            .iter()
            .map(|(path, text)| ((*path).to_owned(), text.map(|t| t.as_bytes().to_vec())));
        let tree = self.git.tree_with(Some(&parent), &files.collect()).await?;
        let who = GitSignature::of(author);
        let message = format!("{message}\n");
        let sha = self.git.commit_tree(&tree, &[&parent], &message, &who, &who).await?;
        let name = format!("refs/heads/{branch}");
        self.git.update_ref(&name, &sha, old.as_deref().unwrap_or_default()).await?;
        Ok(sha)
    }

    /// Checks out a branch into a new folder, for running commands in it.
    ///
    /// # Errors
    /// When git refuses.
    pub async fn checkout(&self, branch: &str, into: &std::path::Path) -> Result<(), GitHubError> {
        let from = self.git.dir().to_string_lossy();
        let to = into.to_string_lossy();
        let clone = ["clone", "--quiet", "--no-hardlinks", "--branch", branch, &*from, &*to];
        self.git.run(&clone).await?;
        Ok(())
    }

    /// Opens so many pull requests at once, as of long ago; their numbers.
    ///
    /// # Errors
    /// When git refuses.
    pub async fn open_pulls(&self, count: u64) -> Result<Vec<u64>, GitHubError> {
        let head = self.commit("many", "Ana", "One for all", &[("many.txt", Some("1\n"))]).await?;
        self.with(async |repository| {
            let base_sha = repository.git.branch(&repository.default_branch).await;
            let base_sha = base_sha.unwrap_or_default();
            let mut numbers = Vec::new();
            for at in 0..count {
                let name = format!("many-{at}");
                let branch = format!("refs/heads/{name}");
                repository.git.update_ref(&branch, &head, "").await?;
                let number = repository.next_number();
                let base = repository.default_branch.clone();
                let heads = (name, head.clone(), base, base_sha.clone());
                let mut pull =
                    HostedPull::opened(self.shared.next_id(), number, heads, "codebutler-bot");
                pull.updated_at -= 3.hours();
                repository.pulls.insert(number, pull);
                numbers.push(number);
            }
            Ok(numbers)
        })
        .await
    }

    /// Every pull request, oldest first, as of what is pushed now.
    ///
    /// # Errors
    /// When git fails.
    pub async fn pulls(&self) -> Result<Vec<PullRequest>, GitHubError> {
        let mut all = self.shared.repositories.lock().await;
        let key = (self.owner.clone(), self.name.clone());
        let missing = || GitHubError::Name(format!("no {}/{}", self.owner, self.name));
        let repository = all.get_mut(&key).ok_or_else(missing)?;
        repository.refresh().await?;
        let pulls = repository.pulls.values().map(|pull| PullRequest {
            number: pull.number,
            title: pull.title.clone(),
            body: pull.body.clone().unwrap_or_default(),
            state: match (pull.open, &pull.merged) {
                (true, _) => PullState::Open,
                (false, Some(_)) => PullState::Merged,
                (false, None) => PullState::Closed,
            },
            head: pull.head.clone(),
            head_sha: pull.head_sha.clone(),
            base: pull.base.clone(),
            merge_commit: pull.merged.as_ref().map(|m| m.sha.clone()),
            comments: pull.comments.iter().map(|c| c.body.clone()).collect(),
            reviews: pull.reviews.iter().map(|r| (r.state.to_string(), r.body.clone())).collect(),
            lines: pull
                .lines
                .iter()
                .map(|l| (l.path.clone(), l.line, l.comment.body.clone()))
                .collect(),
        });
        Ok(pulls.collect())
    }
}
