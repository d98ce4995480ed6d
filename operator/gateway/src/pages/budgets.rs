//! Budgets on the page of costs: those of the Repos whose threads the viewer may see.

use std::collections::BTreeSet;

use codebutler_crds::budgets::PersonCaps;
use codebutler_crds::spend::{PersonSpend, RepoSpend};
use codebutler_crds::{NanoUsd, Repo};
use codebutler_gateway_core::context::GatewayContext;
use codebutler_history::ThreadPlace;
use codebutler_pages::{BudgetLine, BudgetOwner, BudgetUse, ListedThread, RepoBudgets};
use codebutler_runtime::calendar;
use jiff::Timestamp;
use kube::ResourceExt as _;

/// The budgets of the Repos of these threads.
pub(super) fn list_budgets(context: &GatewayContext, threads: &[ListedThread]) -> Vec<RepoBudgets> {
    let place = |one: &ListedThread| {
        let place = one.name.parse::<ThreadPlace>().ok()?;
        Some((place.namespace().to_owned(), one.summary.repo.clone()))
    };
    let repos: BTreeSet<(String, String)> = threads.iter().filter_map(place).collect();
    let found = repos.iter().filter_map(|(namespace, name)| context.repo(namespace, name));
    found.map(|repo| describe_budgets(&repo, Timestamp::now())).collect()
}

/// People who have a budget of this Repo.
pub(super) fn list_people<'a>(
    budgets: &'a [RepoBudgets],
    repo: &Repo,
) -> impl Iterator<Item = &'a String> {
    let (namespace, name) = (repo.namespace().unwrap_or_default(), repo.name_any());
    let own = budgets.iter().filter(move |one| one.namespace == namespace && one.repo == name);
    own.flat_map(|one| &one.lines).filter_map(|line| match &line.owner {
        BudgetOwner::Person(user) => Some(user),
        BudgetOwner::Repo | BudgetOwner::Team(_) => None,
    })
}

fn describe_budgets(repo: &Repo, now: Timestamp) -> RepoBudgets {
    let limits = &repo.spec.limits;
    let moment = calendar::find_moment(now, &limits.time_zone);
    let spend = repo.status.as_ref().and_then(|status| status.spend.clone()).unwrap_or_default();
    let (is_today, is_month) = (spend.day == moment.day, spend.month == moment.month);
    let today = |used: NanoUsd| if is_today { used } else { NanoUsd::ZERO };
    let month = |used: NanoUsd| if is_month { used } else { NanoUsd::ZERO };
    let line = |owner, caps: PersonCaps, people: &[&PersonSpend]| {
        let day = people.iter().map(|person| person.day.used()).sum();
        let of_month = people.iter().map(|person| person.month.used()).sum();
        BudgetLine {
            owner,
            day: BudgetUse { used: today(day), cap: caps.per_day },
            month: BudgetUse { used: month(of_month), cap: caps.per_month },
        }
    };
    let all = BudgetUse { used: today(spend.settled + spend.flagged), cap: limits.budget.per_day };
    let whole = BudgetLine { owner: BudgetOwner::Repo, day: all, month: BudgetUse::default() };
    let people = limits.budget.people.as_ref();
    let named = people.iter().flat_map(|people| &people.users).map(|own| &own.user);
    let known: BTreeSet<&String> = named.chain(spend.people.keys()).collect();
    let persons = known.into_iter().map(|user| {
        let caps = people.map(|people| people.caps_of(user)).unwrap_or_default();
        line(BudgetOwner::Person(user.clone()), caps, &spent_by(&spend, [user]))
    });
    let teams = limits.budget.teams.iter();
    let of_teams = teams.clone().map(|team| {
        let owner = BudgetOwner::Team(team.name.clone());
        line(owner, team.caps(), &spent_by(&spend, &team.members))
    });
    RepoBudgets {
        namespace: repo.namespace().unwrap_or_default(),
        repo: repo.name_any(),
        per_day: limits.budget.per_day,
        lines: std::iter::once(whole).chain(of_teams).chain(persons).collect(),
        teams: teams.map(|team| (team.name.clone(), team.members.clone())).collect(),
    }
}

fn spent_by<'a>(
    spend: &'a RepoSpend,
    people: impl IntoIterator<Item = &'a String>,
) -> Vec<&'a PersonSpend> {
    people.into_iter().filter_map(|user| spend.people.get(user)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_of_the_day_and_the_month_counts() {
        let repo: Repo = serde_json::from_value(json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Repo",
            "metadata": {"name": "shop", "namespace": "team"},
            "spec": {
                "git": {"url": "https://git.example.org/o/n", "credentials": {"name": "git"}},
                "slack": {"channel": "C0123", "credentials": {"name": "slack"}},
                "model": {"credentials": {"name": "model"}}, "roles": ["pm"],
                "limits": {"budget": {
                    "people": {"default": {"perDay": "5"}, "users": [{"user": "U0BEN"}]},
                    "teams": [{"name": "payments", "members": ["U0ANA", "U0BEN"], "perMonth": "9"}],
                }},
            },
            "status": {"spend": {
                "day": "2026-11-27", "month": "2026-11", "settled": "3",
                "people": {
                    "U0ANA": {"day": {"settled": "1"}, "month": {"settled": "1.5", "flagged": "0.5"}},
                    "U0BEN": {"day": {"settled": "2"}, "month": {"settled": "2"}},
                },
            }},
        }))
        .unwrap();
        let shown = |now: &str| {
            let budgets = describe_budgets(&repo, now.parse().unwrap());
            let line = |line: &BudgetLine| {
                let money = |money: BudgetUse| {
                    format!(
                        "{}/{}",
                        money.used,
                        money.cap.map_or("-".into(), |cap| cap.to_string())
                    )
                };
                format!("{:?} {} {}", line.owner, money(line.day), money(line.month))
            };
            budgets.lines.iter().map(line).collect::<Vec<_>>()
        };
        assert_eq!(
            shown("2026-11-27T12:00:00Z"),
            [
                "Repo 3.00/- 0.00/-",
                "Team(\"payments\") 3.00/- 4.00/9.00",
                "Person(\"U0ANA\") 1.00/5.00 2.00/-",
                "Person(\"U0BEN\") 2.00/- 2.00/-",
            ]
        );
        assert_eq!(shown("2026-11-28T12:00:00Z")[1], "Team(\"payments\") 0.00/- 4.00/9.00");
        assert_eq!(shown("2026-12-01T12:00:00Z")[1], "Team(\"payments\") 0.00/- 0.00/9.00");
    }
}
