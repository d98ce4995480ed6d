//! One redactor per set of patterns, compiled once: the Repo's own, and those that its repository asks
//! for. What is found and how is in [`codebutler_crds::redact`].

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use codebutler_crds::Repo;
use codebutler_crds::policy::RedactionRule;
use codebutler_guides::policy::file::RequiredApprovals;
use kube::ResourceExt as _;
use parking_lot::{Mutex, MutexGuard};

pub use codebutler_crds::redact::{SecretFinding, SecretRedactor, log};

/// Sets of patterns that are kept compiled.
const MOST: usize = 256;
/// Time for which a repository that could not be asked is left alone.
const AGAIN: Duration = Duration::from_mins(1);

/// Redactors by their Repo's patterns. Cheap to clone; clones share what was compiled.
#[derive(Clone, Debug, Default)]
pub struct RepoRedactors {
    compiled: Arc<Mutex<HashMap<String, Arc<SecretRedactor>>>>,
    learned: Arc<Mutex<HashMap<String, RepoRules>>>,
    /// Time at which a repository could not be asked.
    missed: Arc<Mutex<HashMap<String, Instant>>>,
}

/// Redaction and approvals that a repository asks for on its base branch.
#[derive(Debug, Default)]
struct RepoRules {
    /// The commit it was read from.
    commit: String,
    rules: Vec<RedactionRule>,
    /// The last list without a fault.
    whole: Vec<RedactionRule>,
    approvals: RequiredApprovals,
    /// Approvals of the last file in which they could be read.
    whole_approvals: Option<RequiredApprovals>,
}

impl RepoRedactors {
    /// The redactor of a Repo. What of its patterns can't be used, the controller says on the Repo.
    pub fn of(&self, repo: &Repo) -> Arc<SecretRedactor> {
        let mut rules = repo.spec.policy.redaction.clone();
        if let Some(learned) = lock(&self.learned).get(&repo_key(repo)) {
            rules.extend(learned.rules.iter().cloned());
        }
        self.compile(&owner_name(repo), &rules)
    }

    /// Returns true if the repository's own patterns are in force, as of some time.
    pub fn has_learned(&self, repo: &Repo) -> bool {
        lock(&self.learned).contains_key(&repo_key(repo))
    }

    /// Approvals that the repository requires.
    pub fn approvals(&self, repo: &Repo) -> RequiredApprovals {
        let learned = lock(&self.learned);
        learned.get(&repo_key(repo)).map(|learned| learned.approvals.clone()).unwrap_or_default()
    }

    /// Keeps that, as of the commit that was learned last. What could not be read (`unread`) takes
    /// nothing away: people are asked as before, and each time where it is not known how it was
    /// before.
    pub fn learn_approvals(&self, repo: &Repo, mut approvals: RequiredApprovals, unread: bool) {
        let mut all = lock(&self.learned);
        let learned = all.entry(repo_key(repo)).or_default();
        if unread {
            let before = learned.whole_approvals.clone();
            approvals.extend(before.unwrap_or_else(RequiredApprovals::always));
        } else {
            learned.whole_approvals = Some(approvals.clone());
        }
        learned.approvals = approvals;
    }

    /// The repository could not be asked for its patterns.
    pub fn miss(&self, repo: &Repo) {
        lock(&self.missed).insert(repo_key(repo), Instant::now());
    }

    /// Returns true if the repository could not be asked a moment ago.
    pub fn has_missed(&self, repo: &Repo) -> bool {
        lock(&self.missed).get(&repo_key(repo)).is_some_and(|at| at.elapsed() < AGAIN)
    }

    /// Returns true if the patterns of this commit of the base branch are in force.
    pub fn knows(&self, repo: &Repo, commit: &str) -> bool {
        lock(&self.learned).get(&repo_key(repo)).is_some_and(|learned| learned.commit == commit)
    }

    /// Puts the patterns of a commit of the base branch in force. Those of the last list without a
    /// fault stay until there is another one: a slip lets nothing through that was masked before.
    pub fn learn(&self, repo: &Repo, commit: &str, rules: Vec<RedactionRule>, is_whole: bool) {
        let mut all = lock(&self.learned);
        let learned = all.entry(repo_key(repo)).or_default();
        commit.clone_into(&mut learned.commit);
        if is_whole {
            learned.whole.clone_from(&rules);
            learned.rules = rules;
        } else {
            learned.rules = rules;
            let kept = learned.whole.iter().filter(|rule| !learned.rules.contains(rule));
            let kept: Vec<RedactionRule> = kept.cloned().collect();
            learned.rules.extend(kept);
        }
    }

    /// A redactor with an owner's patterns on top of the built-in kinds.
    fn compile(&self, owner: &str, rules: &[RedactionRule]) -> Arc<SecretRedactor> {
        let prefix = format!("{owner}\0");
        let name = rules.iter().fold(prefix, |all, r| all + &r.name + "\0" + &r.pattern + "\0");
        if let Some(known) = lock(&self.compiled).get(&name) {
            return Arc::clone(known);
        }
        log::mask_patterns(owner, rules);
        // Compiled without the lock: a large pattern keeps nobody else waiting.
        let (redactor, bad) = SecretRedactor::new(rules);
        for problem in bad {
            tracing::warn!(%problem, "redaction_pattern_invalid");
        }
        let redactor = Arc::new(redactor);
        let mut known = lock(&self.compiled);
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(name, Arc::clone(&redactor));
        redactor
    }
}

fn owner_name(repo: &Repo) -> String {
    format!("{}/{}", repo.namespace().unwrap_or_default(), repo.name_any())
}

/// Returns a key that changes once the Repo names another repository or branch.
fn repo_key(repo: &Repo) -> String {
    let git = &repo.spec.git;
    format!(
        "{}/{} {} {}",
        repo.namespace().unwrap_or_default(),
        repo.name_any(),
        git.url,
        git.branch
    )
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn a_slip_in_the_repositorys_list_lets_nothing_through() {
        let repo = testing::repo();
        let rule = |name: &str, pattern: &str| RedactionRule {
            name: name.to_owned(),
            pattern: pattern.to_owned(),
        };
        let redactors = RepoRedactors::default();
        let masked = || redactors.of(&repo).mask("cust_1 and order_2").into_owned();
        assert_eq!(masked(), "cust_1 and order_2");
        redactors.learn(&repo, "1", vec![rule("customer", "cust_[0-9]+")], true);
        assert_eq!(masked(), "[redacted:customer] and order_2");
        redactors.learn(&repo, "2", vec![rule("order", "order_[0-9]+")], false);
        assert_eq!(masked(), "[redacted:customer] and [redacted:order]");
        redactors.learn(&repo, "3", Vec::new(), true);
        assert_eq!(masked(), "cust_1 and order_2");
        assert!(redactors.knows(&repo, "3") && !redactors.knows(&repo, "2"));
    }

    #[test]
    fn a_slip_in_what_people_are_asked_about_asks_them_about_more() {
        let (repo, redactors) = (testing::repo(), RepoRedactors::default());
        let asked = |branch: &str| redactors.approvals(&repo).guards_push(branch);
        let pushes = |branch: &str| RequiredApprovals {
            git_push_to: vec![branch.to_owned()],
            ..RequiredApprovals::default()
        };
        assert!(!asked("main"), "nothing was read yet");
        redactors.learn_approvals(&repo, RequiredApprovals::default(), true);
        assert!(asked("main") && asked("codebutler/x"), "nobody knows what was meant");
        redactors.learn_approvals(&repo, pushes("codebutler/*"), false);
        assert!(asked("codebutler/x") && !asked("main"));
        redactors.learn_approvals(&repo, pushes("main"), true);
        assert!(asked("codebutler/x") && asked("main"), "what counted before counts on");
        redactors.learn_approvals(&repo, RequiredApprovals::default(), false);
        assert!(!asked("codebutler/x") && !asked("main"), "it was corrected");
    }
}
