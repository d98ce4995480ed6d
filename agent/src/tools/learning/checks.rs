//! Rules that a retrospective has to keep to.

use super::{EntryVerdict, ProposeArgs, branch_page};
use crate::memory::{
    ChangeKind, LearningChange, LearningMarks, MAX_MEMORY_LENGTH, MAX_MEMORY_TOKENS, MemoryPage,
};
use crate::tools::{ToolContext, ToolFailure};
use codebutler_guides::text::clip_text;

/// Most changes of the memory that one conversation proposes.
const MAX_PROPOSALS: usize = 3;
/// Most points of each kind in a retrospective.
const MAX_POINTS: usize = 3;
/// Most memory entries that one retrospective judges.
const MAX_VERDICTS: usize = 20;
/// File of the page that every role is shown beside its own.
const SHARED: &str = "global.md";

/// A verdict on an entry, with the entry's words.
pub(super) struct ToldVerdict {
    pub claim: String,
    pub why: String,
    pub misled: bool,
}

/// Checks the number of points, proposals and tips against their limits.
pub(super) fn check_form(args: &ProposeArgs) -> Result<(), ToolFailure> {
    let respond = |why: &str| Err(ToolFailure::Respond(why.to_owned()));
    if args.went_well.is_empty() || args.went_well.len() > MAX_POINTS {
        return respond("`wentWell` has one to three points");
    }
    if args.frictions.len() > MAX_POINTS {
        return respond("`frictions` has at most three points: the ones that cost most");
    }
    if args.tips.len() > MAX_POINTS {
        return respond("`tips` has at most three sentences");
    }
    if args.learnings.len() > MAX_PROPOSALS {
        return respond("`learnings` has at most three proposals: the ones that help most");
    }
    Ok(())
}

/// Verdicts on memory entries: as marks for the journal, and as text for people.
pub(super) async fn find_marks(
    cx: &ToolContext,
    args: &ProposeArgs,
) -> Result<(LearningMarks, Vec<ToldVerdict>), ToolFailure> {
    let (mut marks, mut told) = (LearningMarks::default(), Vec::new());
    let verdicts = args.helped.iter().map(|one| (one, false));
    let verdicts = verdicts.chain(args.misled.iter().map(|one| (one, true)));
    for (EntryVerdict { file, id, why }, misled) in verdicts.take(MAX_VERDICTS) {
        let text = branch_page(cx, file).await?.unwrap_or_default();
        let page = MemoryPage::parse(&text);
        let Some(learning) = page.find(id.trim()) else {
            let why = format!("`{file}` has no entry `{id}` that could have helped or misled");
            return Err(ToolFailure::Respond(why));
        };
        let ids = if misled { &mut marks.misled } else { &mut marks.helped };
        ids.insert(learning.id.clone());
        let why = clip_text(why.trim(), 200);
        told.push(ToldVerdict { claim: learning.claim.clone(), why, misled });
    }
    Ok((marks, told))
}

/// Refuses growth of a memory that already fills what a role is shown: additions have to replace something.
pub(crate) async fn check_growth(
    cx: &ToolContext,
    changes: &[LearningChange],
) -> Result<(), ToolFailure> {
    // Skills and the policy are not part of the pages that roles are shown.
    let pages = changes.iter().filter(|change| change.kind != ChangeKind::File);
    let mut files: Vec<&str> = pages.map(|change| change.file.as_str()).collect();
    files.sort_unstable();
    files.dedup();
    let shared = shown_size(branch_page(cx, SHARED).await?.as_deref());
    for file in files {
        let old = branch_page(cx, file).await?;
        let mut new = old.clone();
        for change in changes.iter().filter(|change| change.file == file) {
            let applied = change.apply(new.as_deref());
            new = Some(applied.map_err(|error| ToolFailure::Respond(error.to_string()))?);
        }
        let (before, after) = (shown_size(old.as_deref()), shown_size(new.as_deref()));
        let beside = if file == SHARED { 0 } else { shared };
        if after > before && after + beside > MAX_MEMORY_LENGTH {
            return Err(ToolFailure::Respond(format!(
                "`.codebutler/{file}` and `{SHARED}` together are over the {MAX_MEMORY_TOKENS} tokens that a role is \
                 shown: archive or shorten at least {} characters of entries in the same proposals, or propose nothing \
                 for this page. ReviewThread lists what should go",
                after - before
            )));
        }
    }
    Ok(())
}

/// Number of characters that can reach a prompt.
fn shown_size(page: Option<&str>) -> usize {
    MemoryPage::parse(page.unwrap_or_default()).filtered(|_, _, _| true).chars().count()
}
