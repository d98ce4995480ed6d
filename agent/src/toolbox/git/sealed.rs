//! The toolbox's own repository, `.base` beside the worktree, which no command can reach.
//!
//! Commands can write everything in the worktree's `.git`: they can remove objects, and name other parents for a
//! commit (`info/grafts`, `shallow`, the commit graph). So what the base branch says, and how commits follow each
//! other, is read through this repository. It has none of those files. An object that it lacks is read from the
//! worktree's folder, where a content that does not have the hash that was asked for is an error; one that is
//! missing there too is fetched from the remote.

use std::fs;
use std::path::{Path, PathBuf};

use git2::{
    AutotagOption, Config, ErrorClass, ErrorCode, FetchOptions, Oid, RemoteRedirect, Repository,
    RepositoryInitOptions, RepositoryOpenFlags, Tree as GitTree,
};

use super::{GitSite, control, lock};
use crate::toolbox::ToolError;

/// Folder beside the worktree, in the part of the volume that is hidden from commands, and its lock.
const FOLDER: &str = ".base";
const LOCK: &str = ".base.lock";
/// Under this the base branch is kept there.
const TIP: &str = "refs/heads/base";

impl GitSite {
    pub(super) fn sealed_path(&self) -> PathBuf {
        self.work.join(FOLDER)
    }

    /// Opens the sealed repository, for what the remote said and for the ancestry of commits.
    pub(super) fn open_sealed(&self) -> Result<Repository, ToolError> {
        let repo = self.open_alone()?;
        let objects = self.tree().join(".git/objects");
        if objects.is_dir() {
            control::check_objects(&self.tree().join(".git"))?;
            repo.odb()?.add_disk_alternate(&objects.to_string_lossy())?;
        }
        Ok(repo)
    }

    /// Opens the sealed repository without the worktree's objects.
    fn open_alone(&self) -> Result<Repository, ToolError> {
        let path = self.sealed_path();
        if !path.join("HEAD").is_file() {
            make_sealed(&path)?;
        }
        let flags = RepositoryOpenFlags::NO_SEARCH | RepositoryOpenFlags::BARE;
        let nothing: [&Path; 0] = [];
        let repo = Repository::open_ext(&path, flags, nothing)?;
        repo.set_config(&Config::new()?)?;
        Ok(repo)
    }

    /// Lets the worktree's repository read what was fetched here because it was missing there.
    pub(super) fn lend_sealed(&self, repo: &Repository) -> Result<(), ToolError> {
        let objects = self.sealed_path().join("objects");
        if objects.is_dir() {
            repo.odb()?.add_disk_alternate(&objects.to_string_lossy())?;
        }
        Ok(())
    }

    /// Brings the base branch here from the remote, whatever the worktree has of it.
    fn refill_sealed(&self) -> Result<(), ToolError> {
        let _lock = lock::take_lock(&self.work.join(LOCK), lock::WAIT)?;
        let repo = self.open_alone()?;
        let mut remote = repo.remote_anonymous(&self.hello.relay_url)?;
        let mut options = FetchOptions::new();
        options.download_tags(AutotagOption::None).follow_redirects(RemoteRedirect::None);
        options.update_fetchhead(false);
        let spec = format!("+refs/heads/{}:{TIP}", self.hello.base_branch);
        remote.fetch(&[spec], Some(&mut options), None)?;
        Ok(())
    }
}

fn make_sealed(path: &Path) -> Result<(), ToolError> {
    let io = |e: std::io::Error| ToolError::Failed(format!("the volume can't be written: {e}"));
    let fresh = path.with_file_name(format!("{FOLDER}.new-{:016x}", rand::random::<u64>()));
    drop(Repository::init_opts(
        &fresh,
        RepositoryInitOptions::new().bare(true).external_template(false),
    )?);
    if let Err(error) = fs::rename(&fresh, path) {
        let _ = fs::remove_dir_all(&fresh);
        // Another pod of the thread may have been faster.
        if !path.join("HEAD").is_file() {
            return Err(io(error));
        }
    }
    Ok(())
}

/// Reads something of the base branch. What is missing is fetched once, and read again.
pub(super) fn read_base<T>(
    place: &GitSite,
    read: impl Fn(&Repository, &GitTree<'_>) -> Result<T, ToolError>,
) -> Result<T, ToolError> {
    let commit = place.base.commit()?;
    let attempt = || -> Result<T, ToolError> {
        let repo = place.open_sealed()?;
        let tree = repo.find_commit(commit).and_then(|commit| commit.tree());
        read(&repo, &tree.map_err(|error| explain_lost(&error))?)
    };
    match attempt() {
        Err(ToolError::Failed(why)) => {
            tracing::warn!(why, "base_branch_refetched");
            let again =
                |error| ToolError::Failed(format!("{why}. It can't be fetched again: {error}"));
            place.refill_sealed().map_err(again)?;
            attempt()
        }
        done => done,
    }
}

/// True where a tree has no such entry. An object that is missing gives the same code, and means another thing: what
/// it holds is not known.
pub(super) fn is_absence(error: &git2::Error) -> bool {
    error.code() == ErrorCode::NotFound && error.class() == ErrorClass::Tree
}

/// A failure of the run: without the object nothing is known of what the base branch says.
pub(super) fn explain_lost(error: &git2::Error) -> ToolError {
    ToolError::Failed(format!(
        "the repository in the worktree is damaged: {} (delete the Thread's volume to have it cloned again)",
        error.message()
    ))
}

/// True where `later` has `earlier` among its ancestors, as the commits themselves say.
pub(super) fn is_descendant(place: &GitSite, later: Oid, earlier: Oid) -> Result<bool, ToolError> {
    Ok(place.open_sealed()?.graph_descendant_of(later, earlier)?)
}
