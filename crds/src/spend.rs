//! Money that is spent, granted and asked for: the ledger's part of a Thread's and a Repo's status.
//!
//! A *grant* is money that a gateway may spend on calls without writing again. Whoever finds a grant
//! of another holder takes it for spent: *flagged*, because nobody knows. Where the provider's id of
//! such a call is on record, the provider is asked, and what it says is settled.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::spelling::{SpelledWord, word};
use crate::{NanoUsd, SlackTs};
use codebutler_wire::TokenUsage;

/// Most calls in [`ThreadBudget::open`].
pub const OPEN_IN_THREAD: usize = 16;
/// Most calls in [`RepoSpend::open`].
pub const OPEN_IN_REPO: usize = 256;

/// Most gateways in `leaving`.
pub const LEAVING: usize = 8;

/// A Thread's money besides what is settled. USD.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadBudget {
    /// Granted to calls of `holder` and not settled yet.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub granted: NanoUsd,
    /// The gateway process that draws on the grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// Counted as spent although nobody knows whether it was: grants of a gateway that died, and
    /// calls whose answer was lost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub flagged: NanoUsd,
    /// Calls whose cost is not known yet, by the provider's id: what `granted` or `flagged` holds of
    /// them is settled when the provider tells. Only calls that last are here.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = OPEN_IN_THREAD))]
    pub open: BTreeMap<String, OpenCall>,
    /// Calls of gateways that hand over while they are under way, by gateway.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = LEAVING))]
    pub leaving: BTreeMap<String, LeavingGateway>,
    /// Added to the Thread's cap by people.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub raised: NanoUsd,
    /// Added by people to what all Threads of a roadmap may cost, of which this is one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub raised_roadmap: NanoUsd,
    /// Added to the Repo's cap of one day by people, for this Thread's calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raised_today: Option<DayAmount>,
    /// The open question whether to go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask: Option<BudgetAsk>,
    /// Questions asked so far; each has its own message.
    #[serde(default, skip_serializing_if = "is_none_yet")]
    pub asked: u32,
}

/// Calls that a gateway serves to their end while another one serves new ones. It alone writes this;
/// the other one settles it when it is final, or its time is over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LeavingGateway {
    /// Grace period in seconds, counted from when another gateway first sees it; 0: the record is final.
    pub seconds: u32,
    /// Estimated cost of the calls that are not settled. USD.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub granted: NanoUsd,
    /// Cost of the calls that are settled. USD.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub settled: NanoUsd,
    /// The same by role, in a Thread.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub usage: BTreeMap<String, TokenUsage>,
    /// Calls that are not settled, by the provider's id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = OPEN_IN_REPO))]
    pub open: BTreeMap<String, OpenCall>,
    /// In a Repo: the money of those calls, by the person they are charged to.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub people: BTreeMap<String, LeavingSpend>,
}

/// One person's part of what a gateway that hands over still spends. USD.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LeavingSpend {
    /// Estimates of calls that are not settled.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub granted: NanoUsd,
    /// Cost of the settled ones.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub settled: NanoUsd,
}

/// A model call whose cost is not known yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenCall {
    /// Role that made the call.
    #[schemars(length(max = 32))]
    pub role: String,
    /// Estimated cost of the call. USD.
    pub estimate: NanoUsd,
}

/// An amount that counts on one day only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DayAmount {
    /// Day such as `2026-11-22`, in the Repo's `spec.limits.timeZone`.
    #[schemars(length(max = 10))]
    pub day: String,
    /// Amount that counts on that day, in USD.
    pub amount: NanoUsd,
}

/// Question to people at a limit: roles are paused until a person raises the cap, or it gives way by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BudgetAsk {
    /// `ts` of the message that asks.
    pub ts: SlackTs,
    /// Limit that was reached.
    #[serde(with = "word")]
    #[schemars(with = "SpelledWord<CallLimit>")]
    pub limit: CallLimit,
    /// Roles that go on with the answer.
    #[serde(default)]
    #[schemars(length(max = 16))]
    pub roles: Vec<String>,
    /// The cap that was in the way. USD; absent for a number of calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap: Option<NanoUsd>,
    /// Time at which the limit resets by itself, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// The person (a Slack user id) or the team that has used its budget up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub of: Option<String>,
}

/// The limits that a call can run into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum CallLimit {
    /// `spec.limits.budget.perThread`
    PerThread,
    /// `spec.limits.budget.perDay`
    PerDay,
    /// Cap on what all Threads of a roadmap may cost together.
    PerRoadmap,
    /// `spec.limits.callsPerHour`
    CallsPerHour,
    /// `spec.limits.callsPerUserPerHour`
    CallsPerUserPerHour,
    /// `perDay` of `spec.limits.budget.people`
    PersonPerDay,
    /// `perMonth` of `spec.limits.budget.people`
    PersonPerMonth,
    /// `perDay` of one of `spec.limits.budget.teams`
    TeamPerDay,
    /// `perMonth` of one of `spec.limits.budget.teams`
    TeamPerMonth,
}

impl CallLimit {
    /// Every limit, in the order of declaration.
    pub const ALL: [Self; 9] = [
        Self::PerThread,
        Self::PerDay,
        Self::PerRoadmap,
        Self::CallsPerHour,
        Self::CallsPerUserPerHour,
        Self::PersonPerDay,
        Self::PersonPerMonth,
        Self::TeamPerDay,
        Self::TeamPerMonth,
    ];

    /// The limit's field in a Repo's `spec.limits`, and the metric's label.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PerThread => "perThread",
            Self::PerDay => "perDay",
            Self::PerRoadmap => "perRoadmap",
            Self::CallsPerHour => "callsPerHour",
            Self::CallsPerUserPerHour => "callsPerUserPerHour",
            Self::PersonPerDay => "personPerDay",
            Self::PersonPerMonth => "personPerMonth",
            Self::TeamPerDay => "teamPerDay",
            Self::TeamPerMonth => "teamPerMonth",
        }
    }

    /// True if people can raise it where it was reached, in the thread. All others give way by themselves, or are raised in
    /// the Repo alone.
    #[must_use]
    pub const fn is_raised_in_thread(self) -> bool {
        matches!(self, Self::PerThread | Self::PerDay | Self::PerRoadmap)
    }

    /// True for a budget of a person or a team.
    #[must_use]
    pub const fn is_of_people(self) -> bool {
        matches!(
            self,
            Self::PersonPerDay | Self::PersonPerMonth | Self::TeamPerDay | Self::TeamPerMonth
        )
    }
}

/// Spending of a Repo on its last day with any call. USD.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RepoSpend {
    /// Day such as `2026-11-22`, in `spec.limits.timeZone`.
    #[serde(default)]
    #[schemars(length(max = 10))]
    pub day: String,
    /// Cost that the providers billed on that day.
    #[serde(default)]
    pub settled: NanoUsd,
    /// That cost in cents, with the day, as `kubectl get repos` shows it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    pub shown: String,
    /// Granted to calls of `holder` and not settled yet.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub granted: NanoUsd,
    /// The gateway process that draws on the grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// Counted as spent although nobody knows whether it was.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub flagged: NanoUsd,
    /// Estimates of calls whose cost is not known yet, by the provider's id. USD. A Thread's `status.budget.open`
    /// says more of them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = OPEN_IN_REPO))]
    pub open: BTreeMap<String, NanoUsd>,
    /// Calls of gateways that hand over while they are under way, by gateway.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = LEAVING))]
    pub leaving: BTreeMap<String, LeavingGateway>,
    /// Model calls of the last hour with any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hour: Option<HourCalls>,
    /// The month of `people`, such as `2026-11`, in `spec.limits.timeZone`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 7))]
    pub month: String,
    /// Spending by Slack user id, while people or teams have budgets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub people: BTreeMap<String, PersonSpend>,
    /// Caps of teams of which people were warned, by the team's name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub teams: BTreeMap<String, WarnedCaps>,
}

impl RepoSpend {
    /// Brings what people are shown up to date. The day is named: what is there may be yesterday's.
    pub fn show(&mut self) {
        self.shown = match self.day.as_str() {
            "" => String::new(),
            day => format!("{} on {day}", self.settled.in_cents()),
        };
    }
}

/// A person's spending. USD.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PersonSpend {
    /// Spending on the Repo's `day`.
    #[serde(default, skip_serializing_if = "PeriodSpend::is_none")]
    pub day: PeriodSpend,
    /// Spending in the Repo's `month`.
    #[serde(default, skip_serializing_if = "PeriodSpend::is_none")]
    pub month: PeriodSpend,
    /// Granted to calls of the Repo's `holder` and not settled yet.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub granted: NanoUsd,
    /// The caps of which people were warned.
    #[serde(default, skip_serializing_if = "WarnedCaps::is_none")]
    pub warned: WarnedCaps,
}

/// Money of a day or a month. USD.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PeriodSpend {
    /// Cost that the providers billed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub settled: NanoUsd,
    /// Counted as spent although it is not known whether it was.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub flagged: NanoUsd,
}

impl PeriodSpend {
    /// Everything that counts as spent.
    #[must_use]
    pub fn used(&self) -> NanoUsd {
        self.settled + self.flagged
    }

    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// Caps of which people were warned, so that they are warned once. USD.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WarnedCaps {
    /// Cap of a day of which people were warned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub day: Option<NanoUsd>,
    /// Cap of a month of which people were warned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub month: Option<NanoUsd>,
}

impl WarnedCaps {
    /// True if people were warned of none.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// Number of model calls in one hour.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HourCalls {
    /// Hour such as `2026-11-22T14`, UTC.
    #[schemars(length(max = 13))]
    pub hour: String,
    /// Total number of calls in that hour.
    pub calls: u32,
    /// Calls by whom they are charged to: Slack user ids.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub users: BTreeMap<String, u32>,
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(amount: &NanoUsd) -> bool {
    *amount == NanoUsd::ZERO
}

#[allow(clippy::trivially_copy_pass_by_ref)]
const fn is_none_yet(count: &u32) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_shown_cents_and_of_which_day_they_are() {
        let mut spend = RepoSpend { settled: NanoUsd(727_483_960), ..RepoSpend::default() };
        spend.show();
        assert_eq!(spend.shown, "", "of no day");
        spend.day = "2026-11-27".to_owned();
        spend.show();
        assert_eq!(spend.shown, "$0.73 on 2026-11-27");
    }
}
