//! Ways from a page to where the work itself is.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Redirect;
use codebutler_crds::Thread;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_history::ThreadPlace;

use super::address::AddressPath;
use super::door::PageViewer;
use super::{PageProblem, PageServices, parse_place};

/// Leads to the conversation in Slack, whose address only Slack knows.
pub(super) async fn open_slack(
    State(pages): State<PageServices>,
    viewer: PageViewer,
    AddressPath((namespace, name)): AddressPath<(String, String)>,
) -> Result<Redirect, PageProblem> {
    let place = parse_place(&namespace, &name)?;
    pages.permit(&viewer, &place).await?;
    let thread = pages.conversation(&place).ok_or(PageProblem::NoPage)?;
    let repo = pages.sight.context.repo(place.namespace(), &thread.spec.repo);
    let repo = repo.ok_or(PageProblem::NoPage)?;
    let link = pages.sight.slack.permalink(&repo, &thread).await;
    let link = link.filter(|link| link.starts_with("https://"));
    let link = link.ok_or_else(|| {
        PageProblem::Unknown("Slack does not say where the conversation is.".to_owned())
    })?;
    Ok(Redirect::to(&link))
}

impl PageServices {
    /// The Thread that a history is of, as long as there is one with a conversation.
    pub(super) fn conversation(&self, place: &ThreadPlace) -> Option<Arc<Thread>> {
        let (namespace, name) = (place.namespace().to_owned(), place.name().to_owned());
        let thread = self.sight.context.thread(&ThreadKey { namespace, name });
        thread.filter(|thread| thread.conversation().is_some())
    }
}
