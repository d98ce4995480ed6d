//! Reports the state of a Repo's Git host, on the Repo and in the thread that needs it.

use std::sync::Arc;

use codebutler_crds::Repo;
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::conditions::ConditionWriter;
use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::github::GitHubError;
use codebutler_gateway_core::masks;
use codebutler_gateway_core::notices::{ThreadNotices, report_problem};
use codebutler_gateway_core::redact::SecretRedactor;
use codebutler_gateway_core::thread_key::ThreadKey;

use super::git_warning::find_warning;

/// Reports what calls to the Git host came to. Cheap to clone.
#[derive(Clone)]
pub struct HostReports {
    context: GatewayContext,
    conditions: ConditionWriter,
    notices: Arc<dyn ThreadNotices>,
}

impl HostReports {
    pub fn new(
        context: GatewayContext,
        conditions: ConditionWriter,
        notices: Arc<dyn ThreadNotices>,
    ) -> Self {
        Self { context, conditions, notices }
    }

    /// Reports in the Repo's status if its remote can be worked with, and in the thread what it waits for.
    ///
    /// # Errors
    /// The outcome's own, for the caller.
    pub async fn note<T>(
        &self,
        caller: &ProvenCaller,
        outcome: Result<T, GitHubError>,
    ) -> Result<T, ApiError> {
        match &outcome {
            Ok(_) => {
                let remark = find_warning(&self.context, &caller.repo);
                self.conditions.git_works(&caller.repo, remark).await;
            }
            Err(error) if error.is_about_repo() => {
                self.conditions.git_fails(&caller.repo, &error.to_string()).await;
                self.report(&caller.repo, &caller.key(), &error.to_string()).await;
            }
            Err(error) if error.is_about_rules() => {
                self.report(&caller.repo, &caller.key(), &error.to_string()).await;
            }
            Err(_) => {}
        }
        outcome.map_err(ApiError::from)
    }

    /// The redactor for the caller's texts.
    ///
    /// # Errors
    /// When the repository's own patterns are not known and can't be read.
    pub async fn redactor(&self, caller: &ProvenCaller) -> Result<Arc<SecretRedactor>, ApiError> {
        match masks::current_redactor(&self.context, &caller.repo).await {
            Ok(redactor) => Ok(redactor),
            Err(error) => self.note(caller, Err(error)).await,
        }
    }

    async fn report(&self, repo: &Repo, thread: &ThreadKey, error: &str) {
        report_problem(&*self.notices, repo, thread, error).await;
    }
}
