//! Facts about servers of the Model Context Protocol that parts of the gateway share: the `mcp.json` of each base
//! branch, and the latest outcome of a session with each server.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use codebutler_crds::Repo;
use codebutler_crds::mcp::McpServerSpec;
use codebutler_mcp_file::{FileProblem, MCP_FILE, McpFile, ProblemKind, read_mcp_file};
use kube::ResourceExt as _;
use parking_lot::Mutex;

use crate::mcp_grants::GrantBook;
use crate::repo_key::RepoKey;

/// Lifetime of a remark about a start: a request that waits for the server renews it again and
/// again.
const START: Duration = Duration::from_secs(15);
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

/// The latest session with a server, with the entry that it had.
#[derive(Debug)]
struct KnownSession {
    spec: McpServerSpec,
    at: Instant,
    outcome: SessionOutcome,
}

/// Outcome of a session with a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionOutcome {
    /// The server answered.
    Answered {
        /// The server's own version.
        version: String,
        /// Number of tools that may be used.
        tools: u32,
        /// A sentence about what is left out, if anything.
        remark: String,
    },
    /// A sentence about its failure, without the secrets that the server was sent.
    Failed(String),
}

#[derive(Debug, Default)]
struct FactBook {
    /// Choices by repository and branch, with the commit that each was read from.
    choices: HashMap<String, (String, Arc<RepositoryChoice>)>,
    missed: HashMap<String, Instant>,
    sessions: HashMap<(RepoKey, String), KnownSession>,
    starts: HashMap<(RepoKey, String), KnownStart>,
}

/// A pod of a server that somebody waits for.
#[derive(Debug)]
struct KnownStart {
    spec: McpServerSpec,
    at: Instant,
    waits: String,
}

/// Facts by Repo. Cheap to clone; clones share them.
#[derive(Clone, Debug, Default)]
pub struct McpFacts {
    book: Arc<Mutex<FactBook>>,
    /// Grants that people gave.
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
    pub fn report_session(&self, repo: &Repo, spec: &McpServerSpec, outcome: SessionOutcome) {
        let key = (RepoKey::from(repo), spec.name.clone());
        let known = KnownSession { spec: spec.clone(), at: Instant::now(), outcome };
        let mut book = self.book.lock();
        book.starts.remove(&key);
        book.sessions.insert(key, known);
    }

    /// The latest outcome of a session with a server that has this entry; with a moment, one after it.
    pub fn session_outcome(
        &self,
        repo: &RepoKey,
        spec: &McpServerSpec,
        since: Option<Instant>,
    ) -> Option<SessionOutcome> {
        let book = self.book.lock();
        let known = book.sessions.get(&(repo.clone(), spec.name.clone()))?;
        let counts = known.spec == *spec && since.is_none_or(|since| known.at >= since);
        counts.then(|| known.outcome.clone())
    }

    /// Keeps what the pod of a server waits for that is starting.
    pub fn report_start(&self, repo: &Repo, spec: &McpServerSpec, waits: &str) {
        let key = (RepoKey::from(repo), spec.name.clone());
        let start = KnownStart { spec: spec.clone(), at: Instant::now(), waits: waits.to_owned() };
        self.book.lock().starts.insert(key, start);
    }

    /// Returns what the pod of a server with this entry waits for, if it is starting and somebody
    /// waits for it.
    pub fn start_of(&self, repo: &RepoKey, spec: &McpServerSpec) -> Option<String> {
        let book = self.book.lock();
        let known = book.starts.get(&(repo.clone(), spec.name.clone()))?;
        (known.spec == *spec && known.at.elapsed() < START).then(|| known.waits.clone())
    }

    /// Forgets Repos that are gone, and servers that they name no more.
    pub fn keep_only(
        &self,
        is_kept: impl Fn(&RepoKey) -> bool,
        is_named: impl Fn(&RepoKey, &str) -> bool,
    ) {
        {
            let mut book = self.book.lock();
            book.sessions.retain(|(repo, server), _| is_named(repo, server));
            book.starts.retain(|(repo, server), _| is_named(repo, server));
        }
        self.grants.keep_only(is_kept);
    }
}

/// Returns a key that changes once the Repo names another repository or branch.
fn branch_key(repo: &Repo) -> String {
    let (namespace, git) = (repo.namespace().unwrap_or_default(), &repo.spec.git);
    format!("{namespace}/{} {} {}", repo.name_any(), git.url, git.branch)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing;

    #[test]
    fn an_outcome_counts_for_the_entry_that_it_had_alone() {
        let repo = testing::repo();
        let key = RepoKey::from(&repo);
        let entry = |image: &str| -> McpServerSpec {
            serde_json::from_value(json!({"name": "db", "image": image})).unwrap()
        };
        let facts = McpFacts::default();
        let before = Instant::now();
        facts.report_session(&repo, &entry("acme/db:1"), SessionOutcome::Failed("away".to_owned()));
        let outcome = |image: &str, since| facts.session_outcome(&key, &entry(image), since);
        assert!(outcome("acme/db:1", None).is_some(), "before anybody looked at the server");
        assert!(outcome("acme/db:1", Some(before)).is_some());
        assert!(outcome("acme/db:1", Some(Instant::now())).is_none(), "its Secret has changed");
        assert!(outcome("acme/db:2", None).is_none(), "another entry");
        facts.report_start(&repo, &entry("acme/db:2"), "its node pulls image `acme/db:2`");
        let start = |image: &str| facts.start_of(&key, &entry(image));
        assert!(start("acme/db:2").is_some_and(|waits| waits.contains("pulls image")));
        assert!(start("acme/db:1").is_none(), "another entry");
        facts.keep_only(|_| true, |_, server| server != "db");
        assert!(outcome("acme/db:1", None).is_none() && start("acme/db:2").is_none());
    }

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
