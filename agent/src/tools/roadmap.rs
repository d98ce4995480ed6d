//! Plans of a team: items for the roadmap that people accept one by one. The harness lands what they accept, by a
//! pull request.

use async_trait::async_trait;
use codebutler_roadmap::edit::{EditError, set_field};
use codebutler_roadmap::{DraftItem, FILE, ItemField, RoadmapFile, fresh_id};
use codebutler_wire as wire;
use codebutler_wire::ErrorCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::full_text::post_whole;
use super::learning::branch_page;
use super::{
    CallRisk, Handler, PushResult, RoleTool, StartedCall, ToolContext, ToolFailure, ToolOutcome,
};
use crate::gateway::GatewayError;
use crate::memory::{ChangeKind, LearningChange, LearningEntry};
use crate::toolbox::protocol::ToolboxRequest;
use crate::transcript::{ResultKind, TranscriptRecord};
use codebutler_guides::text::clip_text;

/// Question to people, below the proposed items.
const ASK: &str = "*Which of these shall the roadmap get?* Accept or reject each with its buttons, or answer `all`, \
                   `none` or `1 and 3`.";
const MAX_PROPOSED: usize = 10;
/// Most characters of an item shown beside its buttons.
const MAX_SHOWN: usize = 1_900;

pub(super) fn all() -> Vec<Box<dyn RoleTool>> {
    vec![Box::new(ProposeItems), Box::new(GhOpenIssues)]
}

/// `ProposeItems`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ProposeItemsArgs {
    /// In the order in which they are to be built; at most ten. Each is one conversation and one pull request.
    pub items: Vec<ProposedItem>,
    /// What they achieve together: one or two sentences for the people.
    pub reason: String,
}

/// One thing to build.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct ProposedItem {
    /// A few words.
    pub title: String,
    /// What has to be true at the end, each so that somebody else can check it.
    pub criteria: Vec<String>,
    /// What has to be merged first: ids of items in the roadmap, or titles of other items proposed here.
    #[serde(default)]
    pub depends_on: Vec<String>,
    /// What its builder also has to know.
    #[serde(default)]
    pub notes: String,
}

struct ProposeItems;

#[async_trait]
impl Handler for ProposeItems {
    type Args = ProposeItemsArgs;
    const NAME: &'static str = "ProposeItems";
    const DESCRIPTION: &'static str = "Asks the people, one by one, which of these items to add to the roadmap (`.codebutler/roadmap.md`). What they accept is committed for you, with ids.";
    const RISK: CallRisk = CallRisk::Speaks;

    async fn call(
        &self,
        cx: &ToolContext,
        args: ProposeItemsArgs,
        call: StartedCall<'_>,
    ) -> Result<ToolOutcome, ToolFailure> {
        let text = branch_page(cx, FILE).await?.unwrap_or_default();
        let mut random = rand::random::<u64>;
        let changes = draft_changes(&text, &args, &mut random).map_err(ToolFailure::Respond)?;
        let mut shown = Vec::new();
        for (number, change) in changes.iter().enumerate() {
            // People can approve only what they see in full, so a long item is posted whole first.
            if change.map.chars().count() > MAX_SHOWN {
                post_whole(cx, &call, number + 1, (&change.learning.claim, &change.map)).await?;
            }
            shown.push(clip_text(&change.map, MAX_SHOWN));
        }
        let reason = clip_text(args.reason.trim(), 600);
        let message = wire::PostMessage {
            key: call.key.to_owned(),
            text: format!("**For the roadmap**\n\n{reason}\n\n{ASK}"),
            learnings: shown,
            asks: true,
            ..wire::PostMessage::default()
        };
        let wire::PostedMessage { ts, .. } = cx.gateway.post(&message).await?;
        let text =
            format!("Posted as message {ts}. Your run ends here and goes on with the answers.");
        let record = Some(TranscriptRecord::Proposed { message: ts, changes, improvements: None });
        Ok(ToolOutcome::of(text, ResultKind::Waits).recording(record))
    }
}

/// `GHOpenIssues`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OpenIssuesArgs {
    /// Ids of the items; if absent, all open ones without an issue.
    #[serde(default)]
    pub items: Vec<String>,
}

struct GhOpenIssues;

#[async_trait]
impl Handler for GhOpenIssues {
    type Args = OpenIssuesArgs;
    const NAME: &'static str = "GHOpenIssues";
    const DESCRIPTION: &'static str = "Opens a GitHub issue for each of these roadmap items and records its number in the file on this conversation's branch. People are asked first, once for all: end your run while they are, and repeat exactly this call once they said yes.";
    const RISK: CallRisk = CallRisk::Speaks;

    async fn call(
        &self,
        cx: &ToolContext,
        args: OpenIssuesArgs,
        _: StartedCall<'_>,
    ) -> Result<ToolOutcome, ToolFailure> {
        let request = wire::OpenItemIssues { items: args.items };
        let wire::ItemIssues { issues } = cx.gateway.open_item_issues(&request).await?;
        let text = branch_page(cx, FILE).await?.unwrap_or_default();
        let noted =
            note_issues(&text, &issues).map_err(|error| ToolFailure::Respond(error.to_string()))?;
        let commit = commit_page(cx, noted, issues.len()).await?;
        let lines: Vec<_> =
            issues.iter().map(|one| format!("- item {}: {}", one.item, one.url)).collect();
        let hooks = match cx.push(&commit).await? {
            PushResult::Done(done) => done.hooks_named(),
            PushResult::Conflict(why) => return Err(ToolFailure::Respond(why)),
        };
        let told = open_pull_request(cx, &lines).await?;
        Ok(ToolOutcome::plain(format!("{}\n{told}{hooks}", lines.join("\n"))))
    }
}

/// Opens a pull request for the issue numbers alone, in a thread with nothing else to merge.
async fn open_pull_request(cx: &ToolContext, lines: &[String]) -> Result<String, ToolFailure> {
    let noted = "Their numbers are in the roadmap on this branch";
    match cx.gateway.pull_request().await {
        Ok(_) => return Ok(format!("{noted}: ask whether to merge that.")),
        Err(GatewayError::Refused { code: ErrorCode::InvalidRequest, .. }) => {}
        // A role that may not look it up could overwrite an existing pull request.
        Err(GatewayError::Refused { message, .. }) => {
            return Ok(format!(
                "{noted}. Whether that has a pull request is not known: {message}."
            ));
        }
        Err(error) => return Err(error.into()),
    }
    let title = "Note the issues of the roadmap's items".to_owned();
    let request = wire::OpenPullRequest { title, body: lines.join("\n"), proof: None };
    match cx.gateway.open_pull_request(&request).await {
        Ok(_) => Ok(format!("{noted}, which has a pull request now: ask whether to merge that.")),
        Err(GatewayError::Refused { message, .. }) => {
            Ok(format!("{noted}. There is no pull request for it: {message}."))
        }
        Err(error) => Err(error.into()),
    }
}

async fn commit_page(cx: &ToolContext, text: String, count: usize) -> Result<String, ToolFailure> {
    let request = ToolboxRequest::CommitLearnings {
        changes: Vec::new(),
        message: format!("Note the issues of {count} items of the roadmap\n"),
        pages: vec![(FILE.to_owned(), text)],
    };
    super::toolbox_reply::ask_text(cx, request).await
}

/// Notes the numbers of the items' issues in the file; items that no longer exist are left out.
fn note_issues(text: &str, issues: &[wire::ItemIssue]) -> Result<String, EditError> {
    let mut noted = text.to_owned();
    for wire::ItemIssue { item, number, .. } in issues {
        if RoadmapFile::read(&noted).item(item).is_some() {
            let value = format!("#{number}");
            noted = set_field(&noted, item, ItemField::Issue, &value)?;
        }
    }
    Ok(noted)
}

/// Drafts the items as they would stand in the file. Pure but for the ids.
fn draft_changes(
    page: &str,
    args: &ProposeItemsArgs,
    random: &mut impl FnMut() -> u64,
) -> Result<Vec<LearningChange>, String> {
    if args.items.is_empty() || args.items.len() > MAX_PROPOSED {
        return Err(format!("`items` has to have 1 to {MAX_PROPOSED}"));
    }
    let known = RoadmapFile::read(page);
    let mut drawn: Vec<String> = Vec::new();
    for _ in &args.items {
        let mut id = fresh_id(random());
        while known.items.iter().any(|item| item.id == id) || drawn.contains(&id) {
            id = fresh_id(random());
        }
        drawn.push(id);
    }
    let titled = |title: &str| {
        let at = args.items.iter().position(|item| item.title.trim() == title.trim());
        at.map(|at| drawn[at].clone())
    };
    let (mut changes, mut text) = (Vec::new(), page.to_owned());
    for (number, (item, id)) in (1..).zip(args.items.iter().zip(&drawn)) {
        let wrong = |why: String| format!("item {number}: {why}");
        let mut depends_on = Vec::new();
        for name in &item.depends_on {
            let given = name.trim().trim_start_matches('#');
            let found = known.item(given).map(|item| item.id.clone()).or_else(|| titled(given));
            depends_on.push(found.ok_or_else(|| {
                let ids: Vec<_> = known.items.iter().map(|item| item.id.as_str()).collect();
                wrong(format!(
                    "`dependsOn` names `{given}`, which is no item of the roadmap ({}) and no title here",
                    ids.join(", ")
                ))
            })?);
        }
        let draft = DraftItem {
            id: id.clone(),
            title: item.title.clone(),
            depends_on,
            criteria: item.criteria.clone(),
            notes: item.notes.clone(),
        };
        let learning = LearningEntry {
            id: id.clone(),
            claim: item.title.trim().to_owned(),
            ..LearningEntry::default()
        };
        let map = draft.write().map_err(|error| wrong(error.to_string()))?;
        let (file, kind) = (FILE.to_owned(), ChangeKind::Item);
        let change = LearningChange { file, kind, learning, reason: String::new(), map };
        // Later items are drafted as if all before them were accepted.
        text = change.apply(Some(&text)).map_err(|error| wrong(error.to_string()))?;
        changes.push(change);
    }
    // Changes are applied one by one: an item would lose its dependency on a later one.
    let forward = changes.iter().any(|change| {
        let written = RoadmapFile::read(&change.map);
        let there = RoadmapFile::read(&text);
        written.items.iter().any(|item| {
            there.item(&item.id).is_none_or(|in_file| in_file.depends_on != item.depends_on)
        })
    });
    if forward {
        return Err("put each item behind those that it depends on".to_owned());
    }
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Roadmap\n\n## 1. Login\n- Status: done\n- Acceptance criteria: works\n";

    fn item(title: &str, depends_on: &[&str]) -> ProposedItem {
        ProposedItem {
            title: title.to_owned(),
            criteria: vec!["finds shoes".to_owned(), "in 50 ms".to_owned()],
            depends_on: depends_on.iter().map(|id| (*id).to_owned()).collect(),
            notes: String::new(),
        }
    }

    fn drafted(items: Vec<ProposedItem>) -> Result<Vec<LearningChange>, String> {
        let mut seed = 0;
        let mut random = || {
            seed += 1;
            seed / 2
        };
        draft_changes(PAGE, &ProposeItemsArgs { items, reason: String::new() }, &mut random)
    }

    #[test]
    fn items_get_ids_of_their_own_and_wait_for_what_they_name() {
        let changes =
            drafted(vec![item("Search", &["#1"]), item("Filters", &["Search", "1"])]).unwrap();
        let [search, filters] = changes.as_slice() else { panic!("{changes:?}") };
        assert_ne!(search.learning.id, filters.learning.id);
        let both = filters.apply(Some(&search.apply(Some(PAGE)).unwrap())).unwrap();
        assert!(both.starts_with(PAGE.trim_end()), "{both}");
        let roadmap = RoadmapFile::read(&both);
        assert_eq!(roadmap.faults, []);
        assert_eq!(roadmap.items[2].depends_on, [search.learning.id.as_str(), "1"]);
        assert_eq!(search.apply(Some(&both)).unwrap(), both, "twice is once");
        // Search was rejected.
        let alone = RoadmapFile::read(&filters.apply(Some(PAGE)).unwrap());
        assert_eq!(alone.items[1].depends_on, ["1"]);
        assert_eq!(RoadmapFile::read(&search.apply(None).unwrap()).items.len(), 1);
        assert!(search.show_diff(None).contains("+ - Acceptance criteria:"));
    }

    #[test]
    fn what_can_not_stand_in_the_file_is_asked_of_nobody() {
        for (items, says) in [
            (Vec::new(), "1 to 10"),
            (
                vec![item("Search", &["9"])],
                "item 1: `dependsOn` names `9`, which is no item of the roadmap (1)",
            ),
            (vec![item("A", &["B"]), item("B", &[])], "behind those that it depends on"),
            (
                vec![ProposedItem { criteria: vec![" ".to_owned()], ..item("A", &[]) }],
                "no acceptance criteria",
            ),
            (vec![item(" ", &[])], "needs a title"),
        ] {
            let refused = drafted(items).unwrap_err();
            assert!(refused.contains(says), "{refused}");
        }
    }
}
