//! `/v1/inbox`, `/v1/messages` and `/v1/runs`: what a role hears and says, and how its runs end.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::IntoResponse;
use codebutler_crds::SlackTs;
use codebutler_crds::names;
use codebutler_crds::thread::RoleState;
use codebutler_crds::wire::{
    AskedDecision, EndVerdict, ErrorCode, FILE_NAME, LastWords, PostMessage, PostedMessage,
    RunProgress, RunReport, VersionedInbox,
};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::consent::is_own_key;
use codebutler_gateway_core::extract::{AnyCaller, JsonBody, OpenCaller, QueryParams, needs_tool};
use codebutler_gateway_core::github::{GitHub, GitHubPull};
use codebutler_gateway_core::identity;
use codebutler_gateway_core::masks;
use codebutler_gateway_core::rights::{self, DecisionRights};
use codebutler_gateway_core::threads::explain_unwritten;
use codebutler_pages::WATCH;
use codebutler_slack::{self, RoleContext, WantedInbox};
use http::header::{CONTENT_TYPE, HeaderName};
use kube::ResourceExt as _;
use serde::Deserialize;
use url::form_urlencoded;

use crate::forecast::forecast_plan;
use crate::overlap;
use crate::receipt_report;
use crate::state::SharedGateway;
use crate::steering::{self, SteeringSearch};

/// Longest wait for mail; agents ask again.
const LONGEST_WAIT: u64 = 60;
/// Longest message that is taken; Slack gets it in parts.
const MAX_TEXT: usize = 64 * 1024;
const MAX_KEY: usize = 64;
const MAX_TEST: usize = 200;

/// The query of `/v1/inbox`.
#[derive(Deserialize)]
pub(super) struct InboxQuery {
    after: Option<SlackTs>,
    #[serde(default)]
    wait: u64,
    seen: Option<String>,
}

/// Long-polls the caller's inbox.
pub(super) async fn read_inbox(
    State(gateway): State<SharedGateway>,
    AnyCaller(caller): AnyCaller,
    QueryParams(wanted): QueryParams<InboxQuery>,
) -> Result<axum::Json<VersionedInbox>, ApiError> {
    if identity::is_closed(&caller) {
        return Ok(axum::Json(codebutler_slack::closed_inbox()));
    }
    let wait = Duration::from_secs(wanted.wait.min(LONGEST_WAIT));
    let asked = WantedInbox { after: wanted.after, seen: wanted.seen };
    let inbox = gateway.work.slack.inbox_news(&caller, &asked, wait);
    match gateway.work.shutdown.run_until_cancelled(inbox).await {
        Some(inbox) => inbox.map(axum::Json),
        None => Err(ApiError::new(ErrorCode::Unavailable, "the gateway restarts: try again")),
    }
}

/// Posts a message in the caller's Thread.
pub(super) async fn post_message(
    State(gateway): State<SharedGateway>,
    OpenCaller(caller): OpenCaller,
    JsonBody(message): JsonBody<PostMessage>,
) -> Result<axum::Json<PostedMessage>, ApiError> {
    needs_tool(&caller, &["SendMessage"])?;
    check_message(&message)?;
    if message.together {
        needs_tool(&caller, &["AskRoles"])?;
    }
    let may = DecisionRights::of(&gateway.work.context.roles_of(&caller.repo));
    rights::check_decision(&may, caller.role_name(), &message, None)?;
    let open = match message.decision {
        Some(AskedDecision::Merge) => open_pull(&gateway, &caller).await?,
        Some(AskedDecision::Plan) | None => None,
    };
    rights::check_decision(&may, caller.role_name(), &message, Some(open.is_some()))?;
    let (head, warnings) = match open {
        Some(open) => (Some(open.head), open.warnings),
        None => (None, Vec::new()),
    };
    if message.decision == Some(AskedDecision::Merge) {
        // The message shows what the thread has cost.
        gateway.work.ledger.flush(&caller.key()).await;
    }
    let redactor = gateway.git.outcomes.redactor(&caller).await?;
    let test = message.test.as_deref().map(|test| redactor.mask(test).into_owned());
    let files =
        if message.decision == Some(AskedDecision::Plan) { message.files } else { Vec::new() };
    overlap::check_files(&files)?;
    let files = files.iter().map(|file| redactor.mask(file).into_owned()).collect();
    let message = PostMessage { test, files, ..message };
    let overlaps = overlap::of_plan(&gateway.work, &caller, &message.files).await;
    let note = receipt_report::under_message(&gateway.work, &caller, &message).await;
    let plans = message.decision == Some(AskedDecision::Plan);
    let forecast =
        plans.then(|| forecast_plan(&gateway.work.context, &caller.repo, message.complexity));
    let foreseen = forecast.as_ref().and_then(|forecast| forecast.line.clone());
    let page = page_link(&gateway, &caller);
    let reads_web = caller.role.spec.tools.offered().any(|tool| tool == "WebFetch");
    let unopened = gateway.egress.opened.note(&caller, &message.text).filter(|_| reads_web);
    let told = unopened.into_iter().chain(warnings).chain(overlap::overlap_lines(&overlaps));
    let note = join_notes([note, foreseen, page], told.collect());
    let estimate = forecast.and_then(|forecast| forecast.estimate);
    let beside = RoleContext { closing_head: head, note, estimate, only: None };
    let posted = gateway.work.slack.post_noted(&caller, &message, beside).await?;
    if !overlaps.is_empty() {
        let (shared, key, met) = (Arc::clone(&gateway.work), caller.key(), overlaps.clone());
        gateway.work.calls.spawn(async move { overlap::tell_of_plan(&shared, &key, &met).await });
    }
    Ok(axum::Json(PostedMessage { overlaps, ..posted }))
}

/// The note under a message: its facts in one line, and each warning in a line of its own, where none is overlooked.
fn join_notes(facts: [Option<String>; 3], warnings: Vec<String>) -> Option<String> {
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    let first = (!facts.is_empty()).then(|| facts.join(" · "));
    let lines: Vec<String> = first.into_iter().chain(warnings).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Link to the thread's page: posted once, with the first answer in it.
fn page_link(gateway: &SharedGateway, caller: &ProvenCaller) -> Option<String> {
    let thread =
        gateway.work.context.thread(&caller.key()).unwrap_or_else(|| caller.thread.clone());
    let roles = thread.status.iter().flat_map(|status| status.roles.values());
    let is_first = roles.into_iter().all(|role| role.said.is_none());
    let page = gateway.work.context.page(&caller.key()).filter(|_| is_first)?;
    Some(format!("[{WATCH}]({page})"))
}

/// The query of `/v1/pictures`.
#[derive(Deserialize)]
pub(super) struct PicturesQuery {
    message: SlackTs,
    id: String,
}

/// A picture in a message of the caller's own conversation.
pub(super) async fn read_picture(
    State(gateway): State<SharedGateway>,
    OpenCaller(caller): OpenCaller,
    QueryParams(PicturesQuery { message, id }): QueryParams<PicturesQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let (media_type, bytes) = gateway.work.slack.picture(&caller, &message, &id).await?;
    Ok(([(CONTENT_TYPE, media_type)], bytes))
}

/// The query of `/v1/files`.
#[derive(Deserialize)]
pub(super) struct FilesQuery {
    id: String,
}

/// A file in a message of the caller's own conversation, piece by piece.
pub(super) async fn read_file(
    State(gateway): State<SharedGateway>,
    OpenCaller(caller): OpenCaller,
    QueryParams(FilesQuery { id }): QueryParams<FilesQuery>,
) -> Result<impl IntoResponse, ApiError> {
    needs_tool(&caller, &["Read", "SaveAttachment"])?;
    let file = gateway.work.slack.file(&caller, &id).await?;
    let name: String = form_urlencoded::byte_serialize(file.name.as_bytes()).collect();
    // The file is somebody else's: no browser may take it for a page of ours.
    let headers = [
        (CONTENT_TYPE, "application/octet-stream".to_owned()),
        (HeaderName::from_static(FILE_NAME), name),
    ];
    Ok((headers, Body::from_stream(file.content)))
}

fn check_message(message: &PostMessage) -> Result<(), ApiError> {
    let invalid = |message: &str| Err(ApiError::new(ErrorCode::InvalidRequest, message));
    check_key(&message.key)?;
    if message.text.trim().is_empty() {
        return invalid("`text` is empty: say something");
    }
    let one_line =
        |test: &String| test.len() <= MAX_TEST && !test.trim().is_empty() && !test.contains('\n');
    if !message.test.as_ref().is_none_or(one_line) {
        return invalid("`test` has to be one line of 1 to 200 bytes");
    }
    if message.text.len() > MAX_TEXT {
        return invalid("`text` is too long: say it in less than 64 KiB");
    }
    Ok(())
}

/// Checks an idempotency key, by which the gateway finds an effect again.
pub(super) fn check_key(key: &str) -> Result<(), ApiError> {
    if is_own_key(key) {
        let message = "`key` begins like those of the gateway's own questions: choose another one";
        return Err(ApiError::new(ErrorCode::InvalidRequest, message));
    }
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_.:-".contains(&b);
    if key.is_empty() || key.len() > MAX_KEY || !key.bytes().all(plain) {
        let message = "`key` has to be 1 to 64 characters of A-Z a-z 0-9 _ . : -";
        return Err(ApiError::new(ErrorCode::InvalidRequest, message));
    }
    Ok(())
}

/// The commit that a user would merge by saying yes now.
async fn open_pull(
    gateway: &SharedGateway,
    caller: &ProvenCaller,
) -> Result<Option<OpenPull>, ApiError> {
    let branch = names::branch_name(&caller.thread.name_any());
    let found = async {
        let github = GitHub::of(&gateway.work.context, &caller.repo).await?;
        let Some(pull) = github.find_pull(&branch).await?.filter(GitHubPull::is_open) else {
            return Ok(None);
        };
        let search = SteeringSearch::begin(&gateway.git, &caller.repo, &caller.key()).await;
        let steers = match search.search(&github, pull.number, pull.head()).await {
            Ok(files) => files.sentence(),
            Err(error) => Some(steering::describe_unknown(&error)),
        };
        let restores = search.removed_from_base(&caller.thread, pull.head()).await;
        let warnings = steers.into_iter().chain(restores).collect();
        Ok(Some(OpenPull { head: pull.head().to_owned(), warnings }))
    };
    gateway.git.outcomes.note(caller, found.await).await
}

/// The head of a thread's open pull request, which a yes would merge.
struct OpenPull {
    head: String,
    /// Warnings about its steering files, and about what it would put back on the base branch, in a sentence each.
    warnings: Vec<String>,
}

/// Records the state of the caller's run. A role may end its run in a closed Thread too.
pub(super) async fn report_run(
    State(gateway): State<SharedGateway>,
    AnyCaller(caller): AnyCaller,
    JsonBody(report): JsonBody<RunReport>,
) -> Result<axum::Json<serde_json::Value>, ApiError> {
    let key = caller.key();
    let redactor = masks::as_known(&gateway.work.context, &caller.repo).await;
    // Shown by `kubectl`, and told by whoever has the pod's token.
    let report = RunReport {
        sandbox: report.sandbox.map(|sandbox| redactor.mask(&sandbox).into_owned()),
        ..report
    };
    if let (RoleState::Failed, Some(reason)) = (report.state, &report.reason)
        && !identity::is_closed(&caller)
    {
        let mark = report.done.as_ref().map_or("-", SlackTs::as_str);
        let once = format!("failed:{}:{mark}", caller.role_name());
        let reason = redactor.mask(reason);
        let text = format!("{} stopped: {reason}", caller.role.spec.display.name);
        // The run is over whether or not the thread can be told.
        match gateway.work.slack.notice(&key, &once, &text).await {
            // Whoever writes now writes to the role that stopped.
            Ok(ts) => gateway
                .work
                .slack
                .said(&key, caller.role_name(), &ts)
                .await
                .map_err(|error| explain_unwritten(&error))?,
            Err(error) => {
                tracing::warn!(thread = key.name, %error, notice = "run_failed", "notice_post_failed");
            }
        }
    }
    if report.state != RoleState::Running {
        // Whoever sees that a run has ended sees its cost, too.
        gateway.work.ledger.flush(&key).await;
    }
    gateway
        .work
        .threads
        .report(&key, caller.role_name(), &report)
        .await
        .map_err(|error| explain_unwritten(&error))?;
    gateway.work.metrics.run(&caller, report.state);
    gateway.work.slack.run_changed();
    Ok(axum::Json(serde_json::json!({})))
}

/// Decides whether the caller's run may end with its last words.
pub(super) async fn last_words(
    State(gateway): State<SharedGateway>,
    OpenCaller(caller): OpenCaller,
    JsonBody(words): JsonBody<LastWords>,
) -> Result<axum::Json<EndVerdict>, ApiError> {
    Ok(axum::Json(EndVerdict { nudge: gateway.work.slack.nudge(&caller, &words.text) }))
}

/// Records the current activity of the caller's run.
pub(super) async fn report_progress(
    State(gateway): State<SharedGateway>,
    OpenCaller(caller): OpenCaller,
    JsonBody(progress): JsonBody<RunProgress>,
) -> Result<axum::Json<serde_json::Value>, ApiError> {
    // Make sure that the redactor knows the Repo's current patterns before anything is shown.
    gateway.git.outcomes.redactor(&caller).await?;
    gateway.work.slack.progress(&caller, &progress)?;
    Ok(axum::Json(serde_json::json!({})))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_one_line_under_a_message_and_each_warning_another() {
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(join_notes([None, None, None], Vec::new()), None);
        let facts = [text("simple"), None, text("[page](x)")];
        assert_eq!(join_notes(facts.clone(), Vec::new()), text("simple · [page](x)"));
        let warnings = vec![":warning: a".to_owned(), "b".to_owned()];
        let note = join_notes(facts, warnings.clone());
        assert_eq!(note, text("simple · [page](x)\n:warning: a\nb"));
        assert_eq!(join_notes([None, None, None], warnings), text(":warning: a\nb"));
    }

    #[test]
    fn a_message_has_a_plain_key_and_some_text() {
        let message = |key: &str, text: &str| {
            check_message(&PostMessage {
                key: key.into(),
                text: text.into(),
                ..PostMessage::default()
            })
        };
        message("run-1:plan.a_B", "hello").unwrap();
        for (key, text) in
            [("", "x"), ("a b", "x"), ("é", "x"), (&"k".repeat(65), "x"), ("k", " \n")]
        {
            assert_eq!(message(key, text).unwrap_err().code, ErrorCode::InvalidRequest, "{key:?}");
        }
        assert!(message("k", &"x".repeat(MAX_TEXT + 1)).is_err());
    }
}
