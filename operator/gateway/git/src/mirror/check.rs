//! The check of a copy that another process left.

use crate::command::{CommandError, GitRepository};

/// Faults in the form of objects that other programs once wrote: a remote's history has them for ever, and a copy that
/// was made anew would have them too.
const FAULTS: [&str; 19] = [
    "badDate",
    "badDateOverflow",
    "badEmail",
    "badName",
    "badTagName",
    "badTimezone",
    "duplicateEntries",
    "gitmodulesBlob",
    "gitmodulesLarge",
    "gitmodulesName",
    "gitmodulesPath",
    "gitmodulesUrl",
    "missingEmail",
    "missingNameBeforeEmail",
    "missingSpaceBeforeDate",
    "missingSpaceBeforeEmail",
    "multipleAuthors",
    "treeNotSorted",
    "zeroPaddedDate",
];

/// Full check: all reachable objects exist, and each object's content matches its id.
pub(super) async fn check_copy(git: &GitRepository) -> Result<(), CommandError> {
    let ignored = FAULTS.map(|fault| format!("fsck.{fault}=ignore"));
    let options = ignored.iter().flat_map(|option| ["-c", option.as_str()]);
    let check = ["fsck", "--full", "--no-dangling", "--no-progress"];
    let arguments: Vec<&str> = options.chain(check).collect();
    git.start_command(git.command(&arguments), "fsck")?.finish(b"").await.map(drop)
}
