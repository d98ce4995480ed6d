//! Limits of a Repo: slots, calls and money.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::NanoUsd;
use crate::budgets::{MOST_TEAMS, PeopleBudget, TeamBudget};

/// Limits on concurrency, calls per hour, and money.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LimitsSpec {
    /// Threads in which a role may run at the same time. Threads that wait, sleep or are only open
    /// do not count.
    #[serde(default = "threads")]
    #[schemars(range(min = 1, max = 1000))]
    pub concurrent_threads: u32,
    /// Roles that may run at the same time, over all Threads.
    #[serde(default = "runs")]
    #[schemars(range(min = 1, max = 1000))]
    pub concurrent_runs: u32,
    /// Model calls per hour, over all Threads.
    #[serde(default = "calls")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub calls_per_hour: u32,
    /// Model calls per hour charged to one user: who started or last spoke to the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub calls_per_user_per_hour: Option<u32>,
    /// IANA time zone in which days and months begin and end, such as `Europe/Berlin`.
    #[serde(default = "utc")]
    #[schemars(length(min = 1, max = 64))]
    pub time_zone: String,
    /// Caps on spending, in US dollars.
    #[serde(default)]
    pub budget: BudgetSpec,
}

impl Default for LimitsSpec {
    fn default() -> Self {
        Self {
            concurrent_threads: threads(),
            concurrent_runs: runs(),
            calls_per_hour: calls(),
            calls_per_user_per_hour: None,
            time_zone: utc(),
            budget: BudgetSpec::default(),
        }
    }
}

/// Caps in US dollars, checked before each call against what is settled and what is granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BudgetSpec {
    /// Most that one Thread may cost before a person is asked, in USD. No cap if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_thread: Option<NanoUsd>,
    /// Most that a Repo may cost in a day, in USD. No cap if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_day: Option<NanoUsd>,
    /// Percent of a cap at which the thread is told.
    #[serde(default = "warn_at")]
    #[schemars(range(min = 1, max = 100))]
    pub warn_at: u32,
    /// Most that each person may spend, a day and a month, in USD. A call is charged to the person who asked for its
    /// conversation. No caps if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub people: Option<PeopleBudget>,
    /// Caps of teams, a day and a month.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_TEAMS))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub teams: Vec<TeamBudget>,
    /// Slack user ids of who can raise the budgets of people and teams. A thread that has used one up
    /// names them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(regex(pattern = r"^[UW][A-Z0-9]{2,20}$")))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub contacts: Vec<String>,
}

impl BudgetSpec {
    /// True if there are caps of people or teams, so that spending is counted by person.
    #[must_use]
    pub const fn counts_people(&self) -> bool {
        self.people.is_some() || !self.teams.is_empty()
    }
}

impl Default for BudgetSpec {
    fn default() -> Self {
        let (people, teams, contacts) = (None, Vec::new(), Vec::new());
        Self { per_thread: None, per_day: None, warn_at: warn_at(), people, teams, contacts }
    }
}

/// Prices of a model whose provider names none. US dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelPrice {
    /// Price of a million tokens sent.
    #[serde(default)]
    pub prompt: NanoUsd,
    /// A million tokens received, those of images among them.
    #[serde(default)]
    pub completion: NanoUsd,
    /// A million tokens of images sent to a model that makes images; `prompt` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_prompt: Option<NanoUsd>,
    /// A million tokens of sound sent; `prompt` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audio_prompt: Option<NanoUsd>,
    /// A million tokens sent that the provider had kept; `prompt` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<NanoUsd>,
    /// A million tokens sent that the provider keeps from now on; `prompt` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<NanoUsd>,
    /// An image made, where it costs something beside its tokens.
    #[serde(default)]
    pub image: NanoUsd,
    /// Price of a minute of audio heard.
    #[serde(default)]
    pub audio_minute: NanoUsd,
    /// A search of the web that a model makes; 0.04 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<NanoUsd>,
}

const fn threads() -> u32 {
    3
}
const fn runs() -> u32 {
    6
}
const fn calls() -> u32 {
    1000
}
const fn warn_at() -> u32 {
    80
}
fn utc() -> String {
    "UTC".to_owned()
}
