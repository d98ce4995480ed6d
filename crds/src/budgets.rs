//! Budgets of people and teams, by day and month.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::NanoUsd;

/// Most people with a budget of their own in [`PeopleBudget::users`].
const MOST_USERS: usize = 1000;
/// Maximum number of teams of a Repo.
pub const MOST_TEAMS: usize = 64;
/// Maximum number of members of a team.
const MOST_MEMBERS: usize = 256;

/// Caps of one person, each for all conversations of this Repo that the person asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.perDay) || !has(self.perMonth) || double(self.perDay) <= double(self.perMonth)",
    "message": "perDay is more than perMonth: raise perMonth, or leave perDay out"
}]))]
pub struct PersonCaps {
    /// US dollars a day. No cap if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_day: Option<NanoUsd>,
    /// US dollars a calendar month. No cap if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_month: Option<NanoUsd>,
}

/// Caps of each person, by day and by month.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PeopleBudget {
    /// Caps of each person that `users` does not name. None if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<PersonCaps>,
    /// Caps of single people, instead of `default`. An entry without a cap exempts its person.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_USERS))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["user"]))]
    pub users: Vec<UserBudget>,
}

/// Caps of a person by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.perDay) || !has(self.perMonth) || double(self.perDay) <= double(self.perMonth)",
    "message": "perDay is more than perMonth: raise perMonth, or leave perDay out"
}]))]
pub struct UserBudget {
    /// Slack user id of the person.
    #[schemars(regex(pattern = r"^[UW][A-Z0-9]{2,20}$"))]
    pub user: String,
    /// US dollars a day. No cap if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_day: Option<NanoUsd>,
    /// US dollars a calendar month. No cap if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_month: Option<NanoUsd>,
}

/// Caps of a team's members together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "has(self.perDay) || has(self.perMonth)",
        "message": "a team's budget has perDay, perMonth, or both"
    },
    {
        "rule": "!has(self.perDay) || !has(self.perMonth) || double(self.perDay) <= double(self.perMonth)",
        "message": "perDay is more than perMonth: raise perMonth, or leave perDay out"
    }
]))]
pub struct TeamBudget {
    /// Name of the team, which threads and pages show.
    #[schemars(regex(pattern = r"^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$"))]
    pub name: String,
    /// Slack user ids. Somebody may be in several teams: a call counts for each of them.
    #[schemars(length(min = 1, max = MOST_MEMBERS), inner(regex(pattern = r"^[UW][A-Z0-9]{2,20}$")))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub members: Vec<String>,
    /// US dollars a day. No cap if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_day: Option<NanoUsd>,
    /// US dollars a calendar month. No cap if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_month: Option<NanoUsd>,
}

impl PeopleBudget {
    /// Caps that hold for a person: their own ones, or else those for everybody.
    #[must_use]
    pub fn caps_of(&self, user: &str) -> PersonCaps {
        let own = self.users.iter().find(|own| own.user == user);
        match own {
            Some(own) => PersonCaps { per_day: own.per_day, per_month: own.per_month },
            None => self.default.unwrap_or_default(),
        }
    }
}

impl TeamBudget {
    /// The team's caps, by day and by month.
    #[must_use]
    pub const fn caps(&self) -> PersonCaps {
        PersonCaps { per_day: self.per_day, per_month: self.per_month }
    }
}

/// True for a Slack user id; false for the name of a schedule or of somebody at GitHub.
#[must_use]
pub fn is_slack_user(text: &str) -> bool {
    let Some(rest) = text.strip_prefix(['U', 'W']) else { return false };
    (2..=20).contains(&rest.len())
        && rest.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_by_name_has_own_caps_and_may_have_none() {
        let budget: PeopleBudget = serde_json::from_value(serde_json::json!({
            "default": {"perDay": "5"},
            "users": [{"user": "U0ANA", "perMonth": "100"}, {"user": "U0BEN"}],
        }))
        .unwrap();
        let usd = |text: &str| Some(text.parse::<NanoUsd>().unwrap());
        let caps = |user| {
            let caps = budget.caps_of(user);
            (caps.per_day, caps.per_month)
        };
        assert_eq!(caps("U0EVE"), (usd("5"), None));
        assert_eq!(caps("U0ANA"), (None, usd("100")));
        assert_eq!(caps("U0BEN"), (None, None));
    }

    #[test]
    fn only_slack_knows_people() {
        for known in ["U0123ABC", "W01"] {
            assert!(is_slack_user(known), "{known}");
        }
        for other in ["", "U", "U1", "nightly", "U0-1", "ana", "B012", "USLACKBOTuser"] {
            assert!(!is_slack_user(other), "{other}");
        }
    }
}
