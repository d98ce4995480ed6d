//! A Repo's record of work that began by itself. One writer, and it gives way to others of the same status.

use codebutler_crds::Repo;
use codebutler_crds::starts::{CommentsStatus, MOST_ISSUES, ScheduleStatus};
use codebutler_gateway_core::writes;
use kube::api::Patch;
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;

/// Attempts against other writers of the same status.
const ATTEMPTS: u32 = 8;

/// Status fields of a Repo that are kept here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct BegunWork {
    pub schedules: Vec<ScheduleStatus>,
    /// Numbers of issues, the newest last.
    pub issues: Vec<u64>,
    pub comments: Option<CommentsStatus>,
}

impl BegunWork {
    fn of(repo: &Repo) -> Self {
        let status = repo.status.clone().unwrap_or_default();
        let (schedules, issues) = (status.schedules, status.begun_issues);
        Self { schedules, issues, comments: status.comments }
    }

    /// Keeps what is on record of schedules that are there.
    pub(super) fn keep_schedules(&mut self, is_there: impl Fn(&str) -> bool) {
        self.schedules.retain(|own| is_there(&own.name));
    }

    /// Puts a schedule's record in place of the one that is there.
    pub(super) fn put_schedule(&mut self, record: &ScheduleStatus) {
        self.schedules.retain(|own| own.name != record.name);
        self.schedules.push(record.clone());
        self.schedules.sort_by(|one, other| one.name.cmp(&other.name));
    }

    /// Keeps that issues have got their Threads. Where there is no room those are forgotten first that are not
    /// `waiting` any more, the oldest first.
    pub(super) fn put_issues(&mut self, numbers: &[u64], waiting: &[u64]) {
        let new: Vec<u64> = numbers.iter().copied().filter(|n| !self.issues.contains(n)).collect();
        self.issues.extend(new);
        let mut surplus = self.issues.len().saturating_sub(MOST_ISSUES);
        self.issues.retain(|number| {
            let goes = surplus > 0 && !waiting.contains(number);
            surplus -= usize::from(goes);
            !goes
        });
        let surplus = self.issues.len().saturating_sub(MOST_ISSUES);
        self.issues.drain(..surplus);
    }
}

/// Changes what a Repo keeps. Answers how it is then; nothing if the Repo is gone.
///
/// # Errors
/// When the API server does not take it, or others write the same status again and again.
pub(super) async fn update_record(
    client: &Client,
    repo: &Repo,
    change: impl Fn(&mut BegunWork) + Send + Sync,
) -> Result<Option<BegunWork>, kube::Error> {
    let api: Api<Repo> = Api::namespaced(client.clone(), &repo.namespace().unwrap_or_default());
    let mut attempt = 1;
    loop {
        let found = api.get_opt(&repo.name_any()).await?;
        let Some(now) = found.filter(|now| now.uid() == repo.uid()) else { return Ok(None) };
        let before = BegunWork::of(&now);
        let mut after = before.clone();
        change(&mut after);
        if after == before {
            return Ok(Some(after));
        }
        let patch = json!({
            "metadata": {"resourceVersion": now.resource_version()},
            "status": {"schedules": after.schedules, "begunIssues": after.issues, "comments": after.comments},
        });
        match api
            .patch_status(&repo.name_any(), &writes::patch_params(), &Patch::Merge(patch))
            .await
        {
            Ok(_) => return Ok(Some(after)),
            Err(kube::Error::Api(refused)) if refused.code == 409 && attempt < ATTEMPTS => {
                attempt += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_issue_that_waits_no_more_is_forgotten_first() {
        let most = MOST_ISSUES as u64;
        let mut work = BegunWork { issues: (1..=most).collect(), ..BegunWork::default() };
        work.put_issues(&[most + 1, 1], &[1, 2, most + 1]);
        assert_eq!(work.issues.len(), MOST_ISSUES);
        assert!([1, 2, most + 1].iter().all(|number| work.issues.contains(number)));
        assert!(!work.issues.contains(&3));
    }
}
