//! A file of a commit.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use serde_json::{Value, json};

use super::{GitHub, GitHubError, GitHubPull};
use crate::github_access::exchange::read_answer;

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

    /// A small file as a branch has it now, with the id that [`Self::replace_file`] takes.
    ///
    /// # Errors
    /// When GitHub can't be asked.
    pub async fn branch_file(
        &self,
        path: &str,
        branch: &str,
    ) -> Result<Option<HostedFile>, GitHubError> {
        let branch: String = url::form_urlencoded::byte_serialize(branch.as_bytes()).collect();
        let path = self.client.repo(&format!("contents/{path}?ref={branch}"));
        let answer = self.client.get(&path).await?;
        match answer.status {
            StatusCode::OK => {
                let file: Value = read_answer(&answer)?;
                let content = file["content"].as_str().filter(|_| file["encoding"] == "base64");
                let found = content.and_then(decode_content).zip(file["sha"].as_str());
                Ok(found.map(|(bytes, id)| HostedFile { bytes, id: id.to_owned() }))
            }
            StatusCode::NOT_FOUND => Ok(None),
            _ => Err(self.client.complain(&answer)),
        }
    }

    /// Commits a file's new content on top of a branch, unless the file is not the one with `id` any more.
    /// Answers whether it is there.
    ///
    /// # Errors
    /// When GitHub refuses, or it is not known whether it is there.
    pub async fn replace_file(
        &self,
        (path, branch, id): (&str, &str, &str),
        bytes: &[u8],
        message: &str,
    ) -> Result<bool, GitHubError> {
        let body = json!({
            "message": message, "branch": branch, "sha": id, "content": STANDARD.encode(bytes),
        });
        let path = self.client.repo(&format!("contents/{path}"));
        let answer = self.client.put(&path, &body).await?;
        match answer.status {
            StatusCode::OK | StatusCode::CREATED => Ok(true),
            StatusCode::CONFLICT if names_rules(&answer.words()) => {
                Err(GitHubError::Refused { said: self.client.remark(&answer) })
            }
            // Somebody was faster, or the branch is gone.
            StatusCode::CONFLICT | StatusCode::NOT_FOUND => Ok(false),
            _ => Err(self.client.complain(&answer)),
        }
    }

    /// Has a pull request be for another branch.
    ///
    /// # Errors
    /// When GitHub refuses.
    pub async fn set_base(&self, number: u64, base: &str) -> Result<GitHubPull, GitHubError> {
        let path = self.client.repo(&format!("pulls/{number}"));
        let answer = self.client.patch(&path, &json!({"base": base})).await?;
        self.client.expect(&answer, StatusCode::OK)
    }
}

/// The bytes of a file as GitHub's API writes them.
fn decode_content(content: &str) -> Option<Vec<u8>> {
    let plain: String = content.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    STANDARD.decode(plain).ok()
}

/// True if rules of the repository forbid a commit. GitHub gives that the status of a file that has changed meanwhile.
fn names_rules(words: &str) -> bool {
    let words = words.to_ascii_lowercase();
    ["rule violations", "could not update file"].iter().any(|part| words.contains(part))
}

/// A file on a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostedFile {
    pub bytes: Vec<u8>,
    /// Id of its content.
    pub id: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_comes_in_lines_of_base64() {
        assert_eq!(decode_content("eyJh\nIjog\nMX0=\n").unwrap(), br#"{"a": 1}"#);
        assert_eq!(decode_content("no base64!"), None);
    }

    #[test]
    fn a_commit_that_rules_forbid_is_none_that_came_too_late() {
        let protected = "Could not update file: 2 of 2 required status checks are expected. Changes must be made through a pull request.";
        for refused in [
            protected,
            "Repository rule violations found\n\nCommits must have verified signatures.\n\n",
        ] {
            assert!(names_rules(refused), "{refused}");
        }
        for late in
            ["roadmap.md does not match 5717457c", "is at 5717457c but expected 0123abcd", ""]
        {
            assert!(!names_rules(late), "{late}");
        }
    }
}
