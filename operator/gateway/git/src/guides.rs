//! Reads a repository's instructions for how to work in it, from the base branch of the gateway's copy.

use std::collections::BTreeSet;
use std::sync::Arc;

use codebutler_crds::Repo;
use codebutler_guides::UnreadFile;
use codebutler_guides::pins::{CHOOSING, PINS};
use codebutler_guides::validate::files::{FOLDER, GuideFiles, OPEN, is_judged};
use codebutler_mcp_file::MCP_FILE;
use sha2::{Digest as _, Sha256};

use super::command::{CommandError, GitRepository};
use super::host::GitHost;
use super::mirror::{MirrorError, RepoMirror, RepoMirrors};
use super::{Fresh, update_copy};
use crate::services::GitServices;

/// Bytes of a file that is judged.
const MAX_FILE: u64 = 1024 * 1024;
/// Files that are judged, and bytes of all.
const MAX_FILES: usize = 1000;
const MAX_ALL: u64 = 8 * 1024 * 1024;

/// The base branch of a copy at one moment.
pub struct BaseCopy {
    mirror: Arc<RepoMirror>,
    pub commit: String,
}

impl BaseCopy {
    /// Asks the remote; nothing where nobody has needed a copy yet, or the branch is not there.
    ///
    /// # Errors
    /// When the remote can't be asked.
    pub async fn take(gateway: &GitServices, repo: &Repo) -> Result<Option<Self>, MirrorError> {
        let mirror = gateway.mirrors.of(repo);
        if !mirror.is_there() {
            return Ok(None);
        }
        let host = GitHost::of(&gateway.context, repo).await?;
        let snapshot = update_copy(gateway, repo, &mirror, &host, Fresh::Must).await?;
        let commit = snapshot.refs.get(&format!("refs/heads/{}", repo.spec.git.branch)).cloned();
        Ok(commit.map(|commit| Self { mirror, commit }))
    }

    /// The base branch as the copy has it, however old; the remote is not asked. Nothing where there is no copy yet, or
    /// the branch is not in it.
    ///
    /// # Errors
    /// When Git can't tell.
    pub async fn known(mirrors: &RepoMirrors, repo: &Repo) -> Result<Option<Self>, MirrorError> {
        let mirror = mirrors.of(repo);
        if !mirror.is_there() {
            return Ok(None);
        }
        let refs = mirror.list_refs().await?;
        let commit = refs.get(&format!("refs/heads/{}", repo.spec.git.branch)).cloned();
        Ok(commit.map(|commit| Self { mirror, commit }))
    }

    /// Reads the files that say how to work in the repository.
    ///
    /// # Errors
    /// When Git can't tell.
    pub async fn guides(&self) -> Result<GuideFiles, MirrorError> {
        Ok(read_guides(self.mirror.git(), &self.commit).await?)
    }

    /// Finds those of some paths at which the base branch has no folder.
    ///
    /// # Errors
    /// When Git can't tell.
    pub async fn missing_folders(&self, wanted: &[String]) -> Result<Vec<String>, MirrorError> {
        Ok(missing_folders(self.mirror.git(), &self.commit, wanted).await?)
    }

    /// A digest of the files that say what a set-up installs.
    ///
    /// # Errors
    /// When Git can't tell.
    pub async fn locks(&self) -> Result<String, MirrorError> {
        let mut wanted = vec!["ls-tree", "-z", "--full-tree", self.commit.as_str(), "--"];
        wanted.extend(PINS);
        wanted.extend(CHOOSING);
        let listed = self.mirror.git().run(&wanted, b"").await?;
        Ok(hex::encode(&Sha256::digest(listed)[..16]))
    }
}

async fn missing_folders(
    git: &GitRepository,
    commit: &str,
    wanted: &[String],
) -> Result<Vec<String>, CommandError> {
    // `-t`: a folder is named also where another one in it is asked for.
    let mut asked = vec!["ls-tree", "-d", "-t", "-z", "--name-only", "--full-tree", commit, "--"];
    // A name may begin with a colon, as other words for paths do.
    let literal: Vec<String> = wanted.iter().map(|folder| format!(":(literal){folder}")).collect();
    asked.extend(literal.iter().map(String::as_str));
    let listed = git.run(&asked, b"").await?;
    let listed = String::from_utf8_lossy(&listed);
    let found: BTreeSet<&str> = listed.split('\0').collect();
    Ok(wanted.iter().filter(|folder| !found.contains(folder.as_str())).cloned().collect())
}

async fn read_guides(git: &GitRepository, commit: &str) -> Result<GuideFiles, CommandError> {
    let mut wanted = vec!["ls-tree", "-r", "-z", "-l", "--full-tree", commit, "--", FOLDER];
    wanted.extend(OPEN);
    let listed = git.run(&wanted, b"").await?;
    let listed = String::from_utf8_lossy(&listed);
    let mut files = GuideFiles::default();
    let (mut count, mut all) = (0, 0);
    for Entry { id, size, path } in listed.split('\0').filter_map(Entry::of) {
        (count, all) = (count + 1, all + size);
        let text = if count > MAX_FILES || all > MAX_ALL {
            Err(UnreadFile::new("there are too many files to judge them all"))
        } else if size > MAX_FILE {
            Err(UnreadFile::new(format!("it has more than {} KiB", MAX_FILE / 1024)))
        } else {
            Ok(git.run(&["cat-file", "blob", id], b"").await?)
        };
        files.add(path, text);
    }
    Ok(files)
}

/// The file of a commit that chooses among the Repo's servers, if there is one.
///
/// # Errors
/// When Git can't tell.
pub async fn read_server_file(
    git: &GitRepository,
    commit: &str,
) -> Result<Option<Vec<u8>>, CommandError> {
    match git.run(&["cat-file", "blob", &format!("{commit}:{MCP_FILE}")], b"").await {
        Ok(bytes) => Ok(Some(bytes)),
        // The path does not exist in the commit.
        Err(CommandError::Failed { code: 128, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A file that is judged, as `ls-tree` lists it. What is no plain file is not read as one.
struct Entry<'a> {
    id: &'a str,
    size: u64,
    path: &'a str,
}

impl<'a> Entry<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let (facts, path) = line.split_once('\t')?;
        let mut facts = facts.split_ascii_whitespace();
        let (mode, kind) = (facts.next()?, facts.next()?);
        let (id, size) = (facts.next()?, facts.next()?.parse().ok()?);
        let is_file = kind == "blob" && mode.starts_with("100");
        (is_file && is_judged(path)).then_some(Self { id, size, path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestRepository;

    #[tokio::test]
    async fn a_folder_is_not_missing_because_one_in_it_is_named_as_well() {
        let shop = TestRepository::new();
        let files = [("services/shop/a", "a\n"), ("libs/money/b", "b\n"), ("README", "c\n")];
        let commit = shop.commit(&[], &files);
        let named = ["services", "services/shop", "libs/money", "README", "libs/none"];
        let wanted = named.map(str::to_owned);
        let missing = missing_folders(&shop.git(), &commit, &wanted).await.unwrap();
        assert_eq!(missing, ["README", "libs/none"]);
    }

    #[tokio::test]
    async fn folders_are_found_whatever_their_names_are() {
        let shop = TestRepository::new();
        let names = [":c", ":!x", "#a", "a b", "~t", "a,b", "[id]", "st*r", "-dash", "a/:(top)b"];
        let files = names.map(|name| format!("{name}/file"));
        let files: Vec<(&str, &str)> = files.iter().map(|path| (path.as_str(), "a\n")).collect();
        let commit = shop.commit(&[], &files);
        let wanted: Vec<String> =
            names.into_iter().chain(["c", "st*", "[i]"]).map(str::to_owned).collect();
        let missing = missing_folders(&shop.git(), &commit, &wanted).await.unwrap();
        assert_eq!(missing, ["c", "st*", "[i]"]);
    }

    #[test]
    fn only_plain_files_that_say_how_to_work_are_read() {
        let read = |mode: &str, path: &str| {
            let line = format!("{mode} ce013625030ba8dba906f756967f9e9ca394464a       6\t{path}");
            Entry::of(&line).is_some_and(|entry| (entry.path, entry.size) == (path, 6))
        };
        assert!(read("100644 blob", ".codebutler/pm.md"));
        assert!(!read("100644 blob", ".codebutler/journals/thread-1.md"));
        assert!(!read("120000 blob", ".codebutler/coder.md"));
        assert!(!read("160000 commit", ".codebutler/skills/x.md"));
    }
}
