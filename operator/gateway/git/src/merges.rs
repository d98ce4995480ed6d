//! Test merges: Git tries on the gateway's copy, in a temporary folder, whether commits merge as text. A result that
//! is neither plainly clean nor a conflict is unknown.

use std::collections::BTreeSet;
use std::time::Duration;

use codebutler_crds::wire::TextMerge;

use super::command::{CommandError, GitRepository};
use super::confine::CommandBounds;
use super::mirror::PUSHES;

/// Time limit of one batch.
const PATIENCE: Duration = Duration::from_mins(1);
/// Merges that one process tries.
const BATCH: usize = 400;
pub(crate) const BOUNDS: CommandBounds =
    CommandBounds { memory: 512 << 20, piece: 256 << 20, seconds: 120, file: 1 << 30 };

/// Result of a test merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriedMerge {
    pub text: TextMerge,
    /// The tree that it leads to, of a clean one.
    pub tree: Option<String>,
    /// Paths of files in conflict.
    pub files: BTreeSet<String>,
}

impl TriedMerge {
    /// Result of a merge that could not be tried.
    pub const fn unknown() -> Self {
        Self { text: TextMerge::Unknown, tree: None, files: BTreeSet::new() }
    }
}

/// Tries to merge each pair of commits; an answer for each, in order.
pub(crate) async fn try_merges(
    mirror: &GitRepository,
    pairs: &[(String, String)],
) -> Vec<TriedMerge> {
    let mut answers = Vec::with_capacity(pairs.len());
    // A pair that can't be tried ends its whole batch, so the others are tried again without it.
    let mut left: Vec<&[(String, String)]> = pairs.chunks(BATCH).rev().collect();
    while let Some(batch) = left.pop() {
        match try_batch(mirror, batch).await {
            Ok(found) => answers.extend(found),
            Err(error) if batch.len() == 1 => {
                tracing::warn!(%error, "merge_check_failed");
                answers.push(TriedMerge::unknown());
            }
            Err(_) => {
                let (first, second) = batch.split_at(batch.len() / 2);
                left.extend([second, first]);
            }
        }
    }
    answers
}

async fn try_batch(
    mirror: &GitRepository,
    pairs: &[(String, String)],
) -> Result<Vec<TriedMerge>, CommandError> {
    let beside = mirror.dir().parent().unwrap_or(mirror.dir());
    let folder = tempfile::Builder::new().prefix(PUSHES).tempdir_in(beside)?;
    try_in(&mirror.with_quarantine(folder.path(), BOUNDS), pairs).await
}

/// Tries merges like [`try_merges`], in a repository that keeps the resulting trees.
pub(crate) async fn try_in(
    git: &GitRepository,
    pairs: &[(String, String)],
) -> Result<Vec<TriedMerge>, CommandError> {
    let plain = ["merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", "--stdin"];
    let running = git.start(&plain)?;
    running.give_way();
    let input: String =
        pairs.iter().flat_map(|(one, other)| [one.as_str(), " ", other, "\n"]).collect();
    let late = |_| CommandError::TooLong("merge-tree".to_owned());
    let said = running.finish(input.as_bytes());
    let said = tokio::time::timeout(PATIENCE, said).await.map_err(late)??;
    read_merges(&said, pairs.len()).ok_or_else(|| CommandError::Failed {
        command: "merge-tree".to_owned(),
        code: 0,
        said: "its answer is not understood".to_owned(),
    })
}

/// Reads so many answers: `status NUL tree NUL (file NUL)* NUL` each. With `--stdin` a status of 1 is a
/// clean merge and 0 a conflict.
fn read_merges(said: &[u8], wanted: usize) -> Option<Vec<TriedMerge>> {
    let mut parts = said.split(|byte| *byte == 0);
    let mut answers = Vec::with_capacity(wanted);
    for _ in 0..wanted {
        let status = parts.next()?;
        let tree = std::str::from_utf8(parts.next()?).ok()?;
        let mut files = BTreeSet::new();
        loop {
            match parts.next()? {
                [] => break,
                file => files.insert(String::from_utf8_lossy(file).replace(char::is_control, "?")),
            };
        }
        let is_tree = tree.len() >= 40 && tree.bytes().all(|b| b.is_ascii_hexdigit());
        answers.push(match status {
            b"1" if files.is_empty() && is_tree => {
                TriedMerge { text: TextMerge::Clean, tree: Some(tree.to_owned()), files }
            }
            b"0" => TriedMerge { text: TextMerge::Conflict, tree: None, files },
            _ => TriedMerge::unknown(),
        });
    }
    // Nothing but the end may follow.
    matches!((parts.next(), parts.next()), (Some([]), None)).then_some(answers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestRepository;

    const TREE: &str = "9383487fdc3a973de2985d40438587550d0f2840";

    #[test]
    fn only_what_git_plainly_says_is_believed() {
        let clean = format!("1\0{TREE}\0\0");
        let conflict = format!("0\0{TREE}\0a.rs\0b\nc\0\0");
        let both = read_merges(format!("{conflict}{clean}").as_bytes(), 2).unwrap();
        assert_eq!((both[0].text, both[1].text), (TextMerge::Conflict, TextMerge::Clean));
        assert_eq!(both[0].files, BTreeSet::from(["a.rs".to_owned(), "b?c".to_owned()]));
        assert_eq!(both[1].tree.as_deref(), Some(TREE));
        // An empty list is no sign of a clean merge, nor is a status alone.
        for (said, text) in [
            (format!("0\0{TREE}\0\0"), TextMerge::Conflict),
            (format!("1\0{TREE}\0a\0\0"), TextMerge::Unknown),
            (format!("-1\0{TREE}\0\0"), TextMerge::Unknown),
            ("1\0tree\0\0".to_owned(), TextMerge::Unknown),
        ] {
            assert_eq!(read_merges(said.as_bytes(), 1).unwrap()[0].text, text, "{said:?}");
        }
        for said in ["", &clean[..20], &format!("{clean}more"), &format!("{clean}{clean}")] {
            assert_eq!(read_merges(said.as_bytes(), 1), None, "{said:?}");
        }
    }

    #[tokio::test]
    async fn fifty_branches_are_tried_against_each_other() {
        let shop = TestRepository::new();
        let lines = (0..60).map(|n| format!("line {n}\n\n\n")).collect::<Vec<_>>().concat();
        let base = shop.commit(&[], &[("a.txt", &lines)]);
        let edited = |n: usize| lines.replace(&format!("line {}\n", n / 2), &format!("new {n}\n"));
        let tips: Vec<String> =
            (0..50).map(|n| shop.commit(&[&base], &[("a.txt", &edited(n))])).collect();
        let mut pairs = Vec::new();
        for (at, one) in tips.iter().enumerate() {
            pairs.extend(tips[at + 1..].iter().map(|other| (one.clone(), other.clone())));
        }
        let alien = shop.commit(&[], &[("b.txt", "else\n")]);
        pairs.insert(7, (tips[0].clone(), alien));
        let before = (shop.objects(), shop.beside());
        let answers = try_merges(&shop.git(), &pairs).await;
        assert_eq!(answers.len(), pairs.len());
        let count = |text| answers.iter().filter(|answer| answer.text == text).count();
        // Two branches each change the same line.
        assert_eq!(count(TextMerge::Conflict), 25);
        assert_eq!(
            answers[7].text,
            TextMerge::Unknown,
            "what has nothing in common can't be tried"
        );
        assert_eq!(count(TextMerge::Unknown), 1);
        assert_eq!((shop.objects(), shop.beside()), before, "nothing of it stays");
    }
}
