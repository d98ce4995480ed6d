//! Contact of two branches: places that both change or use. Pure.

use std::collections::BTreeSet;

use codebutler_git::BranchChange;

/// Definitions that are named of two branches.
const MAX_SYMBOLS: usize = 10;

/// Places that two branches have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BranchContact {
    /// Files that both branches change.
    pub files: BTreeSet<String>,
    /// Definitions that both are at, or that one changes and the other uses: for people.
    pub symbols: Vec<String>,
}

/// Compares two branches; nothing if neither can get in the other's way.
pub fn compare_branches(one: &BranchChange, other: &BranchChange) -> Option<BranchContact> {
    let files: BTreeSet<String> = one.files.intersection(&other.files).cloned().collect();
    let same = one.symbols.intersection(&other.symbols);
    let same = same.map(|(path, name)| format!("{path}: {name}"));
    let symbols: Vec<String> = same
        .chain(used_names(one, other))
        .chain(used_names(other, one))
        .take(MAX_SYMBOLS)
        .collect();
    (!files.is_empty() || !symbols.is_empty()).then_some(BranchContact { files, symbols })
}

/// Names whose definition `one` changes and new lines of `other` use.
fn used_names(one: &BranchChange, other: &BranchChange) -> Vec<String> {
    let own = |name: &String| other.symbols.iter().any(|(_, defined)| defined == name);
    let names = one.altered.intersection(&other.mentions).filter(|name| !own(name));
    let place = |name: &String| {
        let mut places = one.symbols.iter().filter(|(_, defined)| defined == name);
        places.next().map_or_else(|| name.clone(), |(path, _)| format!("{path}: {name}"))
    };
    names.map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(
        files: &[&str],
        symbols: &[(&str, &str)],
        altered: &[&str],
        uses: &[&str],
    ) -> BranchChange {
        let owned = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect();
        let symbol = |(path, name): &(&str, &str)| ((*path).to_owned(), (*name).to_owned());
        BranchChange {
            files: owned(files),
            symbols: symbols.iter().map(symbol).collect(),
            altered: owned(altered),
            mentions: owned(uses),
            ..BranchChange::default()
        }
    }

    #[test]
    fn branches_meet_at_files_definitions_and_what_one_changes_under_the_other() {
        let one =
            change(&["a.rs", "b.rs"], &[("a.rs", "total"), ("b.rs", "price")], &["price"], &[]);
        let two = change(&["a.rs"], &[("a.rs", "total")], &[], &[]);
        let three = change(&["c.rs"], &[("c.rs", "sum")], &[], &["price"]);
        let four = change(&["d.rs"], &[("d.rs", "price")], &[], &["price"]);
        let both = compare_branches(&one, &two).unwrap();
        assert_eq!(both.files, BTreeSet::from(["a.rs".to_owned()]));
        assert_eq!(both.symbols, ["a.rs: total"]);
        let used = compare_branches(&three, &one).unwrap();
        assert_eq!((used.files.len(), used.symbols), (0, vec!["b.rs: price".to_owned()]));
        assert_eq!(compare_branches(&one, &four), None, "it has one of its own");
        assert_eq!(compare_branches(&two, &three), None);
    }
}
