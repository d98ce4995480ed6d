//! Slack as a place for lines that one person sees, for services that know only [`PersonalNotices`].

use async_trait::async_trait;

use super::SlackGateway;
use crate::gateway::api_error::{ApiError, require_conversation};
use crate::gateway::personal::PersonalNotices;
use crate::gateway::thread_key::ThreadKey;

/// People of `spec.access.users` that are considered.
const CONSIDERED: usize = 10;

#[async_trait]
impl PersonalNotices for SlackGateway {
    async fn find_decider(&self, thread: &ThreadKey) -> Option<String> {
        let (thread, repo) = self.inner.conversation(thread).ok()?;
        let speaker = thread.status.as_ref().and_then(|status| status.speaker.clone());
        let named = repo.spec.access.users.iter().take(CONSIDERED).cloned();
        let people = speaker.into_iter().chain(thread.spec.requested_by.clone()).chain(named);
        // A schedule has a name in place of a user id.
        for user in people.filter(|user| user.starts_with(['U', 'W'])) {
            match self.may_decide(&repo, &user).await {
                Ok(true) => return Some(user),
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(%error, "Slack does not say whether a person may decide")
                }
            }
        }
        None
    }

    async fn whisper(&self, thread: &ThreadKey, user: &str, text: &str) -> Result<(), ApiError> {
        let (thread, repo) = self.inner.conversation(thread)?;
        let place = require_conversation(&thread)?;
        let account = match self.inner.account(&repo).await {
            Ok(account) => account,
            Err(error) => return Err(self.inner.failed(error, &repo).await),
        };
        match self.inner.ephemeral(&account, place, user, text).await {
            Ok(()) => Ok(()),
            Err(error) => Err(self.inner.failed(error, &repo).await),
        }
    }
}
