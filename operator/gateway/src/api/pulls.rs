//! `GET /v1/pulls`: any pull request of the repository, or the list of the open ones. Nothing is written here.

use axum::extract::State;
use codebutler_crds::wire::{
    ErrorCode, FileDiff, HeadCheck, PullPart, PullReading, PullSummary, ReadPull,
};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::extract::{OpenCaller, QueryParams, needs_tool};
use codebutler_gateway_core::github::{GitHub, GitHubError};
use codebutler_gateway_core::redact::SecretRedactor;

use crate::state::SharedGateway;

const MAX_LINK: usize = 500;

/// Reads one pull request, or lists the open ones.
pub(super) async fn read_pull(
    State(gateway): State<SharedGateway>,
    OpenCaller(caller): OpenCaller,
    QueryParams(wanted): QueryParams<ReadPull>,
) -> Result<axum::Json<PullReading>, ApiError> {
    needs_tool(&caller, &["GHPull"])?;
    if [&wanted.link, &wanted.file].into_iter().flatten().any(|text| text.len() > MAX_LINK) {
        return Err(ApiError::new(ErrorCode::InvalidRequest, "`link` or `file` is too long"));
    }
    let redactor = gateway.git.outcomes.redactor(&caller).await?;
    let read = async {
        let github = GitHub::of(&gateway.work.context, &caller.repo).await?;
        Box::pin(read_part(&github, &wanted)).await
    };
    let mut reading = gateway.git.outcomes.note(&caller, Box::pin(read).await).await?;
    mask_reading(&redactor, &mut reading);
    Ok(axum::Json(reading))
}

async fn read_part(github: &GitHub, wanted: &ReadPull) -> Result<PullReading, GitHubError> {
    let number = match (wanted.number, wanted.link.as_deref()) {
        (Some(number), _) => number,
        (None, Some(link)) => github.number_of(link)?,
        (None, None) => return Ok(PullReading::List(github.open_pulls().await?)),
    };
    let page = wanted.page.unwrap_or(1);
    Ok(match (wanted.part, wanted.file.as_deref()) {
        (PullPart::Overview, None) => {
            PullReading::Overview(Box::new(Box::pin(github.pull_overview(number)).await?))
        }
        (PullPart::Conversation, _) => {
            PullReading::Conversation(github.pull_conversation(number, page).await?)
        }
        // A file alone means its diff.
        (PullPart::Diff | PullPart::Overview, file) => {
            PullReading::Diff(github.pull_diff(number, file, page).await?)
        }
    })
}

/// Masks the texts of a pull request: people may have pasted the Repo's secrets there.
fn mask_reading(redactor: &SecretRedactor, reading: &mut PullReading) {
    let mask = |text: &mut String| *text = redactor.mask(text).into_owned();
    let mask_summary = |pull: &mut PullSummary| {
        mask(&mut pull.title);
        mask(&mut pull.head);
    };
    match reading {
        PullReading::List(list) => list.pulls.iter_mut().for_each(mask_summary),
        PullReading::Overview(overview) => {
            mask_summary(&mut overview.summary);
            mask(&mut overview.body);
            let said = |check: &mut HeadCheck| check.summary.iter_mut().for_each(mask);
            overview.checks.iter_mut().for_each(said);
        }
        PullReading::Diff(diff) => {
            let patch = |file: &mut FileDiff| file.patch.iter_mut().for_each(mask);
            diff.files.iter_mut().for_each(patch);
        }
        PullReading::Conversation(talk) => {
            talk.said.iter_mut().for_each(|one| mask(&mut one.body));
        }
    }
}
