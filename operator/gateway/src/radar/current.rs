//! Decides the response when the base branch has moved past a Thread's branch. Pure.

use std::collections::BTreeSet;

use codebutler_crds::branches::BranchUpdate;
use codebutler_crds::thread::BaseStanding;
use codebutler_crds::wire::TextMerge;

use super::messages::count_commits;
use crate::naming::name_files;

/// Letters of a commit that keys are made of.
const SHORT: usize = 12;

/// State of a branch against its base branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BranchPast<'a> {
    pub base: &'a str,
    pub behind: u64,
    pub text: TextMerge,
    /// Files in conflict with the base branch.
    pub conflicts: &'a BTreeSet<String>,
    /// The newest commit that both have.
    pub left: &'a str,
    /// True if it has an open pull request.
    pub has_pull: bool,
}

/// A response to that, posted once per key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RadarResponse {
    /// The role that pushes has to do something.
    Mail { key: String, text: String },
    /// People are asked whether to update the branch.
    Offer { key: String, text: String },
    /// People are told, and asked nothing.
    Say { key: String, text: String },
}

/// The new status, and the response. It is due once for each commit at which the branch left the base branch, and
/// once more if that has become a conflict.
pub(super) fn judge_base(
    past: &BranchPast<'_>,
    update: BranchUpdate,
    before: Option<&BaseStanding>,
) -> (BaseStanding, Option<RadarResponse>) {
    let told = before.filter(|known| known.left == past.left).and_then(|known| known.told);
    let standing =
        BaseStanding { behind: past.behind, text: past.text, left: past.left.to_owned(), told };
    let is_news = match told {
        None => true,
        Some(TextMerge::Conflict) => false,
        Some(TextMerge::Unknown) => past.text != TextMerge::Unknown,
        Some(TextMerge::Clean) => past.text == TextMerge::Conflict,
    };
    let response = if is_news { find_response(past, update) } else { None };
    (standing, response)
}

fn find_response(past: &BranchPast<'_>, update: BranchUpdate) -> Option<RadarResponse> {
    let BranchPast { base, behind, text, conflicts, left, has_pull } = past;
    let key = |kind: &str| format!("behind-{}-{kind}", left.get(..SHORT).unwrap_or(left));
    let moved =
        format!("`{base}` has moved on by {} since this branch left it", count_commits(*behind));
    let files = if conflicts.is_empty() {
        String::new()
    } else {
        format!(" in {}", name_files(conflicts.iter()))
    };
    let how = "call GitUpdate, which merges it in and leaves both sides in the files; settle each by what both \
               meant, run the tests, then GitCommit and GitPush, and hand over to the reviewer: what was reviewed was \
               another commit";
    match (text, update) {
        (TextMerge::Conflict, BranchUpdate::Never) => Some(RadarResponse::Say {
            key: key("conflict"),
            text: format!(
                ":warning: {moved}, and the two conflict{files}. This Repo has nobody bring branches up to \
                 date unasked: say so, or it has to happen before the merge."
            ),
        }),
        (TextMerge::Conflict, _) => Some(RadarResponse::Mail {
            key: key("conflict"),
            text: format!(
                ":warning: {moved}, and the two conflict{files}. To bring the branch up to date: {how}."
            ),
        }),
        (TextMerge::Unknown, _) if *has_pull => Some(RadarResponse::Say {
            key: key("unknown"),
            text: format!(
                ":grey_question: {moved}. Whether the two merge is not known: Git could not try it on the \
                 gateway's copy. GitUpdate in a run of this thread tells."
            ),
        }),
        // Nobody is asked before there is a pull request: it is soon enough then.
        (TextMerge::Clean, BranchUpdate::Offer) if *has_pull => Some(RadarResponse::Offer {
            key: key("clean"),
            text: format!(
                "{moved}. The two merge without a conflict; whether they work together shows when the tests \
                 run on both. Shall the branch be brought up to date, and tested again?"
            ),
        }),
        (TextMerge::Clean, BranchUpdate::Automatic) if *has_pull => Some(RadarResponse::Mail {
            key: key("clean"),
            text: format!(
                "{moved}, and the two merge without a conflict. Bring the branch up to date: GitUpdate, run the \
                 test command, then GitPush, and hand over to the reviewer: what was reviewed was another commit. If a test \
                 fails, both sides don't work together: fix that first."
            ),
        }),
        _ => None,
    }
}

/// Short summary, for a column of `kubectl get`.
pub(super) fn summarize_base(standing: &BaseStanding) -> String {
    let BaseStanding { behind, text, .. } = standing;
    match text {
        TextMerge::Clean => format!("{behind} behind"),
        TextMerge::Conflict => format!("{behind} behind, conflict"),
        TextMerge::Unknown => format!("{behind} behind, unknown"),
    }
}

#[cfg(test)]
mod tests {
    use BranchUpdate::{Automatic, Never, Offer};

    use super::*;

    const LEFT: &str = "abcdef0123456789abcdef0123456789abcdef01";

    fn past(text: TextMerge, conflicts: &BTreeSet<String>) -> BranchPast<'_> {
        BranchPast { base: "main", behind: 2, text, conflicts, left: LEFT, has_pull: true }
    }

    fn key(response: Option<RadarResponse>) -> Option<(&'static str, String)> {
        response.map(|response| match response {
            RadarResponse::Mail { key, .. } => ("mail", key),
            RadarResponse::Offer { key, .. } => ("offer", key),
            RadarResponse::Say { key, .. } => ("say", key),
        })
    }

    #[test]
    fn what_merges_is_offered_or_done_and_what_conflicts_is_mail() {
        let (none, files) = (BTreeSet::new(), BTreeSet::from(["a.rs".to_owned()]));
        let of = |text, conflicts, update| key(judge_base(&past(text, conflicts), update, None).1);
        let named = |how, kind: &str| Some((how, format!("behind-abcdef012345-{kind}")));
        assert_eq!(of(TextMerge::Clean, &none, Offer), named("offer", "clean"));
        assert_eq!(of(TextMerge::Clean, &none, Automatic), named("mail", "clean"));
        assert_eq!(of(TextMerge::Clean, &none, Never), None);
        assert_eq!(of(TextMerge::Conflict, &files, Offer), named("mail", "conflict"));
        assert_eq!(of(TextMerge::Conflict, &files, Automatic), named("mail", "conflict"));
        assert_eq!(of(TextMerge::Conflict, &files, Never), named("say", "conflict"));
        assert_eq!(of(TextMerge::Unknown, &none, Automatic), named("say", "unknown"));
        let early = BranchPast { has_pull: false, ..past(TextMerge::Clean, &none) };
        assert_eq!(key(judge_base(&early, Offer, None).1), None);
        let Some(RadarResponse::Mail { text, .. }) =
            find_response(&past(TextMerge::Conflict, &files), Offer)
        else {
            panic!()
        };
        assert!(text.contains("by 2 commits") && text.contains("conflict in `a.rs`"), "{text}");
    }

    #[test]
    fn it_is_said_once_for_each_place_where_a_branch_left() {
        let (none, files) = (BTreeSet::new(), BTreeSet::from(["a.rs".to_owned()]));
        let clean = past(TextMerge::Clean, &none);
        let (mut known, _) = judge_base(&clean, Offer, None);
        assert!(judge_base(&clean, Offer, Some(&known)).1.is_some(), "until it was said");
        known.told = Some(TextMerge::Clean);
        assert_eq!(judge_base(&clean, Offer, Some(&known)).1, None);
        let conflict = past(TextMerge::Conflict, &files);
        let (mut known, response) = judge_base(&conflict, Offer, Some(&known));
        assert!(response.is_some(), "it has become worse");
        known.told = Some(TextMerge::Conflict);
        assert_eq!(judge_base(&conflict, Offer, Some(&known)).1, None);
        assert_eq!(judge_base(&clean, Offer, Some(&known)).1, None);
        let (mut unsure, _) = judge_base(&past(TextMerge::Unknown, &none), Offer, None);
        unsure.told = Some(TextMerge::Unknown);
        assert_eq!(judge_base(&past(TextMerge::Unknown, &none), Offer, Some(&unsure)).1, None);
        assert!(judge_base(&clean, Offer, Some(&unsure)).1.is_some(), "now it is known");
        let later = BranchPast { left: "1234567890123456", ..conflict };
        assert!(judge_base(&later, Offer, Some(&known)).1.is_some(), "it was settled once");
        assert_eq!(summarize_base(&known), "2 behind, conflict");
    }
}
