//! Starts of work that nobody asks for in Slack: by the clock, by a labelled issue, by a signed delivery.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::secret_ref::SecretRef;
use crate::unset::is_zero;

/// Issues that a Repo remembers to have begun work for.
pub const MOST_ISSUES: usize = 1000;
/// Comments that a Repo remembers to have settled.
pub const MOST_COMMENTS: usize = 1000;

/// A Thread that begins at times that a schedule names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleSpec {
    /// Name of the schedule: it tells it from others, and names its Threads.
    #[schemars(regex(pattern = r"^[a-z0-9]([-a-z0-9]{0,28}[a-z0-9])?$"))]
    pub name: String,
    /// Schedule in the five fields of cron: minute, hour, day of the month, month, day of the week, such as
    /// `30 2 * * 1-5`, or `@hourly`, `@daily`, `@weekly`, `@monthly` or `@yearly`. With days of the month and days of
    /// the week, either is enough, unless one of the two fields begins with `*`: then both have to fit. A time that
    /// the clocks leave out begins right after, and one that they show twice counts once; where the hours are a
    /// rhythm, such as `*/2`, it is left out, or counts twice.
    #[schemars(regex(pattern = r"^\s*(@[A-Za-z]+|\S+(\s+\S+){4})\s*$"), length(max = 128))]
    pub cron: String,
    /// Time zone of `cron`, such as `Europe/Berlin`; `spec.limits.timeZone` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[A-Za-z0-9_+/-]+$"), length(max = 64))]
    pub time_zone: Option<String>,
    /// Request of each run, in Markdown, as in a Thread.
    #[schemars(length(min = 1, max = 8000))]
    pub prompt: String,
    /// Seconds that a run may be late, as where no gateway served. One that is later is missed; of several that are
    /// not, the newest begins. The next one says so, and so does the event `ScheduleMissed`.
    #[serde(default = "deadline")]
    #[schemars(range(min = 60, max = 604_800))]
    pub starting_deadline_seconds: u32,
    /// Action at a time at which the Thread of the run before is still open.
    #[serde(default)]
    pub concurrency_policy: ConcurrencyPolicy,
    /// If true, no run begins. Runs that are due meanwhile are not made up for. False by default.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspend: bool,
}

/// Action at a time at which the Thread of the run before is still open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConcurrencyPolicy {
    /// No run begins while roles work there or people are asked, and it is told there once a day.
    #[default]
    Forbid,
    /// A run begins beside the one before.
    Allow,
}

/// Issues of the repository that begin work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IssuesSpec {
    /// An open issue that has this label gets one Thread, once, the oldest first, with at most
    /// `spec.limits.concurrentThreads` of them open at a time. Whoever may label issues can begin work.
    #[schemars(length(min = 1, max = 50))]
    pub label: String,
}

/// Comments at GitHub that begin work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommentsSpec {
    /// The first word of such a comment, such as `/codebutler` or `@acme-butler`; what follows is what is wanted. On
    /// an issue, a pull request or a line of one, by somebody who may write to the repository, it gets one Thread. On
    /// a Thread's own pull request it is told in that Thread, as every comment there is.
    #[schemars(regex(pattern = r"^[/@][A-Za-z0-9][A-Za-z0-9-]{0,38}$"))]
    pub command: String,
}

/// Cursor of the comments that were looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommentsStatus {
    /// Time before which all comments are settled.
    pub since: Time,
    /// Ids of comments since then that have got a Thread or were turned away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_COMMENTS))]
    pub settled: Vec<u64>,
}

/// Signed requests that begin work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeliveriesSpec {
    /// Secret with the key `signingSecret`: `whsec_` and 24 to 64 bytes in base64, as Standard Webhooks has
    /// it.
    pub credentials: SecretRef,
}

/// State of one schedule of a Repo.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleStatus {
    /// Name of the schedule in `spec.schedules`.
    #[schemars(length(max = 30))]
    pub name: String,
    /// Times and zone of the schedule, as they were read. Changed ones begin anew, from when they were seen first.
    #[schemars(length(max = 200))]
    pub cron: String,
    /// Time up to which it is settled what has begun and what has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<Time>,
    /// The time of the run that began last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_schedule_time: Option<Time>,
    /// Name of the Thread of its latest run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 50))]
    pub last_thread: Option<String>,
    /// Runs since then that did not begin in time.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub missed: u32,
    /// Runs since then that did not begin because of that Thread.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub skipped: u32,
}

const fn deadline() -> u32 {
    3600
}
