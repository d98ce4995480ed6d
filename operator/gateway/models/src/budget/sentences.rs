//! Sentences for people about budgets: which limit is reached or near, and who can raise it. Pure.

use codebutler_crds::NanoUsd;
use codebutler_crds::spend::CallLimit;
use codebutler_gateway_core::moments::mark_moment;
use jiff::Timestamp;

use super::NearCap;
use super::limits::ExceededLimit;

/// A sentence about the limit and the next step. `contacts`: people who can raise budgets of people and teams.
pub fn describe_limit(exceeded: &ExceededLimit, repo: &str, contacts: &[String]) -> String {
    let ExceededLimit { limit, cap, used, flagged, until, of } = exceeded;
    let of = of.as_deref().unwrap_or_default();
    let money = |what: &str| {
        let cap = cap.unwrap_or_default();
        let unknown = if *flagged == NanoUsd::ZERO {
            String::new()
        } else {
            let flagged = flagged.in_cents();
            format!(" ({flagged} of that counts as spent because nobody knows whether it was)")
        };
        format!(
            "{what} {} of ${cap} is used{unknown}, and the next call may cost more than what is left.",
            used.in_cents()
        )
    };
    let when = until.map_or_else(String::new, |until| {
        format!(" It goes on by itself, {}.", mark_moment(until))
    });
    let calls = used.0;
    match limit {
        CallLimit::PerThread => money("of this thread's budget,"),
        CallLimit::PerRoadmap => money("of the budget of all threads of this roadmap,"),
        CallLimit::PerDay => format!("{}{when}", money(&format!("of today's budget of `{repo}`,"))),
        CallLimit::CallsPerHour => {
            format!("{calls} model calls in an hour are the limit of `{repo}`.{when}")
        }
        CallLimit::CallsPerUserPerHour => {
            format!("{calls} model calls in an hour are the limit of one person in `{repo}`.{when}")
        }
        CallLimit::PersonPerDay
        | CallLimit::PersonPerMonth
        | CallLimit::TeamPerDay
        | CallLimit::TeamPerMonth => {
            let what = format!("of the budget {} in `{repo}`,", owner_of(*limit, of));
            format!("{}{} {}", money(&what), renewal_of(*until), raiser_of(*limit, repo, contacts))
        }
    }
}

/// Names the owner and the period of a budget: the words that go on after "the budget".
fn owner_of(limit: CallLimit, of: &str) -> String {
    match limit {
        CallLimit::PersonPerDay => format!("of <@{of}> for today"),
        CallLimit::PersonPerMonth => format!("of <@{of}> for this month"),
        CallLimit::TeamPerDay => format!("of team `{of}` for today"),
        _ => format!("of team `{of}` for this month"),
    }
}

fn renewal_of(until: Option<Timestamp>) -> String {
    let said = |until: Timestamp| {
        format!(" It is renewed {}, and the work goes on then by itself.", mark_moment(until))
    };
    until.map(said).unwrap_or_default()
}

fn raiser_of(limit: CallLimit, repo: &str, contacts: &[String]) -> String {
    let field = match limit {
        CallLimit::PersonPerDay | CallLimit::PersonPerMonth => "people",
        _ => "teams",
    };
    let where_ = format!("`spec.limits.budget.{field}` of Repo `{repo}`");
    if contacts.is_empty() {
        return format!("An administrator of the cluster can raise it sooner ({where_}).");
    }
    let people: Vec<_> = contacts.iter().map(|user| format!("<@{user}>")).collect();
    format!("{} can raise it sooner ({where_}).", people.join(" or "))
}

/// Says that a budget is nearly used up.
pub fn describe_near(near: &NearCap, repo: &str) -> String {
    let NearCap { limit, cap, used, of, .. } = near;
    let what = match limit {
        CallLimit::PerDay => format!("today's budget of `{repo}`"),
        limit if limit.is_of_people() => {
            let owner = owner_of(*limit, of.as_deref().unwrap_or_default());
            format!("the budget {owner} in `{repo}`")
        }
        _ => "this thread's budget".to_owned(),
    };
    format!("{} of ${cap} of {what} is used.", used.in_cents())
}

/// The key under which that is said once in a thread.
pub fn key_of_near(near: &NearCap) -> String {
    let NearCap { limit, cap, period, of, .. } = near;
    match (limit, of) {
        (CallLimit::PerDay, _) => format!("budget-near-{period}-{}", cap.0),
        (limit, Some(of)) => format!("budget-near-{}-{of}-{period}-{}", limit.name(), cap.0),
        _ => format!("budget-near-{}", cap.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_names_figures_and_what_happens_next() {
        let exceeded = |limit, used, flagged| ExceededLimit {
            limit,
            cap: Some(NanoUsd(1_000_000_000)),
            used: NanoUsd(used),
            flagged: NanoUsd(flagged),
            until: Some("2026-11-23T00:00:00Z".parse().unwrap()),
            of: None,
        };
        let said = [
            exceeded(CallLimit::PerThread, 950_000_000, 0),
            exceeded(CallLimit::PerDay, 950_000_000, 50_000_000),
            exceeded(CallLimit::CallsPerUserPerHour, 30, 0),
        ];
        let said = said.map(|exceeded| describe_limit(&exceeded, "shop", &[])).join("\n");
        insta::assert_snapshot!(said, @r"
        of this thread's budget, $0.95 of $1.00 is used, and the next call may cost more than what is left.
        of today's budget of `shop`, $0.95 of $1.00 is used ($0.05 of that counts as spent because nobody knows whether it was), and the next call may cost more than what is left. It goes on by itself, <t:1795392000>.
        30 model calls in an hour are the limit of one person in `shop`. It goes on by itself, <t:1795392000>.
        ");
    }

    #[test]
    fn who_is_over_learns_which_budget_when_it_is_renewed_and_who_can_raise_it() {
        let exceeded = |limit, of: &str, until: &str| ExceededLimit {
            limit,
            cap: Some(NanoUsd(5_000_000_000)),
            used: NanoUsd(4_900_000_000),
            flagged: NanoUsd::ZERO,
            until: Some(until.parse().unwrap()),
            of: Some(of.to_owned()),
        };
        let day = exceeded(CallLimit::PersonPerDay, "U0ANA", "2026-11-28T23:00:00Z");
        let month = exceeded(CallLimit::TeamPerMonth, "payments", "2026-12-01T00:00:00Z");
        let contacts = ["U0BOSS".to_owned(), "U0OPS".to_owned()];
        insta::assert_snapshot!(describe_limit(&day, "shop", &[]), @"of the budget of <@U0ANA> for today in `shop`, $4.90 of $5.00 is used, and the next call may cost more than what is left. It is renewed <t:1795906800>, and the work goes on then by itself. An administrator of the cluster can raise it sooner (`spec.limits.budget.people` of Repo `shop`).");
        insta::assert_snapshot!(describe_limit(&month, "shop", &contacts), @"of the budget of team `payments` for this month in `shop`, $4.90 of $5.00 is used, and the next call may cost more than what is left. It is renewed <t:1796083200>, and the work goes on then by itself. <@U0BOSS> or <@U0OPS> can raise it sooner (`spec.limits.budget.teams` of Repo `shop`).");
        let near = |limit, of: Option<&str>| NearCap {
            limit,
            cap: NanoUsd(5_000_000_000),
            used: NanoUsd(4_000_000_000),
            period: "2026-11".to_owned(),
            of: of.map(ToOwned::to_owned),
        };
        let month = near(CallLimit::PersonPerMonth, Some("U0ANA"));
        insta::assert_snapshot!(describe_near(&month, "shop"), @"$4.00 of $5.00 of the budget of <@U0ANA> for this month in `shop` is used.");
        let odd = NearCap { used: NanoUsd(4_012_345_678), ..near(CallLimit::PerThread, None) };
        assert_eq!(describe_near(&odd, "shop"), "$4.01 of $5.00 of this thread's budget is used.");
        assert_eq!(key_of_near(&month), "budget-near-personPerMonth-U0ANA-2026-11-5000000000");
        assert_eq!(key_of_near(&near(CallLimit::PerThread, None)), "budget-near-5000000000");
    }
}
