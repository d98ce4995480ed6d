//! Cache of facts about branches, keyed by their commits, and the queue of Repos whose branches are to be compared.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use codebutler_crds::Repo;
use codebutler_crds::wire::TextMerge;
use codebutler_gateway_core::redact::SecretRedactor;
use kube::ResourceExt as _;
use tokio::sync::Notify;

use super::command::CommandError;
use super::{BranchChange, BranchSurvey, RemovedFromBase, TriedMerge};

/// Most entries of a cache; it is cleared when full.
const MOST_KEPT: usize = 20_000;

/// Queue of Repos to look at and cache of facts about commits. Cheap to share.
#[derive(Default)]
pub struct BranchFacts {
    touched: Mutex<BTreeSet<(String, String)>>,
    wake: Notify,
    /// Changes of branches, by base and tip.
    changes: Mutex<HashMap<(String, String), Arc<BranchChange>>>,
    /// The newest common commit, by base and tip.
    left: Mutex<HashMap<(String, String), String>>,
    /// Commits taken off the base branch that a branch still has, by the base's tip now, its tip before, and the
    /// branch's tip.
    removed: Mutex<HashMap<(String, String), Option<RemovedFromBase>>>,
    /// Test merges, by two tips, the lesser first.
    merges: Mutex<HashMap<(String, String), TriedMerge>>,
}

impl BranchFacts {
    /// Queues a Repo whose branches are to be compared soon: something was pushed or merged.
    pub fn touch(&self, repo: &Repo) {
        lock(&self.touched).insert((repo.namespace().unwrap_or_default(), repo.name_any()));
        self.wake.notify_one();
    }

    pub fn take_touched(&self) -> BTreeSet<(String, String)> {
        std::mem::take(&mut *lock(&self.touched))
    }

    /// Waits until a Repo was touched.
    pub async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Returns a branch's changes, from the cache if known; None where Git can't tell.
    pub async fn change(&self, survey: &BranchSurvey, tip: &str) -> Option<Arc<BranchChange>> {
        let key = (survey.base.clone(), tip.to_owned());
        if let Some(known) = lock(&self.changes).get(&key) {
            return Some(Arc::clone(known));
        }
        match survey.change(tip).await {
            Ok(change) => {
                let change = Arc::new(change);
                keep_known(&self.changes, key, Arc::clone(&change));
                Some(change)
            }
            Err(error) => {
                tracing::warn!(tip, %error, "branch_diff_failed");
                None
            }
        }
    }

    /// Returns the newest commit that a tip shares with the base branch, where the base has commits that the tip
    /// lacks.
    pub async fn left(&self, survey: &BranchSurvey, tip: &str) -> Option<String> {
        let key = (survey.base.clone(), tip.to_owned());
        if let Some(known) = lock(&self.left).get(&key) {
            return Some(known.clone());
        }
        match survey.left(tip).await {
            Ok(left) => {
                keep_known(&self.left, key, left.clone());
                Some(left)
            }
            Err(error) => {
                tracing::warn!(tip, %error, "branch_base_unknown");
                None
            }
        }
    }

    /// Finds commits that the base branch had up to a commit and has no more, and a branch still has.
    /// `fork`: that commit and the branch's tip.
    ///
    /// # Errors
    /// When Git can't tell.
    pub(crate) async fn removed(
        &self,
        survey: &BranchSurvey,
        fork: (&str, &str),
        base: (&str, &SecretRedactor),
    ) -> Result<Option<RemovedFromBase>, CommandError> {
        let key = (format!("{} {}", survey.base, fork.0), fork.1.to_owned());
        if let Some(known) = lock(&self.removed).get(&key) {
            return Ok(known.clone());
        }
        let found = survey.removed(fork, base).await?;
        keep_known(&self.removed, key, found.clone());
        Ok(found)
    }

    /// Tries whether pairs of tips merge, each pair once. Pairs that could not be tried are tried again next time.
    pub async fn merges(&self, survey: &BranchSurvey, pairs: &[(&str, &str)]) -> Vec<TriedMerge> {
        let key = |(one, other): &(&str, &str)| {
            ((*one.min(other)).to_owned(), (*one.max(other)).to_owned())
        };
        let keys: Vec<_> = pairs.iter().map(key).collect();
        let missing: BTreeSet<_> = {
            let known = lock(&self.merges);
            keys.iter().filter(|key| !known.contains_key(*key)).cloned().collect()
        };
        let missing: Vec<_> = missing.into_iter().collect();
        let answers = if missing.is_empty() { Vec::new() } else { survey.merges(&missing).await };
        let found: HashMap<_, _> = missing.into_iter().zip(answers).collect();
        let all = keys.iter().map(|key| {
            let known = || lock(&self.merges).get(key).cloned();
            found.get(key).cloned().or_else(known).unwrap_or_else(TriedMerge::unknown)
        });
        let all = all.collect();
        for (key, merged) in found.into_iter().filter(|(_, one)| one.text != TextMerge::Unknown) {
            keep_known(&self.merges, key, merged);
        }
        all
    }

    /// Tries whether a tip merges with the base branch, given that the base branch contains all commits that `merged`
    /// lead to.
    pub async fn merge_above(
        &self,
        survey: &BranchSurvey,
        tip: &str,
        merged: &[String],
    ) -> TriedMerge {
        let key = (format!("{} {}", survey.base, merged.join(" ")), tip.to_owned());
        let known = lock(&self.merges).get(&key).cloned();
        if let Some(known) = known {
            return known;
        }
        let tried = survey.merge_above(tip, merged).await;
        if tried.text != TextMerge::Unknown {
            keep_known(&self.merges, key, tried.clone());
        }
        tried
    }
}

fn keep_known<V>(all: &Mutex<HashMap<(String, String), V>>, key: (String, String), value: V) {
    let mut all = lock(all);
    if all.len() >= MOST_KEPT {
        all.clear();
    }
    all.insert(key, value);
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
