//! Finds who may write to the repository. GitHub says it of each person when asked; what it writes
//! beside a remark (`author_association`) hides the members of an organisation from most
//! credentials.

use std::collections::BTreeSet;

use http::StatusCode;
use serde::Deserialize;

use super::{GitHub, GitHubError};

#[derive(Deserialize)]
struct MemberPermission {
    permission: String,
}

impl GitHub {
    /// Returns those of these accounts that may write to the repository.
    ///
    /// # Errors
    /// When GitHub can't be asked, or does not let the credential ask.
    pub async fn members(&self, logins: BTreeSet<String>) -> Result<BTreeSet<String>, GitHubError> {
        let mut members = BTreeSet::new();
        for login in logins {
            if self.may_write(&login).await? {
                members.insert(login);
            }
        }
        Ok(members)
    }

    async fn may_write(&self, login: &str) -> Result<bool, GitHubError> {
        let key = self.client.shared_key(login);
        if let Some(known) = self.client.access.members.get(&key) {
            return Ok(known);
        }
        let name: String = url::form_urlencoded::byte_serialize(login.as_bytes()).collect();
        let path = self.client.repo(&format!("collaborators/{name}/permission"));
        let answer = self.client.get(&path).await?;
        let may = match answer.status {
            // Nobody that the repository knows, or nothing that this credential is told.
            StatusCode::NOT_FOUND | StatusCode::FORBIDDEN => {
                tracing::warn!(status = answer.status.as_u16(), "github_collaborators_unreadable");
                false
            }
            _ => {
                let said: MemberPermission = self.client.expect(&answer, StatusCode::OK)?;
                matches!(&*said.permission, "admin" | "maintain" | "write")
            }
        };
        self.client.access.members.put(key, may);
        Ok(may)
    }
}
