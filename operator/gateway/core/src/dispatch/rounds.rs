//! Two roles that hand work to each other again and again: after some rounds somebody else decides.

use codebutler_crds::thread::{HandOver, HandOverReason, HandoverRounds};
use codebutler_crds::{SlackTs, ThreadStatus};

use super::RepoTeam;

/// Rounds after which the lead is asked, and again after as many more.
const ROUNDS: u32 = 3;
/// Hand-overs in a round: there and back.
const ROUND: u32 = 2;
/// Rounds of messages that say nothing new, after which people are told instead of another one.
const IDLE_ROUNDS: u32 = 2;
/// Words of courtesy: a hand-over of these alone gives the other role nothing to act on.
const COURTESY: &str = "again ahead alright continue done fine go good got great hi hello is it noted now ok okay on over \
    perfect please proceed ready sounds sure thank thanks that to understood well will do yes you your turn back hand i \
    have nothing no comment comments add else further more me from my side all clear agreed \
    danke bitte weiter gut passt fertig verstanden alles klar ja mach machen gern gerne super perfekt du bist dran ich habe \
    nichts hinzuzufügen mehr dann \
    gracias por favor sigue continúa adelante listo lista bien perfecto entendido de acuerdo vale hecho sí si no tengo nada \
    que añadir \
    merci d'accord parfait compris vas-y continuez allez-y oui rien à ajouter je n'ai";

/// Returns true if a hand-over brings nothing that the other role could act on.
pub fn says_nothing(text: &str) -> bool {
    let words = text.split_whitespace().filter(|word| !word.contains("@codebutler."));
    let mut words =
        words.map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase());
    words.all(|word| word.is_empty() || COURTESY.split_whitespace().any(|known| known == word))
}

/// Returns true if `from` and `to` have handed over to each other for some rounds and said nothing
/// new.
pub fn is_idle(status: &ThreadStatus, from: &str, to: &str) -> bool {
    let known = status.rounds.as_deref();
    next_round(known, from, to) > IDLE_ROUNDS * ROUND
        && known.is_some_and(|known| known.idle >= IDLE_ROUNDS * ROUND)
}

/// Returns the id of the notice about the idle message at `ts`.
pub fn idle_id(ts: &SlackTs) -> String {
    format!("idle:{ts}")
}

/// Builds the notice that tells people of an idle exchange, about the message at `ts`.
pub fn idle_notice(from: &str, to: &str, ts: &SlackTs) -> HandOver {
    HandOver {
        id: idle_id(ts),
        role: None,
        from: Some(from.to_owned()),
        with: Some(to.to_owned()),
        why: HandOverReason::Rounds,
        views: Vec::new(),
    }
}

/// Returns the lead if it is to be asked instead of `to` when `from` hands over now. `at`: the
/// message, if it was sent before; hand-overs already counted are not counted again.
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

/// Counts a hand-over; `idle`: it said nothing new. Applied again, nothing changes.
pub fn count_round(status: &mut ThreadStatus, from: &str, to: &str, ts: &SlackTs, idle: bool) {
    let known = status.rounds.take();
    if known.as_ref().is_some_and(|known| known.ts >= *ts) {
        status.rounds = known;
        return;
    }
    let times = next_round(known.as_deref(), from, to);
    let idle_before = known.as_ref().filter(|_| times > 1).map_or(0, |known| known.idle);
    let before = known.filter(|known| known.from == to).map(|known| known.ts);
    let counted = HandoverRounds {
        from: from.to_owned(),
        to: to.to_owned(),
        ts: ts.clone(),
        before,
        times,
        idle: if idle { idle_before + 1 } else { 0 },
    };
    status.rounds = Some(Box::new(counted));
}

/// Builds the question to the lead about the message at `ts`, which hands over to `to`.
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
            draws: None,
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
            count_round(&mut status, from, to, &ts(n), false);
            // Delivered again, and written twice in a row.
            count_round(&mut status, from, to, &ts(n), false);
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
    fn two_roles_that_say_nothing_are_not_given_a_third_round() {
        let mut status = ThreadStatus::default();
        let turn = |n: u32| if n % 2 == 1 { ("coder", "reviewer") } else { ("reviewer", "coder") };
        for n in 1..=4 {
            let (from, to) = turn(n);
            assert!(!is_idle(&status, from, to), "{n}");
            count_round(&mut status, from, to, &ts(n), true);
        }
        assert!(is_idle(&status, "coder", "reviewer"));
        // Something new begins the count anew, and so does another role.
        let mut useful = status.clone();
        count_round(&mut useful, "coder", "reviewer", &ts(5), false);
        assert!(!is_idle(&useful, "reviewer", "coder"));
        assert!(!is_idle(&status, "coder", "lead"));
    }

    #[test]
    fn a_message_says_something_if_it_can_be_acted_on() {
        for idle in [
            "@codebutler.reviewer",
            "@codebutler.coder ok, thanks.",
            "@codebutler.coder please go on",
            "@codebutler.coder I have nothing to add.",
            "@codebutler.reviewer Danke, bitte weiter!",
            "@codebutler.coder gracias, adelante",
            "@codebutler.coder d'accord, merci",
        ] {
            assert!(says_nothing(idle), "{idle}");
        }
        for useful in [
            "@codebutler.coder see `a.rs`",
            "@codebutler.coder line 4 is wrong",
            "@codebutler.reviewer two",
            "@codebutler.coder bitte mit Test",
            "@codebutler.coder no tests",
            "@codebutler.coder which one?",
            "@codebutler.reviewer the empty cart is tested and pushed now",
        ] {
            assert!(!says_nothing(useful), "{useful}");
        }
    }

    #[test]
    fn other_roles_in_between_begin_anew() {
        let (team, mut status) = (team(), ThreadStatus::default());
        for n in 2..=7 {
            let (from, to) = if n % 2 == 1 { ("coder", "reviewer") } else { ("reviewer", "coder") };
            count_round(&mut status, from, to, &ts(n), false);
        }
        assert!(lead_instead(&team, &status, "reviewer", "coder").is_some());
        assert_eq!(lead_instead(&team, &status, "coder", "reviewer"), None);
        // Not the lead's own, and not where there is none.
        assert_eq!(lead_instead(&team, &status, "reviewer", "lead"), None);
        assert_eq!(
            lead_instead(&RepoTeam { leads: None, ..team.clone() }, &status, "reviewer", "coder"),
            None
        );
        count_round(&mut status, "reviewer", "lead", &ts(8), false);
        assert_eq!(status.rounds.as_ref().unwrap().times, 1);
        count_round(&mut status, "lead", "coder", &ts(9), false);
        count_round(&mut status, "coder", "reviewer", &ts(10), false);
        assert_eq!(status.rounds.as_ref().unwrap().times, 1);
    }
}
