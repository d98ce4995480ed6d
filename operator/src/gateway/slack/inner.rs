//! What all parts look up: a conversation, its Repo and app, and what a failed call means for both.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use codebutler_crds::wire::ErrorCode;
use codebutler_crds::{Repo, Thread};
use kube::ResourceExt as _;

use super::account::{AccessError, SlackAccount};
use super::channel::RepoChannel;
use super::scopes::TokenScopes;
use super::{Inner, access, explain, reach, which};
use crate::gateway::api_error::ApiError;
use crate::gateway::dispatch::RepoTeam;
use crate::gateway::thread_key::ThreadKey;

/// How long it is told that somebody else uses the same app.
const SHARED: Duration = Duration::from_hours(1);

impl Inner {
    /// The newest known state of a Thread.
    pub(super) fn thread(&self, key: &ThreadKey) -> Option<Arc<Thread>> {
        self.threads.freshest(key, self.context.thread(key))
    }

    pub(super) async fn account(&self, repo: &Repo) -> Result<Arc<SlackAccount>, AccessError> {
        let account = self.accounts.of(&self.context, &self.web, repo).await;
        if let Err(error) = &account {
            self.reach.tell(repo, Err(explain::explain_condition(error, repo))).await;
        }
        account
    }

    /// What there is to tell of an app that works.
    pub(super) fn standing(&self, account: &SlackAccount, repo: &Repo) -> reach::ReachState {
        let lacks = account.scopes.as_ref().map(TokenScopes::lacks).unwrap_or_default();
        if !lacks.is_empty() {
            return Err(explain::explain_scopes(&lacks, repo));
        }
        let shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = account.user.as_ref().and_then(|user| shared.get(user));
        if seen.is_some_and(|seen| seen.elapsed() < SHARED) {
            return Err(explain::shared_app(repo));
        }
        let is_open = repo.spec.access.users.is_empty();
        let channel = repo.channel().filter(|_| is_open).map(str::to_owned);
        let shared = channel.is_some_and(|channel| self.outside.contains(&channel));
        let limits = account.scopes.as_ref().and_then(TokenScopes::limits);
        let others = self.sharing(repo.channel().unwrap_or_default());
        let told: Vec<String> = limits
            .into_iter()
            .chain(shared.then(|| access::SHARED.to_owned()))
            .chain(explain::explain_sharing(repo, &others))
            .collect();
        Ok((!told.is_empty()).then(|| told.join("; ")))
    }

    /// What a failed call means for the Repo, and for who wanted it.
    pub(super) async fn failed(&self, error: impl Into<AccessError>, repo: &Repo) -> ApiError {
        let error = error.into();
        if let AccessError::Call(call) = &error
            && let Some(code) = call.code()
        {
            if matches!(
                code,
                "invalid_auth" | "token_revoked" | "account_inactive" | "app_uninstalled"
            ) {
                self.accounts.forget(repo);
            }
            if reach::concerns_repo(code) {
                self.troubles.send_modify(|count| *count += 1);
                self.reach.tell(repo, Err(explain::explain_condition(&error, repo))).await;
            }
        }
        let told = explain::explain_api(&error, repo);
        // Slack may say again what it was sent.
        let message = self.context.redactors.of(repo).mask(&told.message).into_owned();
        ApiError { message, ..told }
    }

    /// Thread and Repo of a conversation.
    pub(super) fn conversation(
        &self,
        key: &ThreadKey,
    ) -> Result<(Arc<Thread>, Arc<Repo>), ApiError> {
        let gone = |what: &str| ApiError::new(ErrorCode::Unavailable, format!("no such {what}"));
        let thread = self.thread(key).ok_or_else(|| gone("Thread"))?;
        let repo = self.context.repo(&key.namespace, &thread.spec.repo);
        Ok((thread, repo.ok_or_else(|| gone("Repo"))?))
    }

    /// Short names of a Repo's roles, in its order.
    pub(super) fn role_names(&self, repo: &Repo) -> Vec<String> {
        self.context.roles_of(repo).iter().map(|role| role.spec.role.clone()).collect()
    }

    /// What a Repo's roles are for.
    pub(super) fn team(&self, repo: &Repo) -> RepoTeam {
        RepoTeam::of(&self.context.roles_of(repo))
    }

    /// A Repo as the router sees it.
    pub(super) fn channel(&self, repo: &Repo, account: &SlackAccount) -> RepoChannel {
        self.place(repo, Some(account))
    }

    /// The same; without an app it hears nothing.
    pub(super) fn place(&self, repo: &Repo, account: Option<&SlackAccount>) -> RepoChannel {
        RepoChannel {
            namespace: repo.namespace().unwrap_or_default(),
            repo: repo.name_any(),
            uid: repo.uid().unwrap_or_default(),
            id: repo.channel().unwrap_or_default().to_owned(),
            git: which::fold_address(&repo.spec.git.url),
            secret: repo.spec.slack.credentials.name.clone(),
            team: self.team(repo),
            bot_user: account.and_then(|account| account.user.clone()),
            bots: repo.spec.slack.allow_bots.clone(),
            is_own: true,
            deaf: account.is_none(),
        }
    }
}
