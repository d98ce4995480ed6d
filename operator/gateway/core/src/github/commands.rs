//! Comments anywhere in the repository that begin with a word, and the sign that one was heard.

use http::StatusCode;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;

use super::talk::PullComment;
use super::{GitHub, GitHubError, GitHubPull, text};

/// Longest words of one, in characters.
const WORDS: usize = 4000;
/// Longest part of a diff beside a comment on a line.
const HUNK: usize = 1500;
/// Longest text of a pull request.
const BODY: usize = 2500;
/// Longest part of a file's diff.
const PATCH: usize = 10_000;
/// Files of one that are named.
const FILES: usize = 100;

/// A comment with a place of its own.
#[derive(Deserialize)]
struct FoundComment {
    #[serde(flatten)]
    said: PullComment,
    /// API URL of the issue or pull request, for a comment on one.
    #[serde(default)]
    issue_url: Option<String>,
    /// API URL of the pull request, for a comment on a line.
    #[serde(default)]
    pull_request_url: Option<String>,
    #[serde(default)]
    diff_hunk: Option<String>,
}

/// Place where a command was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandPlace {
    Issue,
    Pull,
    /// A line of a pull request: file and line, and the lines around it.
    Line(String, String),
}

/// A comment that begins with the word that was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeardCommand {
    /// Id among comments of its kind.
    pub id: u64,
    pub place: CommandPlace,
    /// Number of the issue or pull request.
    pub number: u64,
    /// Login of the comment's author.
    pub author: String,
    pub page: String,
    pub at: Timestamp,
    /// Text after the command word.
    pub words: String,
}

/// Commands among the comments since a time.
#[derive(Debug, Default)]
pub struct HeardComments {
    /// Time of the newest comment of all.
    pub newest: Option<Timestamp>,
    /// Commands, oldest first.
    pub commands: Vec<HeardCommand>,
}

/// A file that a pull request changes.
#[derive(Clone, Debug, Deserialize)]
pub struct ChangedFile {
    pub filename: String,
    #[serde(default)]
    pub patch: Option<String>,
}

impl GitHub {
    /// Lists comments since then that begin with this word.
    ///
    /// # Errors
    /// When GitHub can't be asked.
    pub async fn commands(
        &self,
        since: Timestamp,
        command: &str,
    ) -> Result<HeardComments, GitHubError> {
        let query = format!("&sort=created&direction=asc&since={since:.0}");
        let (said, lines) =
            (self.client.repo("issues/comments"), self.client.repo("pulls/comments"));
        let (mut found, lines): (Vec<FoundComment>, Vec<FoundComment>) = tokio::try_join!(
            self.client.list_with(&said, &query),
            self.client.list_with(&lines, &query)
        )?;
        found.extend(lines);
        let times = found.iter().filter_map(|one| comment_time(&one.said));
        let newest = times.max();
        let commands = found.iter().filter_map(|one| heard_command(one, command));
        // One that was changed later is as old as it was.
        let mut commands: Vec<_> = commands.filter(|one| one.at >= since).collect();
        commands.sort_by_key(|one| (one.at, one.id));
        Ok(HeardComments { newest, commands })
    }

    /// Shows whoever wrote it that it was heard (`eyes`), or that it does not count (`confused`).
    ///
    /// # Errors
    /// When GitHub refuses.
    pub async fn react(&self, to: &HeardCommand, content: &str) -> Result<(), GitHubError> {
        let kind = if matches!(to.place, CommandPlace::Line(..)) { "pulls" } else { "issues" };
        let path = self.client.repo(&format!("{kind}/comments/{}/reactions", to.id));
        let answer = self.client.post(&path, &json!({"content": content})).await?;
        // It is there already.
        let status =
            if answer.status == StatusCode::OK { StatusCode::OK } else { StatusCode::CREATED };
        self.client.expect::<serde_json::Value>(&answer, status).map(drop)
    }

    /// Title and text of a pull request, and the files that it changes.
    ///
    /// # Errors
    /// When GitHub can't be asked.
    pub async fn described(
        &self,
        number: u64,
    ) -> Result<(String, String, Vec<ChangedFile>), GitHubError> {
        let files = self.client.repo(&format!("pulls/{number}/files"));
        let (pull, mut files): (GitHubPull, Vec<ChangedFile>) =
            tokio::try_join!(self.pull(number), self.client.list(&files))?;
        files.truncate(FILES);
        for file in &mut files {
            file.filename = text::one_line(&file.filename, 300);
            file.patch = file.patch.take().map(|patch| text::diff_text(&patch, PATCH));
        }
        let body = text::incoming_text(pull.body.as_deref().unwrap_or_default(), BODY);
        Ok((text::one_line(&pull.title, 300), body, files))
    }
}

fn comment_time(said: &PullComment) -> Option<Timestamp> {
    said.at()?.parse().ok()
}

fn heard_command(found: &FoundComment, command: &str) -> Option<HeardCommand> {
    let said = &found.said;
    let author = said.speaker()?.to_owned();
    let words = said.words(WORDS);
    let rest = words.strip_prefix(command)?;
    // Not the beginning of a longer word.
    if rest.starts_with(|c: char| !c.is_whitespace() && !matches!(c, ':' | ',')) {
        return None;
    }
    let words = rest.trim_start_matches([':', ',']).trim().to_owned();
    let number = |url: &String| url.rsplit('/').next()?.parse::<u64>().ok();
    let (place, number) = match (&found.pull_request_url, &found.issue_url) {
        (Some(url), _) => {
            let at = said.place()?;
            let at = at.to_string();
            let hunk = text::diff_text(found.diff_hunk.as_deref().unwrap_or_default(), HUNK);
            (CommandPlace::Line(at, hunk), number(url)?)
        }
        (None, Some(url)) if said.page().contains("/pull/") => (CommandPlace::Pull, number(url)?),
        (None, Some(url)) => (CommandPlace::Issue, number(url)?),
        (None, None) => return None,
    };
    let (id, page, at) = (said.id, said.page().to_owned(), comment_time(said)?);
    Some(HeardCommand { id, place, number, author, page, at, words })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(body: &str, more: &serde_json::Value) -> FoundComment {
        let mut all = json!({
            "id": 5, "html_url": "https://h/acme/shop/pull/12#issuecomment-5",
            "issue_url": "https://h/repos/acme/shop/issues/12",
            "user": {"login": "ana", "type": "User"}, "body": body, "created_at": "2026-01-01T00:00:00Z",
        });
        json_patch::merge(&mut all, more);
        serde_json::from_value(all).unwrap()
    }

    #[test]
    fn the_first_word_decides_and_a_longer_one_is_another() {
        let words =
            |body: &str| heard_command(&found(body, &json!({})), "/butler").map(|one| one.words);
        assert_eq!(words("/butler mend the totals\nplease").unwrap(), "mend the totals\nplease");
        assert_eq!(words("  /butler: mend").unwrap(), "mend");
        assert_eq!(words("<!-- hidden -->/butler\nmend").unwrap(), "mend");
        assert_eq!(words("/butler").unwrap(), "");
        for other in
            ["/butlers mend", "please /butler mend", "> /butler mend", "`/butler` mend", ""]
        {
            assert_eq!(words(other), None, "{other}");
        }
        let bot = found("/butler mend", &json!({"user": {"login": "x[bot]", "type": "Bot"}}));
        assert_eq!(heard_command(&bot, "/butler"), None);
    }

    #[test]
    fn a_command_knows_what_it_is_about() {
        let place = |more: &serde_json::Value| {
            let one = heard_command(&found("/butler x", more), "/butler").unwrap();
            (one.place, one.number)
        };
        assert_eq!(place(&json!({})), (CommandPlace::Pull, 12));
        let issue = json!({"html_url": "https://h/acme/shop/issues/12#issuecomment-5"});
        assert_eq!(place(&issue), (CommandPlace::Issue, 12));
        let line = json!({
            "issue_url": null, "pull_request_url": "https://h/repos/acme/shop/pulls/7",
            "path": "src/a.rs", "line": 3, "diff_hunk": "@@ -1 +1 @@\n-a\n+b",
        });
        let hunk = "@@ -1 +1 @@\n-a\n+b".to_owned();
        assert_eq!(place(&line), (CommandPlace::Line("src/a.rs:3".to_owned(), hunk), 7));
    }
}
