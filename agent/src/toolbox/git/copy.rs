//! A role's own copy of the worktree: for commands of a role that may not change the worktree itself.
//! It holds what a commit of everything would hold, and a `.git` of its own that borrows the objects.
//!
//! Commands write to the copy, so everything that is done in it is done on a thread that can write
//! nowhere else, whatever links are put there.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};

use git2::{Blob, Delta, Diff, Oid, Repository, RepositoryInitOptions};

use super::GitSite;
use super::control::{MAX_CONTROL, read_plain};
use super::proof::tree_of_files;
use super::sparse::set_sparse;
use super::worktree::{is_stored_as, skip_sparse, sparse_patterns};
use crate::sandbox::{SandboxPlan, run_confined};
use crate::toolbox::ToolError;
use codebutler_guides::text::clip_text;

/// References that a copy is given.
const MAX_REFERENCES: usize = 2_000;

/// State of the worktree to which a copy was last updated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyState {
    tree: Oid,
    references: Vec<(String, Oid)>,
    head: (String, Oid),
    /// Patterns of a sparse checkout.
    sparse: Option<String>,
}

/// Brings the copy at `to` to what the worktree is. After the first time only what has changed in the
/// worktree since `last` is brought; without it the copy is made the same, but for what `.gitignore`
/// names.
pub fn bring_copy(
    place: &GitSite,
    to: &Path,
    last: Option<&CopyState>,
) -> Result<CopyState, ToolError> {
    fs::create_dir_all(to).map_err(|e| copy_failure(&e))?;
    let lock = place.lock()?;
    let repo = place.open()?;
    let tree = tree_of_files(place, &repo)?;
    // A copy follows the worktree when other folders belong in it, too.
    let sparse = sparse_patterns(&repo, &place.work);
    let last = last.filter(|last| last.sparse == sparse);
    let base = if let Some(last) = last {
        last.tree
    } else {
        repo.set_workdir(to, false)?;
        tree_of_files(place, &repo)?
    };
    let head = repo.head()?;
    let branch = String::from_utf8_lossy(head.name_bytes()).into_owned();
    let head = (branch, head.peel_to_commit()?.id());
    let brought = CopyState { tree, references: list_references(&repo)?, head, sparse };
    let kept = last
        .is_some_and(|last| (&last.references, &last.head) == (&brought.references, &brought.head));
    let own = to.join(".git");
    let fresh = !kept || !own.join("HEAD").is_file();
    drop(lock);
    if base == tree && !fresh {
        return Ok(brought);
    }
    // Through no link does it reach what lies beside the worktree.
    let plan = SandboxPlan {
        write: vec![to.to_owned()],
        read: vec![place.tree(), place.sealed_path()],
        hide: vec![place.work.clone()],
    };
    let work = || -> Result<(), ToolError> {
        let repo = place.open()?;
        let (from, goal) = (repo.find_tree(base)?, repo.find_tree(tree)?);
        let diff = repo.diff_tree_to_tree(Some(&from), Some(&goal), None)?;
        change_files((&repo, &place.tree()), &diff, to).map_err(|e| copy_failure(&e))?;
        if fresh { lend_objects(place, &repo, to, &brought) } else { Ok(()) }
    };
    let done = run_confined(&plan, work);
    done.map_err(|error| ToolError::refused(error.to_string()))??;
    Ok(brought)
}

fn copy_failure(error: &io::Error) -> ToolError {
    ToolError::refused(format!("the copy of the worktree can't be written: {error}"))
}

fn list_references(repo: &Repository) -> Result<Vec<(String, Oid)>, ToolError> {
    let mut found = Vec::new();
    for reference in repo.references()?.flatten().take(MAX_REFERENCES) {
        if let (Ok(name), Some(id)) = (reference.name(), reference.target()) {
            found.push((name.to_owned(), id));
        }
    }
    found.sort();
    Ok(found)
}

/// Does to the files what the worktree has done to its own.
fn change_files((repo, tree): (&Repository, &Path), diff: &Diff<'_>, to: &Path) -> io::Result<()> {
    for delta in diff.deltas() {
        let old = delta.old_file().path().filter(|_| delta.status() != Delta::Added);
        let new = delta.new_file();
        let goal = new.path().filter(|_| delta.status() != Delta::Deleted);
        for path in old.into_iter().filter(|old| Some(*old) != goal) {
            if let Some(path) = path_inside(to, path) {
                remove_path(&path)?;
                // Folders that are empty now are none to Git.
                for folder in path.ancestors().skip(1).take_while(|folder| *folder != to) {
                    if fs::remove_dir(folder).is_err() {
                        break;
                    }
                }
            }
        }
        let Some(path) = goal.and_then(|path| path_inside(to, path)) else { continue };
        make_parents(to, &path)?;
        let mode = u32::from(new.mode());
        if mode == u32::from(git2::FileMode::Commit) {
            fs::create_dir_all(&path)?;
            continue;
        }
        let Ok(blob) = repo.find_blob(new.id()) else { continue };
        remove_path(&path)?;
        if mode == u32::from(git2::FileMode::Link) {
            symlink(std::ffi::OsStr::from_bytes(blob.content()), &path)?;
            continue;
        }
        let lies = new.path().and_then(|own| as_it_lies(repo, own, &tree.join(own), &blob));
        fs::write(&path, lies.as_deref().unwrap_or(blob.content()))?;
        let exec = mode == u32::from(git2::FileMode::BlobExecutable);
        fs::set_permissions(&path, Permissions::from_mode(if exec { 0o755 } else { 0o644 }))?;
    }
    Ok(())
}

/// The bytes of a file of the worktree that Git stores as this blob: with the line ends and in the encoding that
/// the file has there. None if it is another one by now, or if a filter would make the blob of it.
fn as_it_lies(repo: &Repository, path: &Path, full: &Path, blob: &Blob<'_>) -> Option<Vec<u8>> {
    // Four bytes a character, and a line end of two.
    let most = (blob.size() as u64).saturating_mul(8).saturating_add(8);
    let bytes = read_plain(full, most)?;
    (bytes == blob.content() || is_stored_as(repo, path, &bytes, blob.content())).then_some(bytes)
}

/// A path of a tree below the copy; none that would lead out of it or into its `.git`.
fn path_inside(to: &Path, path: &Path) -> Option<PathBuf> {
    let plain = |part: Component<'_>| match part {
        Component::Normal(name) => !name.eq_ignore_ascii_case(".git"),
        _ => false,
    };
    path.components().all(plain).then(|| to.join(path))
}

/// Whatever is there, and no link followed.
fn remove_path(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) if is_missing(&error) => Ok(()),
        Err(error) => Err(error),
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// The folders above a file: real ones.
fn make_parents(to: &Path, path: &Path) -> io::Result<()> {
    let Some(parent) = path.parent().and_then(|parent| parent.strip_prefix(to).ok()) else {
        return Ok(());
    };
    let mut at = to.to_owned();
    for part in parent.components() {
        at.push(part);
        match at.symlink_metadata() {
            Ok(meta) if meta.is_dir() => {}
            Ok(_) => {
                fs::remove_file(&at)?;
                fs::create_dir(&at)?;
            }
            Err(_) => fs::create_dir(&at)?,
        }
    }
    Ok(())
}

/// A `.git` with the worktree's branches, which finds their objects there.
fn lend_objects(
    place: &GitSite,
    repo: &Repository,
    to: &Path,
    brought: &CopyState,
) -> Result<(), ToolError> {
    let own = to.join(".git");
    remove_path(&own).map_err(|e| copy_failure(&e))?;
    let CopyState { references, head: (branch, commit), sparse, .. } = brought;
    let mut options = RepositoryInitOptions::new();
    options.external_template(false).initial_head(branch);
    drop(Repository::init_opts(to, &options)?);
    let lent = place.tree().join(".git");
    let write = |path: &str, text: &[u8]| {
        let path = own.join(path);
        path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(path, text))
    };
    let objects = format!("{}\n", lent.join("objects").display());
    write("objects/info/alternates", objects.as_bytes()).map_err(|e| copy_failure(&e))?;
    // The copy is as shallow as the clone, and excludes the same files.
    for name in ["shallow", "info/exclude"] {
        if let Some(text) = read_plain(&lent.join(name), MAX_CONTROL) {
            write(name, &text).map_err(|e| copy_failure(&e))?;
        }
    }
    let copy = Repository::open(to)?;
    for (name, id) in references {
        if let Err(error) = copy.reference(name, *id, true, "as in the worktree") {
            tracing::debug!(name = clip_text(name, 100), %error, "reference_copy_failed");
        }
    }
    if branch == "HEAD" {
        copy.set_head_detached(*commit)?;
    }
    if let Some(patterns) = sparse {
        set_sparse(&copy, patterns)?;
    }
    let mut index = copy.index()?;
    index.read_tree(&repo.find_commit(*commit)?.tree()?)?;
    skip_sparse(&copy, &mut index)?;
    index.write()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::fixture::GitFixture;
    use super::super::{prepare_worktree, snapshot_tree};
    use super::*;

    fn read(path: &Path) -> String {
        fs::read_to_string(path).unwrap_or_else(|e| e.to_string())
    }

    #[test]
    fn a_copy_follows_the_worktree_and_has_its_history() {
        let f = GitFixture::new();
        prepare_worktree(&f.place).unwrap();
        let copy = f.dir.path().join("copy");
        f.write("src/a.rs", "one\n");
        f.write("target/out", "ignored");
        let first = bring_copy(&f.place, &copy, None).unwrap();
        assert_eq!(read(&copy.join("src/a.rs")), "one\n");
        assert!(!copy.join("target").exists());
        assert_eq!(f.git(&copy, &["status", "--porcelain"]), "?? src/");
        assert_eq!(f.git(&copy, &["log", "--format=%s"]), "First");
        assert_eq!(f.git(&copy, &["diff", "origin/main", "--stat"]), "");

        // Changes that a command made in the copy stay until it is made the same.
        fs::write(copy.join("mine.txt"), "x").unwrap();
        fs::write(copy.join("README"), "changed by a command").unwrap();
        f.write("src/a.rs", "two\n");
        fs::remove_file(f.place.tree().join(".gitignore")).unwrap();
        f.write(".gitignore", "target/\n*.log\n");
        let second = bring_copy(&f.place, &copy, Some(&first)).unwrap();
        assert_eq!(read(&copy.join("src/a.rs")), "two\n");
        assert_eq!(read(&copy.join("README")), "changed by a command");
        assert_eq!(read(&copy.join("mine.txt")), "x");
        assert_ne!(snapshot_tree(&f.place, &copy).unwrap(), second.tree.to_string());

        let third = bring_copy(&f.place, &copy, None).unwrap();
        assert_eq!(
            (read(&copy.join("README")).as_str(), copy.join("mine.txt").exists()),
            ("hello\n", false)
        );
        assert_eq!(snapshot_tree(&f.place, &copy).unwrap(), third.tree.to_string());
    }

    #[test]
    fn links_in_the_copy_lead_nothing_into_the_worktree() {
        let f = GitFixture::new();
        prepare_worktree(&f.place).unwrap();
        let copy = f.dir.path().join("copy");
        f.write("src/a.rs", "one\n");
        let first = bring_copy(&f.place, &copy, None).unwrap();
        let outside = f.place.work.join("outside");
        fs::create_dir(&outside).unwrap();
        fs::remove_dir_all(copy.join("src")).unwrap();
        symlink(&outside, copy.join("src")).unwrap();
        fs::remove_dir_all(copy.join(".git")).unwrap();
        symlink(f.place.tree().join(".git"), copy.join(".git")).unwrap();
        let config = read(&f.place.tree().join(".git/config"));
        f.write("src/a.rs", "two\n");
        f.write("src/b.rs", "new\n");
        let _ = bring_copy(&f.place, &copy, Some(&first));
        let _ = bring_copy(&f.place, &copy, None);
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
        assert_eq!(read(&f.place.tree().join(".git/config")), config);
        assert_eq!(read(&copy.join("src/b.rs")), "new\n");
        assert_eq!(f.git(&f.place.tree(), &["log", "--format=%s"]), "First");
    }

    #[test]
    fn files_have_the_line_ends_and_encodings_of_the_worktree() {
        let f = GitFixture::new();
        prepare_worktree(&f.place).unwrap();
        let copy = f.dir.path().join("copy");
        f.write(
            ".gitattributes",
            "*.bat text eol=crlf\n*.rc text working-tree-encoding=UTF-16LE-BOM eol=crlf\n\
             *.lat working-tree-encoding=ISO-8859-1\n*.big filter=lfs\n* text=auto\n",
        );
        let wide: Vec<u8> =
            "\u{feff}é 1\r\n2\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let files: [(&str, &[u8]); 7] = [
            ("a.bat", b"dir\r\npause\r\n"),
            ("a.rc", &wide),
            ("sub/a.lat", b"caf\xe9\n"),
            ("mixed.txt", b"a\r\nb\nc"),
            ("a.bin", b"\0a\r\n\xff"),
            ("empty.rc", b""),
            ("plain.txt", b"a\n"),
        ];
        let tree = f.place.tree();
        for (path, bytes) in files {
            f.write(path, "");
            fs::write(tree.join(path), bytes).unwrap();
        }
        let same = |copy: &Path| {
            let differs = files.iter().filter(|(path, _)| {
                fs::read(copy.join(path)).ok() != fs::read(tree.join(path)).ok()
            });
            differs.map(|(path, _)| *path).collect::<Vec<_>>()
        };
        let first = bring_copy(&f.place, &copy, None).unwrap();
        assert!(same(&copy).is_empty(), "{:?}", same(&copy));
        fs::write(tree.join("a.bat"), "new\r\n").unwrap();
        fs::set_permissions(tree.join("a.bat"), Permissions::from_mode(0o755)).unwrap();
        let second = bring_copy(&f.place, &copy, Some(&first)).unwrap();
        assert!(same(&copy).is_empty(), "{:?}", same(&copy));
        assert_ne!(copy.join("a.bat").metadata().unwrap().permissions().mode() & 0o111, 0);
        assert_eq!(snapshot_tree(&f.place, &copy).unwrap(), second.tree.to_string());
        // Nothing but the file itself is read.
        fs::remove_file(tree.join("plain.txt")).unwrap();
        f.write("plain.bat", "x\r\n");
        let secret = f.dir.path().join("secret.bat");
        fs::write(&secret, "dir\r\n").unwrap();
        fs::remove_file(tree.join("a.bat")).unwrap();
        symlink(&secret, tree.join("a.bat")).unwrap();
        bring_copy(&f.place, &copy, Some(&second)).unwrap();
        assert!(copy.join("a.bat").symlink_metadata().unwrap().is_symlink());
        assert_eq!(fs::read(copy.join("plain.bat")).unwrap(), b"x\r\n");
    }
}
