//! Facts about servers of the Model Context Protocol that parts of the gateway share: the `mcp.json` of each base
//! branch, and the latest outcome of a session with each server.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use codebutler_crds::Repo;
use codebutler_mcp_file::{FileProblem, MCP_FILE, McpFile, ProblemKind, read_mcp_file};
use kube::ResourceExt as _;
use parking_lot::Mutex;

use crate::mcp_grants::GrantBook;
use crate::repo_key::RepoKey;

/// Time before a repository that could not be read is asked again.
const AGAIN: Duration = Duration::from_mins(1);

/// The choice of a repository on its base branch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepositoryChoice {
    /// The file as far as it can be read; none where there is no file.
    pub file: Option<McpFile>,
    /// The first mistake that leaves something out.
    pub problem: Option<FileProblem>,
}

impl RepositoryChoice {
    /// Reads the bytes of a file.
    pub fn read(bytes: Option<&[u8]>) -> Self {
        let Some(bytes) = bytes else { return Self::default() };
        let Ok(text) = std::str::from_utf8(bytes) else {
            let problem = FileProblem {
                line: 1,
                column: 1,
                kind: ProblemKind::Error,
                message: "the file is no UTF-8".to_owned(),
            };
            return Self { file: Some(McpFile::default()), problem: Some(problem) };
        };
        let (file, problems) = read_mcp_file(text);
        let problem = problems.into_iter().find(|problem| problem.kind == ProblemKind::Error);
        Self { file: Some(file), problem }
    }

    /// A sentence about its mistake.
    pub fn complaint(&self) -> Option<String> {
        let problem = self.problem.as_ref()?;
        Some(format!(
            "`{MCP_FILE}` of the base branch has a mistake ({problem}): servers that can't be read there are left out \
             until it is corrected"
        ))
    }
}

/// Outcome of a session with a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionOutcome {
    /// It answered.
    Answered {
        /// Its own version.
        version: String,
        /// Tools that may be used.
        tools: u32,
        /// A sentence about what is left out, if anything.
        remark: String,
    },
    /// A sentence about its failure, without the secrets that the server was sent.
    Failed(String),
}

#[derive(Debug, Default)]
struct FactBook {
    /// By repository and branch, with the commit.
    choices: HashMap<String, (String, Arc<RepositoryChoice>)>,
    missed: HashMap<String, Instant>,
    sessions: HashMap<(RepoKey, String), (Instant, SessionOutcome)>,
}

/// Facts by Repo. Cheap to clone; clones share them.
#[derive(Clone, Debug, Default)]
pub struct McpFacts {
    book: Arc<Mutex<FactBook>>,
    /// Grants of people.
    pub grants: GrantBook,
}

impl McpFacts {
    /// The choice of a repository, if its base branch has been read.
    pub fn choice(&self, repo: &Repo) -> Option<Arc<RepositoryChoice>> {
        self.book.lock().choices.get(&branch_key(repo)).map(|(_, choice)| Arc::clone(choice))
    }

    /// True if the file of this commit has been read.
    pub fn knows(&self, repo: &Repo, commit: &str) -> bool {
        self.book.lock().choices.get(&branch_key(repo)).is_some_and(|(known, _)| known == commit)
    }

    /// Keeps the file of a commit of the base branch.
    pub fn learn(&self, repo: &Repo, commit: &str, bytes: Option<&[u8]>) -> Arc<RepositoryChoice> {
        let choice = Arc::new(RepositoryChoice::read(bytes));
        let kept = (commit.to_owned(), Arc::clone(&choice));
        self.book.lock().choices.insert(branch_key(repo), kept);
        choice
    }

    /// The repository could not be read.
    pub fn miss(&self, repo: &Repo) {
        self.book.lock().missed.insert(branch_key(repo), Instant::now());
    }

    /// True if that was a moment ago.
    pub fn has_missed(&self, repo: &Repo) -> bool {
        self.book.lock().missed.get(&branch_key(repo)).is_some_and(|at| at.elapsed() < AGAIN)
    }

    /// Keeps the latest outcome of a session of a Thread with a server.
    pub fn report_session(&self, repo: &Repo, server: &str, outcome: SessionOutcome) {
        let key = (RepoKey::from(repo), server.to_owned());
        self.book.lock().sessions.insert(key, (Instant::now(), outcome));
    }

    /// The latest outcome of a session with a server after some moment.
    pub fn session_since(
        &self,
        repo: &RepoKey,
        server: &str,
        since: Instant,
    ) -> Option<SessionOutcome> {
        let book = self.book.lock();
        let (at, outcome) = book.sessions.get(&(repo.clone(), server.to_owned()))?;
        (*at >= since).then(|| outcome.clone())
    }

    /// Forgets Repos that are gone.
    pub fn keep_only(&self, is_kept: impl Fn(&RepoKey) -> bool) {
        self.book.lock().sessions.retain(|(repo, _), _| is_kept(repo));
        self.grants.keep_only(is_kept);
    }
}

/// Another one once the Repo names another repository or branch.
fn branch_key(repo: &Repo) -> String {
    let (namespace, git) = (repo.namespace().unwrap_or_default(), &repo.spec.git);
    format!("{namespace}/{} {} {}", repo.name_any(), git.url, git.branch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_kept_with_its_place_beside_what_can_be_read() {
        let text = b"{\"servers\": {\"a\": {\"command\": \"x\"},\n \"b\": {\"comand\": \"x\"}}}";
        let choice = RepositoryChoice::read(Some(text));
        assert_eq!(choice.file.as_ref().map(|file| file.servers.len()), Some(1));
        let complaint = choice.complaint().unwrap();
        assert!(complaint.contains("(line 2, column 8: server `b`: unknown field"), "{complaint}");
        let broken = RepositoryChoice::read(Some(b"\xff"));
        assert_eq!(broken.file, Some(McpFile::default()));
        assert!(broken.complaint().unwrap().contains("no UTF-8"));
        assert_eq!(RepositoryChoice::read(None), RepositoryChoice::default());
    }
}
