//! Git LFS: files whose contents are elsewhere. The gateway passes on what is in the repository and nothing
//! else, so a pointer goes out only where the host has what it points to, and nothing takes a pointer's place.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::host::{GitHost, HostError};

/// Size limit of pointer files, in bytes.
pub(crate) const MAX_POINTER: u64 = 1024;
/// Contents that are asked for at once, as Git's own client does.
const AT_ONCE: usize = 100;
const MOST_TOLD: usize = 8;

/// Pointer file that stands in a repository for a content in Git LFS.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LfsPointer {
    /// SHA-256 of the content, in hex.
    pub oid: String,
    /// Length of the content in bytes.
    pub size: u64,
}

impl LfsPointer {
    /// Reads a file as one, if it is one.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        if bytes.len() > usize::try_from(MAX_POINTER).unwrap_or(usize::MAX) {
            return None;
        }
        let mut lines = std::str::from_utf8(bytes).ok()?.lines();
        let version = lines.next()?.strip_prefix("version https://")?;
        if !version.contains("git-lfs") && !version.contains("hawser") {
            return None;
        }
        let named: BTreeMap<&str, &str> = lines.filter_map(|line| line.split_once(' ')).collect();
        let oid = named.get("oid")?.strip_prefix("sha256:")?;
        let is_hash = oid.len() == 64 && oid.bytes().all(|b| b.is_ascii_hexdigit());
        let size = named.get("size")?.parse().ok()?;
        is_hash.then(|| Self { oid: oid.to_ascii_lowercase(), size })
    }
}

/// Files of a push that have to do with it, by path.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct LfsFiles {
    pub pointers: BTreeMap<String, LfsPointer>,
    /// Paths of files that were pointers and are none any more.
    pub replaced: BTreeSet<String>,
}

/// Asks which of these contents the host does not have.
///
/// # Errors
/// When it does not say.
pub(crate) async fn lacking_contents(
    host: &GitHost,
    files: &LfsFiles,
) -> Result<BTreeSet<LfsPointer>, HostError> {
    let pointers: Vec<LfsPointer> =
        files.pointers.values().collect::<BTreeSet<_>>().into_iter().cloned().collect();
    let mut lacking = BTreeSet::new();
    for some in pointers.chunks(AT_ONCE) {
        let answer = host.lfs(&batch_question(some)).await?;
        lacking.extend(unknown_contents(&answer.unwrap_or_default(), some));
    }
    Ok(lacking)
}

fn batch_question(pointers: &[LfsPointer]) -> Value {
    let objects: Vec<Value> =
        pointers.iter().map(|one| json!({"oid": one.oid, "size": one.size})).collect();
    json!({
        "operation": "download", "transfers": ["basic"], "hash_algo": "sha256", "objects": objects,
    })
}

/// Returns the contents that the host offers no download for.
fn unknown_contents(answer: &Value, asked: &[LfsPointer]) -> Vec<LfsPointer> {
    let objects = answer["objects"].as_array().into_iter().flatten();
    let offered: BTreeSet<&str> = objects
        .filter(|object| object["error"].is_null() && object["actions"]["download"].is_object())
        .filter_map(|object| object["oid"].as_str())
        .collect();
    asked.iter().filter(|one| !offered.contains(&*one.oid)).cloned().collect()
}

/// Returns why a push is refused: the reason beside the ref, and what to do. None if it is accepted. Paths are
/// masked.
pub(crate) fn lfs_refusal(
    files: &LfsFiles,
    lacking: &BTreeSet<LfsPointer>,
    (branch, host): (&str, &str),
) -> Option<(String, String)> {
    let replaced = files.replaced.iter().map(|path| {
        let line =
            format!("{path} is kept in Git LFS, and would be a file of the repository itself now");
        (path, line)
    });
    let pointers = files.pointers.iter().filter(|(_, pointer)| lacking.contains(pointer));
    let missing = pointers.map(|(path, pointer)| {
        let (oid, size) = (&pointer.oid[..12], pointer.size);
        let line = format!(
            "{path} points to a content of Git LFS that {host} does not have ({oid}, {size} bytes)"
        );
        (path, line)
    });
    let all: Vec<(&String, String)> = replaced.chain(missing).collect();
    let (first, _) = all.first()?;
    let told = all.iter().take(MOST_TOLD);
    let lines = told.fold(String::new(), |lines, (_, line)| lines + "\n  " + line);
    let more = all.len().saturating_sub(MOST_TOLD);
    let more = if more > 0 { format!("\n  and {more} more") } else { String::new() };
    let message = format!(
        "CodeButler refused the push of {branch}:{lines}{more}\nContents of Git LFS can't be read or \
         sent from here: take these files out of the commits of the push, and ask a person to change \
         them with git lfs."
    );
    Some((format!("Git LFS: {first}"), message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pointer(letter: char) -> LfsPointer {
        LfsPointer { oid: letter.to_string().repeat(64), size: 7 }
    }

    #[test]
    fn a_pointer_is_told_from_what_only_looks_like_one() {
        let oid = "a".repeat(64);
        let text =
            format!("version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize 7\n");
        assert_eq!(LfsPointer::read(text.as_bytes()), Some(pointer('a')));
        let more = text.replace("oid", "ext-0-x sha256:1\noid");
        assert_eq!(LfsPointer::read(more.as_bytes()), Some(pointer('a')));
        for other in [
            String::new(),
            text.replace("git-lfs", "example"),
            text.replace("size 7", "size many"),
            text.replace("aa", "zz"),
            format!("{text}{}", "x".repeat(1024)),
            "version https://git-lfs.github.com/spec/v1\n".to_owned(),
        ] {
            assert_eq!(LfsPointer::read(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn only_what_is_offered_is_there() {
        let asked = ['a', 'b', 'c', 'd'].map(pointer);
        let answer = json!({"objects": [
            {"oid": asked[0].oid, "size": 7, "actions": {"download": {"href": "https://x"}}},
            {"oid": asked[1].oid, "size": 7, "error": {"code": 404, "message": "none"}},
            {"oid": asked[2].oid, "size": 7},
        ]});
        assert_eq!(unknown_contents(&answer, &asked), asked[1..]);
        assert_eq!(unknown_contents(&Value::Null, &asked), asked);
    }

    #[test]
    fn a_refusal_names_the_files_and_what_to_do() {
        let mut files = LfsFiles::default();
        assert_eq!(lfs_refusal(&files, &BTreeSet::new(), ("b", "h")), None);
        files.pointers.insert("logo.png".to_owned(), pointer('a'));
        assert_eq!(lfs_refusal(&files, &BTreeSet::new(), ("b", "h")), None);
        let (reason, message) = lfs_refusal(&files, &[pointer('a')].into(), ("b", "h")).unwrap();
        assert_eq!(reason, "Git LFS: logo.png");
        assert!(message.contains("h does not have (aaaaaaaaaaaa, 7 bytes)"), "{message}");
        files.replaced.insert("film.mp4".to_owned());
        let (reason, message) = lfs_refusal(&files, &BTreeSet::new(), ("b", "h")).unwrap();
        assert!(reason == "Git LFS: film.mp4" && message.contains("git lfs."), "{message}");
    }
}
