//! `POST /v1/item-issues`: issues at the Git host for items of the roadmap. People say yes to all of them at
//! once; each is opened once for its item, whoever asks for it again.

use std::fmt::Write as _;

use axum::extract::State;
use codebutler_crds::names;
use codebutler_crds::wire::{ErrorCode, ItemIssue, ItemIssues, OpenItemIssues, RemoteChange};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::extract::{JsonBody, OpenCaller, needs_tool};
use codebutler_gateway_core::github::{GitHub, GitHubError, RemarkKey, text};
use codebutler_gateway_core::redact::SecretRedactor;
use codebutler_roadmap::{ItemStatus, RoadmapFile, RoadmapItem};
use kube::ResourceExt as _;

use crate::roadmap::PATH;
use crate::state::SharedGateway;

const TOOL: &str = "GHOpenIssues";
/// Maximum number of issues of one yes, and of characters that people have to read for it.
const MAX_ISSUES: usize = 20;
const MAX_SHOWN: usize = 20_000;
const MAX_TITLE: usize = 256;

/// Draft of the issue of one item.
struct DraftIssue {
    item: String,
    key: RemarkKey,
    title: String,
    body: String,
}

/// Opens the issues, or asks people first.
pub(super) async fn open_issues(
    State(gateway): State<SharedGateway>,
    OpenCaller(caller): OpenCaller,
    JsonBody(wanted): JsonBody<OpenItemIssues>,
) -> Result<axum::Json<ItemIssues>, ApiError> {
    needs_tool(&caller, &[TOOL])?;
    let redactor = gateway.git.outcomes.redactor(&caller).await?;
    // Two conversations may want the same issue at the same time.
    let repo = (caller.key().namespace, caller.repo.name_any());
    let _turn = gateway.work.context.github.turn_of_repo(repo).await;
    let read = async {
        let github = GitHub::of(&gateway.work.context, &caller.repo).await?;
        let text = read_roadmap(&github, &caller).await?;
        Ok((github, text))
    };
    let (github, text) = gateway.git.outcomes.note(&caller, read.await).await?;
    let items =
        find_items(&text, &wanted.items).map_err(|error| invalid_request(error.to_string()))?;
    let drafts: Vec<DraftIssue> =
        items.iter().map(|item| draft_issue(&caller, item, &redactor)).collect();
    let keys: Vec<&RemarkKey> = drafts.iter().map(|one| &one.key).collect();
    let found = gateway.git.outcomes.note(&caller, github.find_issues(&keys).await).await?;
    let mut issues: Vec<_> = drafts.iter().zip(found).collect();
    if issues.iter().any(|(_, url)| url.is_none()) {
        let detail = show_all(&drafts);
        if detail.chars().count() > MAX_SHOWN {
            return Err(invalid_request(format!(
                "the issues of these {} items are more than people can be asked to read at once: name fewer items",
                drafts.len()
            )));
        }
        let summary = match &*drafts {
            [one] => format!("Open an issue for item `{}` of the roadmap", one.item),
            all => format!("Open {} issues for items of the roadmap", all.len()),
        };
        let standing =
            Box::pin(gateway.work.consent.require_for(&caller, TOOL, summary, detail)).await?;
        for (one, url) in &mut issues {
            if url.is_none() {
                let made = github.make_change(&one.change(), &one.key, "").await;
                *url = Some(gateway.git.outcomes.note(&caller, made).await?);
            }
        }
        gateway.work.consent.spend(&caller, &standing).await;
    }
    let opened = issues.into_iter().filter_map(|(one, url)| {
        let url = url?;
        let number = url.rsplit('/').next().and_then(|number| number.parse().ok());
        let number = number.ok_or(GitHubError::Garbled);
        Some(number.map(|number| ItemIssue { item: one.item.clone(), number, url }))
    });
    let issues = opened.collect::<Result<_, _>>().map_err(ApiError::from)?;
    Ok(axum::Json(ItemIssues { issues }))
}

/// The file as the thread's branch has it, on which new items are before they are merged.
async fn read_roadmap(github: &GitHub, caller: &ProvenCaller) -> Result<String, GitHubError> {
    let branch = names::branch_name(&caller.thread.name_any());
    let base = &caller.repo.spec.git.branch;
    let tip = match github.tip(&branch).await? {
        Some(tip) => Some(tip),
        None => github.tip(base).await?,
    };
    let Some(tip) = tip else { return Ok(String::new()) };
    let file = github.file(PATH, &tip.commit).await?.unwrap_or_default();
    Ok(String::from_utf8_lossy(&file).into_owned())
}

/// The named items can't have issues opened.
#[derive(Debug, thiserror::Error)]
enum ItemChoiceError {
    #[error("`{PATH}` has no item `{id}`: there are {}", .known.join(", "))]
    Unknown { id: String, known: Vec<String> },
    #[error("item `{id}` has its issue already: #{number}")]
    HasIssue { id: String, number: u64 },
    #[error("item `{0}` is done")]
    Done(String),
    #[error("no open item of `{PATH}` lacks an issue")]
    NoneLeft,
    #[error("these are {0} items, and at most {MAX_ISSUES} at once: name some")]
    TooMany(usize),
}

/// The items that are to have an issue: those that are named, or all that are open and have none. Pure.
fn find_items(text: &str, named: &[String]) -> Result<Vec<RoadmapItem>, ItemChoiceError> {
    let roadmap = RoadmapFile::read(text);
    let wants = |item: &&RoadmapItem| {
        item.is_sound && item.status != ItemStatus::Done && item.issue.is_none()
    };
    let found: Vec<RoadmapItem> = if named.is_empty() {
        roadmap.items.iter().filter(wants).cloned().collect()
    } else {
        let find = |id: &String| {
            let id = id.trim().trim_start_matches('#').to_owned();
            let Some(item) = roadmap.item(&id) else {
                let known = roadmap.items.iter().map(|item| item.id.clone()).collect();
                return Err(ItemChoiceError::Unknown { id, known });
            };
            match (item.issue, item.status) {
                (Some(number), _) => Err(ItemChoiceError::HasIssue { id, number }),
                (None, ItemStatus::Done) => Err(ItemChoiceError::Done(id)),
                (None, _) => Ok(item.clone()),
            }
        };
        named.iter().map(find).collect::<Result<_, _>>()?
    };
    match found.len() {
        0 => Err(ItemChoiceError::NoneLeft),
        1..=MAX_ISSUES => Ok(found),
        many => Err(ItemChoiceError::TooMany(many)),
    }
}

fn draft_issue(caller: &ProvenCaller, item: &RoadmapItem, redactor: &SecretRedactor) -> DraftIssue {
    let RoadmapItem { id, title, criteria, notes, depends_on, .. } = item;
    let mut body = format!("Item `{id}` of `{PATH}`.\n\n**Acceptance criteria**\n\n");
    for line in criteria.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let _ = writeln!(body, "- [ ] {}", line.trim_start_matches("- "));
    }
    if !notes.is_empty() {
        let _ = write!(body, "\n{notes}\n");
    }
    if !depends_on.is_empty() {
        let ids: Vec<_> = depends_on.iter().map(|id| format!("`{id}`")).collect();
        let _ = write!(body, "\nIt waits for {}.\n", ids.join(", "));
    }
    let title = text::outgoing_text(&redactor.mask(title));
    let repo = &caller.repo;
    let (namespace, uid) = (repo.namespace().unwrap_or_default(), repo.uid().unwrap_or_default());
    DraftIssue {
        item: id.clone(),
        // The key is of the Repo, so that another conversation that asks for the same issue finds it.
        key: RemarkKey::of(&[&namespace, &repo.name_any(), &uid, "roadmap-issue", id]),
        title: title.chars().take(MAX_TITLE).collect(),
        body: text::outgoing_text(&redactor.mask(&body)),
    }
}

impl DraftIssue {
    fn change(&self) -> RemoteChange {
        let (title, body) = (self.title.clone(), self.body.clone());
        RemoteChange::Issue { title, body, labels: Vec::new() }
    }
}

/// Everything that people say yes to.
fn show_all(drafts: &[DraftIssue]) -> String {
    let shown = drafts.iter().map(|one| format!("{}\n\n{}", one.title, one.body));
    shown.collect::<Vec<_>>().join("\n\n———\n\n")
}

fn invalid_request(message: String) -> ApiError {
    ApiError::new(ErrorCode::InvalidRequest, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "## 1. Done\n- Status: done\n- Acceptance criteria: a\n\n## 2. Has one\n- Acceptance criteria: b\n\
                        - Issue: #9\n\n## 3. Open\n- Acceptance criteria: c\n\n## 4. Later\n- Depends on: 3\n- Acceptance \
                        criteria: d\n";

    fn found(named: &[&str]) -> Result<Vec<String>, String> {
        let named: Vec<String> = named.iter().map(|id| (*id).to_owned()).collect();
        let items = find_items(FILE, &named).map_err(|error| error.to_string())?;
        Ok(items.into_iter().map(|item| item.id).collect())
    }

    #[test]
    fn what_is_open_and_has_no_issue_gets_one() {
        assert_eq!(found(&[]).unwrap(), ["3", "4"]);
        assert_eq!(found(&["#4"]).unwrap(), ["4"]);
        assert_eq!(found(&["2"]).unwrap_err(), "item `2` has its issue already: #9");
        assert_eq!(found(&["1"]).unwrap_err(), "item `1` is done");
        assert!(found(&["7"]).unwrap_err().ends_with("there are 1, 2, 3, 4"));
        assert!(find_items("", &[]).unwrap_err().to_string().starts_with("no open item"));
    }
}
