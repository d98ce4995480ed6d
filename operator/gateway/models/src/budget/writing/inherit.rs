//! Takes over from earlier gateways: flags their grants, and counts the calls that they still
//! serve.

use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::spend::RepoSpend;
use codebutler_gateway_core::repo_key::RepoKey;
use codebutler_gateway_core::thread_key::ThreadKey;
use kube::ResourceExt as _;

use super::{LONGEST, SharedLedger};
use crate::budget::book::{RepoBook, ThreadBook};
use crate::budget::pot::BookHolder;

/// Wait before the first look for calls of gateways that leave; the next ones come ever later.
const LOOK: Duration = Duration::from_secs(5);

impl SharedLedger {
    /// Flags what an earlier holder was granted, before anything else is let through.
    pub(crate) async fn inherit(self: &Arc<Self>) {
        let stale = |holder: &Option<String>| holder.as_ref().is_some_and(|h| *h != self.holder);
        for thread in self.context.own_threads() {
            let budget = thread.status.as_ref().and_then(|status| status.budget.as_ref());
            let Some(budget) = budget else { continue };
            if stale(&budget.holder) || !budget.open.is_empty() {
                let thread = thread.name_any();
                tracing::warn!(thread, "model_calls_unaccounted");
            } else if budget.leaving.is_empty() {
                continue;
            }
            self.take_up_thread(ThreadKey::from(&*thread)).await;
        }
        for repo in self.context.own_repos() {
            let spend = repo.status.as_ref().and_then(|status| status.spend.as_ref());
            let open = |spend: &RepoSpend| {
                stale(&spend.holder) || !spend.open.is_empty() || !spend.leaving.is_empty()
            };
            if spend.is_some_and(open) {
                self.take_up_repo(RepoKey::from(&*repo)).await;
            }
        }
        self.lost.notify_one();
    }

    /// Looks for calls of gateways that leave, of which nobody knew when they were inherited.
    pub(crate) async fn look_elsewhere(self: &Arc<Self>) {
        let mut pause = LOOK;
        loop {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST);
            for thread in self.context.own_threads() {
                let budget = thread.status.as_ref().and_then(|status| status.budget.as_ref());
                if budget.is_some_and(|budget| !budget.leaving.is_empty()) {
                    self.take_up_thread(ThreadKey::from(&*thread)).await;
                }
            }
            for repo in self.context.own_repos() {
                let spend = repo.status.as_ref().and_then(|status| status.spend.as_ref());
                if spend.is_some_and(|spend| !spend.leaving.is_empty()) {
                    self.take_up_repo(RepoKey::from(&*repo)).await;
                }
            }
        }
    }

    async fn take_up_thread(self: &Arc<Self>, key: ThreadKey) {
        let pot = BookHolder::Thread(key.clone());
        if self.books().book(&pot).is_some() {
            return self.schedule(pot);
        }
        match self.threads.read(&key).await {
            Ok(found) => {
                let book = ThreadBook::found(found.status.as_ref(), &self.holder);
                self.books().open_thread(&key, book);
            }
            // Its first call finds the grant.
            Err(error) => tracing::warn!(thread = key.name, %error, "grant_read_failed"),
        }
        self.flag_now(pot).await;
    }

    async fn take_up_repo(self: &Arc<Self>, key: RepoKey) {
        let pot = BookHolder::Repo(key.clone());
        if self.books().book(&pot).is_some() {
            return self.schedule(pot);
        }
        match self.repos.read(&key).await {
            Ok(found) => {
                let book = RepoBook::found(found.status.as_ref(), &self.holder);
                self.books().open_repo(&key, book);
            }
            Err(error) => tracing::warn!(repo = key.name, %error, "grant_read_failed"),
        }
        self.flag_now(pot).await;
    }

    async fn flag_now(self: &Arc<Self>, pot: BookHolder) {
        if let Err(error) = self.write(&pot).await {
            tracing::warn!(?pot, %error, "grant_write_failed");
            return self.schedule(pot);
        }
        self.follow(pot);
    }

    /// Has what is under way elsewhere taken into the books when it is over.
    pub(super) fn follow(self: &Arc<Self>, pot: BookHolder) {
        if self.books().book(&pot).is_some_and(|book| !book.elsewhere.is_empty()) {
            self.schedule(pot);
        }
    }
}
