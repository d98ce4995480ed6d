//! Budgets of Repos, people and teams, with what is used of them. Pure.

use codebutler_wire::NanoUsd;

use crate::UserNames;
use crate::list::encode_query;
use crate::text::show_money;

/// Rows that are shown at most: those nearest to their caps.
const ROWS: usize = 60;

/// Budgets of a Repo, of its people and of its teams.
#[derive(Clone, Debug, Default)]
pub struct RepoBudgets {
    pub namespace: String,
    pub repo: String,
    /// Cap of the whole Repo for a day.
    pub per_day: Option<NanoUsd>,
    pub lines: Vec<BudgetLine>,
    /// Slack user ids of each team's members.
    pub teams: Vec<(String, Vec<String>)>,
}

/// Use of one owner's daily and monthly budget.
#[derive(Clone, Debug)]
pub struct BudgetLine {
    pub owner: BudgetOwner,
    pub day: BudgetUse,
    pub month: BudgetUse,
}

/// Owner of a budget: the Repo, a person or a team.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BudgetOwner {
    Repo,
    /// Slack user id of the person.
    Person(String),
    Team(String),
}

/// Used part of a cap, in the present day or month.
#[derive(Clone, Copy, Debug, Default)]
pub struct BudgetUse {
    pub used: NanoUsd,
    pub cap: Option<NanoUsd>,
}

/// Row of the table of budgets: one owner.
pub(crate) struct BudgetRow {
    pub name: String,
    pub link: Option<String>,
    pub repo: String,
    /// Use of the day and of the month, each with its heading.
    pub cells: [(&'static str, Option<BudgetCell>); 2],
}

/// An amount beside its cap.
pub(crate) struct BudgetCell {
    /// Used amount, as HTML.
    pub used: String,
    /// Cap, as HTML.
    pub cap: String,
    /// Used share of the cap in thousandths, 1000 at most.
    pub share: u64,
}

impl BudgetCell {
    fn of(money: BudgetUse) -> Option<Self> {
        let cap = money.cap?;
        let share = share_of(money);
        Some(Self { used: show_money(money.used), cap: show_money(cap), share })
    }

    /// Used share in percent, for screen readers.
    pub(crate) fn percent(&self) -> String {
        format!("{} %", self.share / 10)
    }
}

fn share_of(BudgetUse { used, cap }: BudgetUse) -> u64 {
    let Some(cap) = cap else { return 0 };
    let share = u128::from(used.0) * 1000 / u128::from(cap.0.max(1));
    u64::try_from(share).unwrap_or(1000).min(1000)
}

/// The rows of the table, the one nearest to its cap first.
pub(crate) fn list_budgets(budgets: &[RepoBudgets], names: &UserNames) -> Vec<BudgetRow> {
    let mut lines: Vec<_> = budgets
        .iter()
        .flat_map(|one| one.lines.iter().map(move |line| (one, line)))
        .filter(|(_, line)| line.day.cap.is_some() || line.month.cap.is_some())
        .collect();
    lines.sort_by_key(|(_, line)| std::cmp::Reverse(share_of(line.day).max(share_of(line.month))));
    let row = |(one, line): (&RepoBudgets, &BudgetLine)| {
        let (name, link) = match &line.owner {
            BudgetOwner::Repo => ("everybody".to_owned(), None),
            BudgetOwner::Team(team) => (format!("team {team}"), None),
            BudgetOwner::Person(user) => {
                let name = names.get(user).cloned().unwrap_or_else(|| user.clone());
                (name, Some(format!("/?person={}", encode_query(user))))
            }
        };
        let cells =
            [("Today", BudgetCell::of(line.day)), ("This month", BudgetCell::of(line.month))];
        BudgetRow { name, link, repo: one.repo.clone(), cells }
    };
    lines.into_iter().take(ROWS).map(row).collect()
}

/// Sum of the daily caps of all these Repos, if each has one.
pub(crate) fn sum_days(budgets: &[RepoBudgets], repos: usize) -> Option<NanoUsd> {
    let caps: Option<Vec<NanoUsd>> = budgets.iter().map(|one| one.per_day).collect();
    let caps = caps.filter(|caps| !caps.is_empty() && caps.len() == repos)?;
    Some(caps.into_iter().sum())
}

/// The teams of a Repo that a person is in.
pub(crate) fn teams_of<'a>(
    budgets: &'a [RepoBudgets],
    (namespace, repo): (&str, &str),
    user: &str,
) -> Vec<&'a str> {
    let own = budgets.iter().filter(|one| one.namespace == namespace && one.repo == repo);
    let teams = own.flat_map(|one| &one.teams);
    let teams = teams.filter(|(_, members)| members.iter().any(|one| one == user));
    teams.map(|(name, _)| name.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn usd(cents: u64) -> NanoUsd {
        NanoUsd(cents * 10_000_000)
    }

    fn line(owner: BudgetOwner, day: (u64, Option<u64>), month: (u64, Option<u64>)) -> BudgetLine {
        let of = |(used, cap): (u64, Option<u64>)| BudgetUse { used: usd(used), cap: cap.map(usd) };
        BudgetLine { owner, day: of(day), month: of(month) }
    }

    fn shop(lines: Vec<BudgetLine>) -> RepoBudgets {
        let (namespace, repo) = ("team".to_owned(), "shop".to_owned());
        let teams = vec![("payments".to_owned(), vec!["U1".to_owned()])];
        RepoBudgets { namespace, repo, per_day: Some(usd(500)), lines, teams }
    }

    #[test]
    fn whoever_is_nearest_to_a_cap_stands_first_and_who_has_none_not_at_all() {
        let person = |user: &str| BudgetOwner::Person(user.to_owned());
        let budgets = [shop(vec![
            line(BudgetOwner::Repo, (100, Some(500)), (0, None)),
            line(person("U1"), (90, None), (950, Some(1000))),
            line(person("U2"), (90, None), (950, None)),
            line(BudgetOwner::Team("payments".into()), (300, Some(200)), (0, None)),
        ])];
        let names = UserNames::from([("U1".to_owned(), "Ana".to_owned())]);
        let rows = list_budgets(&budgets, &names);
        let shown: Vec<_> = rows
            .iter()
            .map(|row| {
                let share = |cell: &Option<BudgetCell>| cell.as_ref().map(BudgetCell::percent);
                let [(_, day), (_, month)] = &row.cells;
                (row.name.as_str(), share(day), share(month))
            })
            .collect();
        let percent = |text: &str| Some(text.to_owned());
        assert_eq!(
            shown,
            [
                ("team payments", percent("100 %"), None),
                ("Ana", None, percent("95 %")),
                ("everybody", percent("20 %"), None),
            ]
        );
        assert_eq!(rows[1].link.as_deref(), Some("/?person=U1"));
        assert_eq!(teams_of(&budgets, ("team", "shop"), "U1"), ["payments"]);
        assert_eq!(teams_of(&budgets, ("other", "shop"), "U1"), [""; 0]);
    }

    #[test]
    fn a_line_in_the_chart_needs_a_budget_of_every_repo() {
        let (one, mut two) = (shop(Vec::new()), shop(Vec::new()));
        assert_eq!(sum_days(&[one.clone(), two.clone()], 2), Some(usd(1000)));
        assert_eq!(sum_days(std::slice::from_ref(&one), 2), None);
        two.per_day = None;
        assert_eq!(sum_days(&[one, two], 2), None);
        assert_eq!(sum_days(&[], 0), None);
    }
}
