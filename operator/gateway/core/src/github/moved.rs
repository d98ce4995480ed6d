//! Repositories that have another name by now. GitHub leads from the old one to the new one, and the Repo
//! goes on working; it says where to.

use codebutler_crds::Repo;
use serde::Deserialize;

use super::{GitHub, GitHubError};
use crate::context::GatewayContext;
use crate::github_access::exchange::read_answer;
use crate::remote::Remote;

#[derive(Deserialize)]
struct MovedName {
    full_name: String,
}

impl GitHub {
    /// Asks for the repository's name, and keeps it for all if it was renamed. Returns true if it
    /// was.
    ///
    /// # Errors
    /// When GitHub can't be asked, or leads elsewhere.
    pub async fn look_for_move(context: &GatewayContext, repo: &Repo) -> Result<bool, GitHubError> {
        let github = Self::of(context, repo).await?;
        let answer = github.client.get(&github.client.repo("")).await?;
        let named: MovedName = match answer.status {
            http::StatusCode::OK => read_answer(&answer)?,
            _ => return Err(github.client.complain(&answer)),
        };
        let old = Remote::parse(&repo.spec.git.url)?;
        let known = format!("{}/{}", old.owner, old.name);
        let Some(new) =
            old.renamed(&named.full_name).filter(|_| !known.eq_ignore_ascii_case(&named.full_name))
        else {
            return Ok(false);
        };
        tracing::info!(known, now = named.full_name, "repository_renamed");
        context.github.moved.put(&old, new);
        Ok(true)
    }
}

/// Remark for the Repo's condition that its repository was renamed.
pub fn moved_remark(context: &GatewayContext, repo: &Repo) -> Option<String> {
    let new = context.github.moved.of(&Remote::parse(&repo.spec.git.url).ok()?)?;
    let (owner, name) = (&new.owner, &new.name);
    Some(format!("the repository is {owner}/{name} by now: set spec.git.url to {}", new.git))
}
