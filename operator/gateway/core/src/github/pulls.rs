//! Any pull request of the repository, as a role reads it: its state, its diff by file, what was said on it, and
//! the list of the open ones.

use codebutler_crds::wire::{
    FileDiff, OpenPulls, PullConversation, PullDiff, PullOverview, PullSummary, PulledFile,
    SaidOnPull,
};
use http::StatusCode;

use super::client::MOST_LISTED;
use super::files::{ListedFile, ListedFiles};
use super::talk::PullTalk;
use super::{GitHub, GitHubError, GitHubPull, text};

/// Longest description, in characters.
const BODY: usize = 16_000;
/// Longest remark, in characters.
const REMARK: usize = 4000;
/// Files that an overview names.
const NAMED: usize = 300;
/// Open pull requests in a list.
const LISTED: usize = 100;
/// Characters of diffs on a page, and of one line of them.
const DIFF_PAGE: usize = 24_000;
const DIFF_LINE: usize = 2000;
/// Characters of remarks on a page.
const TALK_PAGE: usize = 24_000;

impl GitHub {
    /// Any pull request by its number.
    ///
    /// # Errors
    /// When there is none, or GitHub can't be asked.
    pub async fn any_pull(&self, number: u64) -> Result<GitHubPull, GitHubError> {
        let answer = self.client.get(&self.client.repo(&format!("pulls/{number}"))).await?;
        if answer.status == StatusCode::NOT_FOUND {
            return Err(GitHubError::NoSuchPull { number });
        }
        self.client.expect(&answer, StatusCode::OK)
    }

    /// The number in the address of a pull request of this repository, whatever follows the number.
    ///
    /// # Errors
    /// When it leads to something else.
    pub fn number_of(&self, link: &str) -> Result<u64, GitHubError> {
        let remote = &self.client.remote;
        let other =
            || GitHubError::OtherLink { repository: format!("{}/{}", remote.owner, remote.name) };
        let link = link.trim().trim_matches(['<', '>']);
        let url = url::Url::parse(link).map_err(|_| other())?;
        let host = crate::remote::url_authority(&url);
        let mut parts = url.path_segments().ok_or_else(other)?;
        let same = |part: Option<&str>, wanted: &str| {
            part.is_some_and(|part| part.eq_ignore_ascii_case(wanted))
        };
        let here = host.is_some_and(|host| host.eq_ignore_ascii_case(&remote.host))
            && same(parts.next(), &remote.owner)
            && same(parts.next(), &remote.name)
            && matches!(parts.next(), Some("pull" | "pulls"));
        let number = parts.next().and_then(|number| number.parse().ok());
        number.filter(|_| here).ok_or_else(other)
    }

    /// The open ones, people's and CodeButler's, the latest change first.
    ///
    /// # Errors
    /// When GitHub can't be asked.
    pub async fn open_pulls(&self) -> Result<OpenPulls, GitHubError> {
        let query = "&state=open&sort=updated&direction=desc";
        let path = self.client.repo("pulls");
        let found: Vec<GitHubPull> = self.client.list_with(&path, query).await?;
        let unlisted = found.len().saturating_sub(LISTED);
        let shown = found.iter().take(LISTED).map(|pull| self.summarize(pull));
        Ok(OpenPulls { pulls: shown.collect(), unlisted })
    }

    /// A pull request without its diff and its conversation.
    ///
    /// # Errors
    /// When there is none, or GitHub can't be asked.
    pub async fn pull_overview(&self, number: u64) -> Result<PullOverview, GitHubError> {
        let pull = self.any_pull(number).await?;
        let (checks, talk, files) =
            tokio::try_join!(self.checks(pull.head()), self.talk(number), self.pull_files(number))?;
        let all = pull.file_count().unwrap_or(files.all.len()).max(files.all.len());
        let named: Vec<PulledFile> = files.all.iter().take(NAMED).map(ListedFile::named).collect();
        Ok(PullOverview {
            summary: self.summarize(&pull),
            fork: pull.fork(&self.client.remote),
            commit: pull.head().to_owned(),
            mergeable: pull.mergeable(),
            merge_state: pull.merge_state(),
            body: text::incoming_text(pull.body.as_deref().unwrap_or_default(), BODY),
            checks,
            reviews: talk.verdicts(),
            unlisted: all - named.len(),
            files: named,
            remarks: collect_talk(&talk).len(),
        })
    }

    /// A page of the diff, of all files or of one.
    ///
    /// # Errors
    /// When there is no such pull request, file or page, or GitHub can't be asked.
    pub async fn pull_diff(
        &self,
        number: u64,
        file: Option<&str>,
        page: usize,
    ) -> Result<PullDiff, GitHubError> {
        let pull = self.any_pull(number).await?;
        let ListedFiles { all, .. } = self.pull_files(number).await?;
        let unlisted = pull.file_count().unwrap_or_default().saturating_sub(all.len());
        let diffs: Vec<FileDiff> = match file {
            None => all.iter().map(ListedFile::diff).collect(),
            Some(wanted) => {
                let place = all.iter().position(|one| one.is_called(wanted));
                let place = place.ok_or_else(|| GitHubError::NotChanged {
                    file: text::one_line(wanted, 200),
                    number,
                })?;
                vec![self.whole_file(number, &all[place], place).await?]
            }
        };
        let mut pages = divide_diffs(diffs);
        let count = pages.len();
        let files = take_page(&mut pages, page)?;
        let commit = pull.head().to_owned();
        Ok(PullDiff { number, commit, page, pages: count, files, unlisted })
    }

    /// A page of what was said, oldest first.
    ///
    /// # Errors
    /// When there is no such pull request or page, or GitHub can't be asked.
    pub async fn pull_conversation(
        &self,
        number: u64,
        page: usize,
    ) -> Result<PullConversation, GitHubError> {
        self.any_pull(number).await?;
        let talk = self.talk(number).await?;
        let kinds = [&talk.comments, &talk.reviews, &talk.lines];
        let cut = kinds.iter().any(|kind| kind.len() >= MOST_LISTED);
        let mut pages = divide_by(collect_talk(&talk), TALK_PAGE, |one| one.body.len());
        let count = pages.len();
        let said = take_page(&mut pages, page)?;
        Ok(PullConversation { number, page, pages: count, said, cut })
    }

    fn summarize(&self, pull: &GitHubPull) -> PullSummary {
        let remote = &self.client.remote;
        PullSummary {
            number: pull.number,
            url: pull.html_url.clone(),
            title: text::one_line(&pull.title, 300),
            state: pull.state_word().to_owned(),
            author: pull.author(),
            head: text::one_line(&pull.head_name(remote), 300),
            base: text::one_line(pull.base(), 300),
            updated: pull.updated_at().map(|at| text::one_line(at, 40)),
            reviewers: pull.reviewers(),
            own: pull.is_own_branch(remote),
        }
    }
}

fn take_page<T>(pages: &mut Vec<Vec<T>>, page: usize) -> Result<Vec<T>, GitHubError> {
    let pages_there = pages.len();
    match page.checked_sub(1).filter(|at| *at < pages_there) {
        Some(at) => Ok(pages.swap_remove(at)),
        None => Err(GitHubError::NoPage { page, pages: pages_there }),
    }
}

/// Pages of at most so much, at least one; what alone is more has a page to itself.
fn divide_by<T>(all: Vec<T>, most: usize, length: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let (mut pages, mut used) = (vec![Vec::new()], 0);
    for one in all {
        let more = length(&one);
        let is_full = pages.last().is_some_and(|page: &Vec<T>| !page.is_empty());
        if is_full && used + more > most {
            pages.push(Vec::new());
            used = 0;
        }
        used += more;
        if let Some(page) = pages.last_mut() {
            page.push(one);
        }
    }
    pages
}

/// Long files are divided between lines, so that each page says whose lines it has.
fn divide_diffs(diffs: Vec<FileDiff>) -> Vec<Vec<FileDiff>> {
    let pieces = diffs.into_iter().flat_map(divide_file).collect();
    divide_by(pieces, DIFF_PAGE, |one: &FileDiff| {
        one.file.path.len() + one.patch.as_ref().map_or(0, String::len)
    })
}

fn divide_file(diff: FileDiff) -> Vec<FileDiff> {
    let Some(patch) = &diff.patch else { return vec![diff] };
    let mut parts = vec![String::new()];
    for line in patch.lines() {
        let line = text::diff_text(line, DIFF_LINE);
        let is_full = parts.last().is_some_and(|part| {
            !part.is_empty() && part.len() + line.len() + 1 > DIFF_PAGE - diff.file.path.len()
        });
        if is_full {
            parts.push(String::new());
        }
        if let Some(part) = parts.last_mut() {
            part.push_str(&line);
            part.push('\n');
        }
    }
    let of = |(at, part): (usize, String)| FileDiff {
        patch: Some(part.trim_end_matches('\n').to_owned()),
        continued: at > 0,
        ..diff.clone()
    };
    parts.into_iter().enumerate().map(of).collect()
}

fn collect_talk(talk: &PullTalk) -> Vec<SaidOnPull> {
    let comments = talk.comments.iter().map(|one| (one, None));
    let reviews = talk.reviews.iter().map(|one| (one, Some(one.verdict())));
    let lines = talk.lines.iter().map(|one| (one, None));
    let all = comments.chain(reviews).chain(lines);
    let mut all: Vec<SaidOnPull> = all
        .filter_map(|(one, verdict)| {
            let time = text::one_line(one.at()?, 40);
            let body = one.words(REMARK);
            // The empty review around remarks on lines says nothing that they do not say.
            let is_empty =
                body.is_empty() && matches!(verdict.as_deref(), None | Some("commented"));
            (!is_empty).then(|| SaidOnPull {
                author: one.author(),
                time,
                verdict: verdict.map(|word| text::one_line(&word, 40)),
                at: one.place(),
                outdated: one.is_outdated(),
                body,
            })
        })
        .collect();
    all.sort_by(|one, other| one.time.cmp(&other.time));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diff(name: &str, patch: Option<String>) -> FileDiff {
        let file = PulledFile {
            path: name.to_owned(),
            previous: None,
            status: "modified".to_owned(),
            additions: 1,
            deletions: 0,
        };
        FileDiff { file, patch, continued: false, left_out: false }
    }

    #[test]
    fn a_long_file_goes_on_over_pages_and_no_line_is_lost() {
        let lines: Vec<String> = (0..4000).map(|at| format!("+line {at}")).collect();
        let pages = divide_diffs(vec![
            diff("a.rs", Some("+one".to_owned())),
            diff("b.rs", Some(lines.join("\n"))),
            diff("c.png", None),
        ]);
        assert!(pages.len() > 1 && pages.iter().all(|page| !page.is_empty()));
        let of_b = pages.iter().flatten().filter(|one| one.file.path == "b.rs");
        let whole: Vec<&str> = of_b.clone().filter_map(|one| one.patch.as_deref()).collect();
        assert_eq!(whole.join("\n"), lines.join("\n"));
        assert_eq!(of_b.map(|one| one.continued).collect::<Vec<_>>()[..2], [false, true]);
        for page in &pages {
            let size: usize =
                page.iter().filter_map(|one| one.patch.as_ref()).map(String::len).sum();
            assert!(size <= DIFF_PAGE, "{size}");
        }
        let mut pages = pages;
        let count = pages.len();
        assert!(take_page(&mut pages, 0).is_err() && take_page(&mut pages, count + 1).is_err());
        assert_eq!(divide_diffs(Vec::new()).len(), 1);
    }
}
