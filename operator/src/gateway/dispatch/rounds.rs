//! Two roles that hand work to each other again and again: after some rounds somebody else decides.

use codebutler_crds::thread::{HandOver, HandOverReason, HandoverRounds};
use codebutler_crds::{SlackTs, ThreadStatus};

use super::RepoTeam;

/// Rounds after which the lead is asked, and again after as many more.
const ROUNDS: u32 = 3;
/// Hand-overs in a round: there and back.
const ROUND: u32 = 2;

/// Who is asked instead of `to` when `from` hands over to it now. `at`: the message, if it was sent
/// before; what was counted is not counted again.
pub fn lead_instead(
    team: &RepoTeam,
    status: &ThreadStatus,
    from: &str,
    to: &str,
) -> Option<String> {
    let lead = team.leads.as_deref().filter(|lead| *lead != from && *lead != to)?;
    let times = next_round(status.rounds.as_deref(), from, to);
    // The first one after so many rounds: what the last round changed is there to be judged.
    let over = times > 1 && times % (ROUNDS * ROUND) == 1;
    over.then(|| lead.to_owned())
}

fn next_round(known: Option<&HandoverRounds>, from: &str, to: &str) -> u32 {
    // Back and forth: a role that writes twice in a row has not heard anything in between.
    match known {
        Some(known) if known.from == to && known.to == from => known.times + 1,
        Some(known) if known.from == from && known.to == to => known.times,
        _ => 1,
    }
}

/// Counts a hand-over. Applied again, nothing changes.
pub fn count_round(status: &mut ThreadStatus, from: &str, to: &str, ts: &SlackTs) {
    let known = status.rounds.take();
    if known.as_ref().is_some_and(|known| known.ts >= *ts) {
        status.rounds = known;
        return;
    }
    let times = next_round(known.as_deref(), from, to);
    let before = known.filter(|known| known.from == to).map(|known| known.ts);
    let counted =
        HandoverRounds { from: from.to_owned(), to: to.to_owned(), ts: ts.clone(), before, times };
    status.rounds = Some(Box::new(counted));
}

/// What the lead is asked, about the message at `ts`, which hands over to `to`.
pub fn lead_question(
    status: &ThreadStatus,
    lead: &str,
    from: &str,
    to: &str,
    ts: &SlackTs,
) -> HandOver {
    let known = status.rounds.as_ref().filter(|known| known.from == from && known.to == to);
    let before = known.and_then(|known| known.before.clone());
    HandOver {
        id: format!("rounds:{ts}"),
        role: Some(lead.to_owned()),
        from: Some(from.to_owned()),
        with: Some(to.to_owned()),
        why: HandOverReason::Rounds,
        views: before.into_iter().chain([ts.clone()]).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ts(n: u32) -> SlackTs {
        format!("{n}.000000").parse().unwrap()
    }

    fn team() -> RepoTeam {
        let roles = ["pm", "coder", "reviewer", "lead"].map(str::to_owned).to_vec();
        let [_, coder, reviewer, lead] = &roles[..] else { panic!() };
        RepoTeam {
            implements: Some(coder.clone()),
            reviews: Some(reviewer.clone()),
            leads: Some(lead.clone()),
            roles,
        }
    }

    #[test]
    fn the_lead_is_asked_after_three_rounds_and_again_after_three_more() {
        let (team, mut status) = (team(), ThreadStatus::default());
        let mut asked = Vec::new();
        for n in 1..=13 {
            let (from, to) = if n % 2 == 1 { ("coder", "reviewer") } else { ("reviewer", "coder") };
            if lead_instead(&team, &status, from, to).is_some() {
                asked.push(n);
            }
            count_round(&mut status, from, to, &ts(n));
            // Delivered again, and written twice in a row.
            count_round(&mut status, from, to, &ts(n));
        }
        assert_eq!(asked, [7, 13]);
        let question = lead_question(&status, "lead", "coder", "reviewer", &ts(13));
        assert_eq!(question.views, [ts(12), ts(13)]);
        assert_eq!(
            (question.from.as_deref(), question.with.as_deref()),
            (Some("coder"), Some("reviewer"))
        );
    }

    #[test]
    fn other_roles_in_between_begin_anew() {
        let (team, mut status) = (team(), ThreadStatus::default());
        for n in 2..=7 {
            let (from, to) = if n % 2 == 1 { ("coder", "reviewer") } else { ("reviewer", "coder") };
            count_round(&mut status, from, to, &ts(n));
        }
        assert!(lead_instead(&team, &status, "reviewer", "coder").is_some());
        assert_eq!(lead_instead(&team, &status, "coder", "reviewer"), None);
        // Not the lead's own, and not where there is none.
        assert_eq!(lead_instead(&team, &status, "reviewer", "lead"), None);
        assert_eq!(
            lead_instead(&RepoTeam { leads: None, ..team.clone() }, &status, "reviewer", "coder"),
            None
        );
        count_round(&mut status, "reviewer", "lead", &ts(8));
        assert_eq!(status.rounds.as_ref().unwrap().times, 1);
        count_round(&mut status, "lead", "coder", &ts(9));
        count_round(&mut status, "coder", "reviewer", &ts(10));
        assert_eq!(status.rounds.as_ref().unwrap().times, 1);
    }
}
