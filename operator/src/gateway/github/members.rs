//! Who may write to the repository. GitHub says it of each person when asked; what it writes beside a
//! remark (`author_association`) hides the members of an organisation from most credentials.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::StatusCode;
use parking_lot::Mutex;
use serde::Deserialize;

use super::{GitHub, GitHubError};

/// How long an answer counts.
const FRESH: Duration = Duration::from_mins(30);
const MOST: usize = 4096;

/// Answers by credential, repository and account. Cheap to clone; clones share them.
#[derive(Clone, Default)]
pub struct Members {
    known: Arc<Mutex<HashMap<String, (Instant, bool)>>>,
}

impl Members {
    fn get(&self, key: &str) -> Option<bool> {
        let known = self.known.lock();
        known.get(key).filter(|(at, _)| at.elapsed() < FRESH).map(|(_, may)| *may)
    }

    fn put(&self, key: String, may: bool) {
        let mut known = self.known.lock();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(key, (Instant::now(), may));
    }
}

#[derive(Deserialize)]
struct Permission {
    permission: String,
}

impl GitHub {
    /// Those of these accounts that may write to the repository.
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
                tracing::warn!(
                    status = answer.status.as_u16(),
                    "GitHub does not say who may write"
                );
                false
            }
            _ => {
                let said: Permission = self.client.expect(&answer, StatusCode::OK)?;
                matches!(&*said.permission, "admin" | "maintain" | "write")
            }
        };
        self.client.access.members.put(key, may);
        Ok(may)
    }
}
