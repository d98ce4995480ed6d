//! Pictures of a Thread on its Git host, where its pull request can show them: files of a commit that no branch leads
//! to, under a ref of their own. The commit is the same for the same pictures, so that a repetition changes nothing.

use std::collections::BTreeMap;

use bytes::Bytes;
use codebutler_crds::wire::ErrorCode;
use codebutler_crds::{Repo, Thread};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::context::GatewayContext;
use kube::ResourceExt as _;

use super::command::{CommandError, GitRepository};
use super::host::{GitHost, HostError, RefUpdate};
use super::mirror::PUSHES;
use super::services::GitServices;

/// Above the refs of all Threads.
const REFS: &str = "refs/codebutler/pictures";
const NAME: &str = "CodeButler";
const ADDRESS: &str = "codebutler@localhost";
const MESSAGE: &str = "Pictures of before and after the change";

/// The pictures could not be pushed to the host.
#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    #[error(transparent)]
    Host(#[from] HostError),
    #[error("the gateway can't put the pictures together: try again")]
    Command(#[from] CommandError),
    #[error("the gateway's folder for copies of repositories can't be used")]
    Folder(#[from] std::io::Error),
    /// The host refused the push, in its own words.
    #[error("{0}")]
    Refused(String),
}

/// A file of the pictures' commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PictureFile {
    /// The host has it already, as this object.
    Known(String),
    New(Bytes),
}

/// Pictures on the host now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushedPictures {
    pub commit: String,
    /// Ids of all files, by name.
    pub blobs: BTreeMap<String, String>,
}

/// Puts a commit of exactly these files under a Thread's ref, in place of what is there. The caller holds the
/// Thread's turn ([`GitServices::pictures`]).
///
/// # Errors
/// When it is not known whether it is there.
pub async fn push_pictures(
    gateway: &GitServices,
    repo: &Repo,
    thread: &str,
    files: &BTreeMap<String, PictureFile>,
) -> Result<PushedPictures, PictureError> {
    let host = GitHost::of(&gateway.context, repo).await?;
    let root = gateway.mirrors.root();
    std::fs::create_dir_all(root)?;
    let folder = tempfile::Builder::new().prefix(PUSHES).tempdir_in(root)?;
    let (made, pack) = make_commit(&GitRepository::at(folder.path()), files).await?;
    let name = ref_of(thread);
    let old = host.refs_below(&name).await?.remove(&name);
    if old.as_ref() == Some(&made.commit) {
        return Ok(made);
    }
    let update = RefUpdate { name, old, new: made.commit.clone() };
    let mut request = super::host::ask_for_update(&update);
    request.extend_from_slice(&pack);
    match host.push(&update, request.into()).await?.refused {
        None => Ok(made),
        Some(why) => Err(PictureError::Refused(format!("{}: {why}", host.host()))),
    }
}

/// Takes a Thread's pictures off its host; if there are none, that is fine.
async fn remove_pictures(
    context: &GatewayContext,
    repo: &Repo,
    thread: &str,
) -> Result<(), PictureError> {
    let host = GitHost::of(context, repo).await?;
    let name = ref_of(thread);
    let Some(old) = host.refs_below(&name).await?.remove(&name) else { return Ok(()) };
    let update = RefUpdate { name, new: "0".repeat(old.len()), old: Some(old) };
    let request = super::host::ask_for_update(&update);
    match host.push(&update, request.into()).await?.refused {
        None => Ok(()),
        Some(why) => Err(PictureError::Refused(format!("{}: {why}", host.host()))),
    }
}

/// Takes the pictures of a Thread that ends off its host.
///
/// # Errors
/// When the host can't be asked now: the end of the Thread is tried again.
pub async fn end_pictures(
    context: &GatewayContext,
    repo: &Repo,
    thread: &Thread,
) -> Result<(), ApiError> {
    let has_some = thread.status.as_ref().is_some_and(|status| status.pictures.is_some());
    if !has_some {
        return Ok(());
    }
    match remove_pictures(context, repo, &thread.name_any()).await {
        Ok(()) => Ok(()),
        Err(PictureError::Host(error)) if error.is_passing() => {
            Err(ApiError::new(ErrorCode::Unavailable, error.to_string()))
        }
        Err(error) => {
            // The Thread ends all the same: a person can delete the ref.
            tracing::warn!(thread = thread.name_any(), %error, "picture_removal_failed");
            Ok(())
        }
    }
}

fn ref_of(thread: &str) -> String {
    format!("{REFS}/{thread}")
}

/// The commit, and a pack with all of it that the host lacks.
async fn make_commit(
    git: &GitRepository,
    files: &BTreeMap<String, PictureFile>,
) -> Result<(PushedPictures, Vec<u8>), CommandError> {
    git.run(&["init", "--quiet", "--bare", "--template="], b"").await?;
    let (mut blobs, mut new) = (BTreeMap::new(), Vec::new());
    for (name, file) in files {
        let blob = match file {
            PictureFile::Known(id) => id.clone(),
            PictureFile::New(content) => {
                let id = one_line(&git.run(&["hash-object", "-w", "--stdin"], content).await?);
                new.push(id.clone());
                id
            }
        };
        blobs.insert(name.clone(), blob);
    }
    let entries = blobs
        .iter()
        .fold(String::new(), |all, (name, id)| all + "100644 blob " + id + "\t" + name + "\n");
    let tree = one_line(&git.run(&["mktree", "--missing"], entries.as_bytes()).await?);
    let mut command = git.command(&["commit-tree", &tree, "-m", MESSAGE]);
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), NAME);
        command.env(format!("GIT_{who}_EMAIL"), ADDRESS);
        command.env(format!("GIT_{who}_DATE"), "2026-01-01T00:00:00Z");
    }
    let commit = one_line(&git.start_command(command, "commit-tree")?.finish(b"").await?);
    new.extend([tree, commit.clone()]);
    let listed = new.join("\n") + "\n";
    let pack = git.run(&["pack-objects", "--stdout", "-q"], listed.as_bytes()).await?;
    Ok((PushedPictures { commit, blobs }, pack))
}

fn one_line(said: &[u8]) -> String {
    String::from_utf8_lossy(said).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn make(files: &BTreeMap<String, PictureFile>) -> (PushedPictures, Vec<u8>) {
        let folder = tempfile::tempdir().unwrap();
        let git = GitRepository::at(folder.path());
        make_commit(&git, files).await.unwrap()
    }

    #[tokio::test]
    async fn the_same_pictures_are_the_same_commit_and_what_the_host_has_is_not_sent_again() {
        let picture = |byte: u8| PictureFile::New(Bytes::from(vec![byte; 9000]));
        let files =
            BTreeMap::from([("a.png".to_owned(), picture(1)), ("b.png".to_owned(), picture(2))]);
        let (made, _) = make(&files).await;
        assert_eq!(make(&files).await.0, made);
        let known =
            files.keys().map(|name| (name.clone(), PictureFile::Known(made.blobs[name].clone())));
        let (again, small) = make(&known.collect()).await;
        assert_eq!(again, made);
        assert_eq!(&small[..12], b"PACK\0\0\0\x02\0\0\0\x02", "a tree and a commit");
        assert_eq!(make(&BTreeMap::new()).await.0.blobs, BTreeMap::new());
    }
}
