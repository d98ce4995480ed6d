//! Budgets of teams and people, as metrics. No sample names a person.

use std::fmt;
use std::sync::Arc;

use codebutler_crds::budgets::PersonCaps;
use codebutler_crds::spend::{PeriodSpend, PersonSpend, RepoSpend};
use codebutler_crds::{NanoUsd, Repo};
use codebutler_runtime::calendar::BudgetMoment;
use codebutler_runtime::metrics::catalog::controller as catalog;
use codebutler_runtime::metrics::repo_label;
use prometheus_client::encoding::DescriptorEncoder;

/// Amounts of a day, and of a month.
type MeasuredPeriod =
    (&'static str, fn(&PersonSpend) -> PeriodSpend, fn(&PersonCaps) -> Option<NanoUsd>);

const PERIODS: [MeasuredPeriod; 2] = [
    ("day", |person| person.day, |caps| caps.per_day),
    ("month", |person| person.month, |caps| caps.per_month),
];

type TeamSample = ([String; 3], f64);

/// Writes the samples of all Repos.
pub(super) fn encode_shares(
    moments: &[(&Arc<Repo>, BudgetMoment)],
    encoder: &mut DescriptorEncoder,
) -> fmt::Result {
    let all: Vec<_> = moments.iter().map(|(repo, moment)| sample_shares(repo, moment)).collect();
    catalog::TEAM_BUDGET_USED.write(encoder, all.iter().flat_map(|one| one.used.clone()))?;
    catalog::TEAM_BUDGET_ALLOWED.write(encoder, all.iter().flat_map(|one| one.allowed.clone()))?;
    catalog::PEOPLE_NEAR_BUDGET.write(encoder, all.iter().flat_map(|one| one.near.clone()))
}

/// Samples of a Repo's budget shares.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ShareSamples {
    pub used: Vec<TeamSample>,
    pub allowed: Vec<TeamSample>,
    pub near: Vec<([String; 2], f64)>,
}

/// Recorded amounts of the present day and month.
pub(super) fn sample_shares(repo: &Repo, moment: &BudgetMoment) -> ShareSamples {
    let (budget, label) = (&repo.spec.limits.budget, repo_label(repo));
    let none = RepoSpend::default();
    let spend = repo.status.as_ref().and_then(|status| status.spend.as_ref()).unwrap_or(&none);
    let mut samples = ShareSamples::default();
    for (period, spent, cap) in PERIODS {
        let is_now = spend.month == moment.month && (period == "month" || spend.day == moment.day);
        let used = |user: &String| {
            let person = spend.people.get(user).filter(|_| is_now);
            person.map(|person| spent(person).used()).unwrap_or_default()
        };
        for team in &budget.teams {
            let labels = [label.clone(), team.name.clone(), period.to_owned()];
            if let Some(cap) = cap(&team.caps()) {
                samples.allowed.push((labels.clone(), cap.as_f64()));
            }
            let sum: NanoUsd = team.members.iter().map(used).sum();
            samples.used.push((labels, sum.as_f64()));
        }
        if let Some(people) = &budget.people {
            let is_near = |user: &&String| {
                let cap = cap(&people.caps_of(user));
                cap.is_some_and(|cap| used(user) >= cap.times(budget.warn_at.into(), 100))
            };
            let near = spend.people.keys().filter(is_near).count();
            let near = f64::from(u32::try_from(near).unwrap_or(u32::MAX));
            samples.near.push(([label.clone(), period.to_owned()], near));
        }
    }
    samples
}
