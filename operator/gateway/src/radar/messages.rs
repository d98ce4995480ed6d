//! Messages to conversations about each other's branches. Pure.

use codebutler_crds::wire::{ChangeSize, TextMerge};

use super::side::{BranchSide, MetBranch, merges_before};
use crate::naming::{count_noun, name_files, path_as_code};

/// Maximum number of places that are named.
const MAX_NAMED: usize = 5;

/// Message to `own`'s conversation about another branch. `judges` asks its reader what both mean.
pub(super) fn describe_meeting(own: &BranchSide, met: &MetBranch<'_>, judges: bool) -> String {
    let MetBranch { other, files, symbols, text, conflicts } = met;
    let who = format!("Thread {} (`{}`, {})", other.name, other.branch, describe_size(other.size));
    let places: Vec<String> = symbols.iter().take(MAX_NAMED).map(|one| path_as_code(one)).collect();
    let (first, second) = if merges_before(own, other) { (own, *other) } else { (*other, own) };
    let called = |side: &BranchSide| {
        if side.name == own.name {
            format!("this thread ({})", describe_size(side.size))
        } else {
            format!("{} ({})", side.name, describe_size(side.size))
        }
    };
    let order = format!(
        "Proposed order of merging, the smaller first: {}, then {}.",
        called(first),
        called(second)
    );
    let found = match text {
        TextMerge::Conflict => format!(
            ":warning: {who} and this thread change the same lines of {}: whichever is merged second has \
             a conflict. Nothing has to be done before the first one is merged; the second is brought up \
             to date then.",
            name_files(if conflicts.is_empty() { files } else { conflicts }.iter())
        ),
        TextMerge::Clean if files.is_empty() => {
            format!("{who} and this thread concern the same definition, in different files.")
        }
        TextMerge::Clean => {
            format!(
                "{who} changes {} too. As text the two merge without a conflict.",
                name_files(files.iter())
            )
        }
        TextMerge::Unknown => format!(
            ":grey_question: {who} changes {} too. Whether the two merge is not known: Git could not \
             try it on the gateway's copy.",
            name_files(files.iter())
        ),
    };
    let meaning = match &places[..] {
        [] => String::new(),
        places if judges => format!(
            " Both concern {}: judge whether what the two mean fits together (ListThreads says what the \
             other one plans and changes), and say here if it does not.",
            places.join(", ")
        ),
        places => format!(" Both concern {}.", places.join(", ")),
    };
    format!("{found}{meaning} {order}")
}

/// Size of a change in words, such as `3 lines in 1 file`.
pub(super) fn describe_size(size: ChangeSize) -> String {
    format!("{} in {}", count_noun(size.lines, "line"), count_noun(size.files, "file"))
}

/// Number of commits in words, such as `3 commits`.
pub(super) fn count_commits(count: u64) -> String {
    count_noun(count, "commit")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_verdict_says_what_to_do() {
        let side = |name: &str, lines| {
            let (branch, size) = (format!("codebutler/{name}"), ChangeSize { lines, files: 1 });
            BranchSide { name: name.into(), branch, created: None, size }
        };
        let (own, other) = (side("shop-1", 40), side("shop-2", 1));
        let files = BTreeSet::from(["a.rs".to_owned(), "b`c".to_owned()]);
        let (conflicts, none) = (BTreeSet::from(["a.rs".to_owned()]), BTreeSet::new());
        let symbols = ["a.rs: total".to_owned()];
        let told = |files, symbols, text, conflicts, judges| {
            describe_meeting(
                &own,
                &MetBranch { other: &other, files, symbols, text, conflicts },
                judges,
            )
        };
        insta::assert_snapshot!(
            [
                told(&files, &[], TextMerge::Conflict, &conflicts, false),
                told(&files, &symbols, TextMerge::Clean, &none, true),
                told(&none, &symbols, TextMerge::Clean, &none, false),
                told(&files, &[], TextMerge::Unknown, &none, false),
            ]
            .join("\n"),
            @r"
        :warning: Thread shop-2 (`codebutler/shop-2`, 1 line in 1 file) and this thread change the same lines of `a.rs`: whichever is merged second has a conflict. Nothing has to be done before the first one is merged; the second is brought up to date then. Proposed order of merging, the smaller first: shop-2 (1 line in 1 file), then this thread (40 lines in 1 file).
        Thread shop-2 (`codebutler/shop-2`, 1 line in 1 file) changes `a.rs`, `b'c` too. As text the two merge without a conflict. Both concern `a.rs: total`: judge whether what the two mean fits together (ListThreads says what the other one plans and changes), and say here if it does not. Proposed order of merging, the smaller first: shop-2 (1 line in 1 file), then this thread (40 lines in 1 file).
        Thread shop-2 (`codebutler/shop-2`, 1 line in 1 file) and this thread concern the same definition, in different files. Both concern `a.rs: total`. Proposed order of merging, the smaller first: shop-2 (1 line in 1 file), then this thread (40 lines in 1 file).
        :grey_question: Thread shop-2 (`codebutler/shop-2`, 1 line in 1 file) changes `a.rs`, `b'c` too. Whether the two merge is not known: Git could not try it on the gateway's copy. Proposed order of merging, the smaller first: shop-2 (1 line in 1 file), then this thread (40 lines in 1 file).
        "
        );
    }
}
