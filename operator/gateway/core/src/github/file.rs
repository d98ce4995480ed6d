//! A file of a commit.

use http::StatusCode;
use serde_json::Value;

use super::exchange::read_answer;
use super::{GitHub, GitHubError};
use crate::masks::decode_content;

impl GitHub {
    /// Names of what is at the top of a commit.
    ///
    /// # Errors
    /// When GitHub can't be asked.
    pub async fn top_names(&self, commit: &str) -> Result<Vec<String>, GitHubError> {
        let answer = self.client.get(&self.client.repo(&format!("contents?ref={commit}"))).await?;
        if answer.status != StatusCode::OK {
            return Err(self.client.complain(&answer));
        }
        let entries: Vec<Value> = read_answer(&answer)?;
        let names = entries.iter().filter_map(|entry| entry["name"].as_str());
        Ok(names.map(ToOwned::to_owned).collect())
    }

    /// A small file's bytes; None if the commit has no such file, no bytes if it is something else or
    /// too large. `path` is ours: plain characters.
    ///
    /// # Errors
    /// When GitHub can't be asked.
    pub async fn file(&self, path: &str, commit: &str) -> Result<Option<Vec<u8>>, GitHubError> {
        let path = self.client.repo(&format!("contents/{path}?ref={commit}"));
        let answer = self.client.get(&path).await?;
        match answer.status {
            StatusCode::OK => {
                let file: Value = read_answer(&answer)?;
                let content = file["content"].as_str().filter(|_| file["encoding"] == "base64");
                Ok(Some(content.and_then(decode_content).unwrap_or_default()))
            }
            StatusCode::NOT_FOUND => Ok(None),
            _ => Err(self.client.complain(&answer)),
        }
    }
}
