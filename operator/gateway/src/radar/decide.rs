//! Decides a Thread's status about others' branches, and the messages to its conversation. Pure.

use std::cmp::Reverse;

use codebutler_crds::thread::{BranchMeeting, BranchRadar, MOST_MEETINGS};
use codebutler_crds::wire::TextMerge;
use sha2::{Digest as _, Sha256};

use super::side::{BranchSide, MetBranch, merges_before};
use super::{current, messages};

/// Longest summary, in characters, and Threads that it names of a kind.
const MAX_SUMMARY: usize = 200;
const MAX_NAMED: usize = 3;
/// Summary of a branch that has nothing in its way.
const CLEAR: &str = "clear";

/// Something to tell a conversation, by key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RadarNotice {
    pub key: String,
    pub text: String,
    /// The other Threads, and what is told of them.
    pub of: Vec<(String, TextMerge)>,
    /// True if the role that takes messages to nobody has to judge it.
    pub is_mail: bool,
}

/// Adds the base branch to the summary of other branches, for a column of `kubectl get`.
pub(super) fn summarize_radar(radar: &mut BranchRadar) {
    let behind = radar.base.as_ref().map(current::summarize_base);
    if let Some(behind) = behind {
        let others = std::mem::take(&mut radar.summary);
        let parts = [Some(behind), Some(others).filter(|said| said != CLEAR)];
        let said = parts.into_iter().flatten().collect::<Vec<_>>().join("; ");
        radar.summary = said.chars().take(MAX_SUMMARY).collect();
    }
}

/// The new status of a Thread, and the notices that its conversation does not know yet. [`note_told`] records those
/// that were posted.
pub(super) fn decide_radar(
    own: &BranchSide,
    before: &BranchRadar,
    met: &[MetBranch<'_>],
) -> (BranchRadar, Vec<RadarNotice>) {
    let mut met: Vec<&MetBranch<'_>> = met.iter().collect();
    met.sort_by_key(|one| (Reverse(contact_gravity(one)), one.other.name.clone()));
    let told = |name: &str| {
        let known = before.meets.iter().find(|meeting| meeting.thread == name);
        known.and_then(|meeting| meeting.told)
    };
    let kept = met.iter().take(MOST_MEETINGS);
    let meeting = |one: &&MetBranch<'_>| BranchMeeting {
        thread: one.other.name.clone(),
        text: one.text,
        told: told(&one.other.name),
    };
    let words = kept.clone().filter_map(|one| find_word(own, told(&one.other.name), one));
    let radar = BranchRadar {
        summary: summarize_met(&met),
        tip: before.tip.clone(),
        pushing: before.pushing.clone(),
        removed: before.removed.clone(),
        fork: before.fork.clone(),
        size: own.size,
        meets: kept.clone().map(meeting).collect(),
        base: None,
        more: u32::try_from(met.len().saturating_sub(MOST_MEETINGS)).unwrap_or(u32::MAX),
    };
    (radar, gather_words(words.collect()))
}

/// Records that a conversation was told.
pub(super) fn note_told(radar: &mut BranchRadar, told: &[(String, TextMerge)]) {
    for (thread, text) in told {
        if let Some(meeting) = radar.meets.iter_mut().find(|meeting| meeting.thread == *thread) {
            meeting.told = Some(*text);
        }
    }
}

/// Joins all notices that nobody has to judge into one message: Slack takes one a second per channel, and people read
/// as many.
fn gather_words(words: Vec<RadarNotice>) -> Vec<RadarNotice> {
    let (mail, plain): (Vec<_>, Vec<_>) = words.into_iter().partition(|word| word.is_mail);
    if plain.len() < 2 {
        return plain.into_iter().chain(mail).collect();
    }
    let list = |of: fn(&RadarNotice) -> &str| plain.iter().map(of).collect::<Vec<_>>().join("\n");
    let keys = Sha256::digest(list(|word| &word.key));
    let all = RadarNotice {
        key: format!("overlaps-{}", hex::encode(&keys[..8])),
        text: list(|word| &word.text),
        of: plain.iter().flat_map(|word| word.of.clone()).collect(),
        is_mail: false,
    };
    std::iter::once(all).chain(mail).collect()
}

fn contact_gravity(met: &MetBranch<'_>) -> u8 {
    match met.text {
        TextMerge::Conflict => 3,
        TextMerge::Unknown => 2,
        TextMerge::Clean => u8::from(!met.symbols.is_empty()),
    }
}

/// Told once, and once more when it has become a conflict.
fn find_word(
    own: &BranchSide,
    told: Option<TextMerge>,
    met: &MetBranch<'_>,
) -> Option<RadarNotice> {
    let is_news = match told {
        None => true,
        Some(TextMerge::Conflict) => false,
        Some(_) => met.text == TextMerge::Conflict,
    };
    let kind = match met.text {
        TextMerge::Clean => "clean",
        TextMerge::Conflict => "conflict",
        TextMerge::Unknown => "unknown",
    };
    let name = &met.other.name;
    // One of the two conversations is enough to judge it: the one whose branch has to adapt.
    let is_mail = told.is_none() && !met.symbols.is_empty() && merges_before(met.other, own);
    is_news.then(|| RadarNotice {
        key: format!("overlap-{name}-{kind}"),
        text: messages::describe_meeting(own, met, is_mail),
        of: vec![(name.clone(), met.text)],
        is_mail,
    })
}

/// Short summary of other branches, for a column of `kubectl get`.
fn summarize_met(met: &[&MetBranch<'_>]) -> String {
    let of = |text: TextMerge| {
        let names: Vec<&str> =
            met.iter().filter(|one| one.text == text).map(|one| &*one.other.name).collect();
        let more = names.len().saturating_sub(MAX_NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        (!names.is_empty())
            .then(|| format!("{}{more}", names[..names.len().min(MAX_NAMED)].join(", ")))
    };
    let parts = [
        of(TextMerge::Conflict).map(|names| format!("conflicts with {names}")),
        of(TextMerge::Unknown).map(|names| format!("unknown with {names}")),
        of(TextMerge::Clean).map(|names| format!("overlaps with {names}")),
    ];
    let said = parts.into_iter().flatten().collect::<Vec<_>>().join("; ");
    let said = if said.is_empty() { CLEAR.to_owned() } else { said };
    said.chars().take(MAX_SUMMARY).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use codebutler_crds::wire::ChangeSize;
    use jiff::Timestamp;

    use super::*;

    fn side(name: &str, lines: u64) -> BranchSide {
        let (branch, size) = (format!("codebutler/{name}"), ChangeSize { lines, files: 1 });
        BranchSide { name: name.into(), branch, created: None, size }
    }

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn both_sides_hear_once_and_again_when_it_becomes_a_conflict() {
        let (small, large) = (side("shop-1", 3), side("shop-2", 40));
        let (files, none, symbols) = (set(&["a.rs"]), set(&[]), ["a.rs: total".to_owned()]);
        let met = |other, text, conflicts| MetBranch {
            other,
            files: &files,
            symbols: &symbols,
            text,
            conflicts,
        };
        let clean = [met(&small, TextMerge::Clean, &none)];
        let (mut radar, words) = decide_radar(&large, &BranchRadar::default(), &clean);
        assert_eq!(radar.summary, "overlaps with shop-1");
        assert_eq!(words.len(), 1);
        assert!(words[0].is_mail, "the larger one adapts: there it is judged");
        assert_eq!(
            decide_radar(&large, &radar, &clean).1,
            words,
            "until it is told, by the same key"
        );
        note_told(&mut radar, &words[0].of);
        assert_eq!(decide_radar(&large, &radar, &clean), (radar.clone(), vec![]));
        let conflict = [met(&small, TextMerge::Conflict, &files)];
        let (mut radar, words) = decide_radar(&large, &radar, &conflict);
        assert_eq!(words[0].key, "overlap-shop-1-conflict");
        assert!(!words[0].is_mail, "it was judged");
        note_told(&mut radar, &words[0].of);
        for again in [&conflict, &clean, &conflict] {
            let (next, words) = decide_radar(&large, &radar, again);
            assert_eq!(words, []);
            radar = next;
        }
        let (_, words) =
            decide_radar(&small, &BranchRadar::default(), &[met(&large, TextMerge::Clean, &none)]);
        assert!(words.len() == 1 && !words[0].is_mail);
    }

    #[test]
    fn the_gravest_come_first_and_the_rest_is_counted() {
        let others: Vec<BranchSide> = (0..12).map(|n| side(&format!("s-{n:02}"), 1)).collect();
        let (files, none) = (set(&["a"]), set(&[]));
        let met: Vec<MetBranch<'_>> = others
            .iter()
            .enumerate()
            .map(|(n, other)| {
                let text = match n {
                    11 => TextMerge::Conflict,
                    10 => TextMerge::Unknown,
                    _ => TextMerge::Clean,
                };
                MetBranch { other, files: &files, symbols: &[], text, conflicts: &none }
            })
            .collect();
        let (radar, words) = decide_radar(&side("own", 9), &BranchRadar::default(), &met);
        assert_eq!(
            radar.summary,
            "conflicts with s-11; unknown with s-10; overlaps with s-00, s-01, s-02 and 7 more"
        );
        assert_eq!((radar.meets.len(), radar.more), (8, 4));
        assert_eq!((words.len(), words[0].of.len(), words[0].text.lines().count()), (1, 8, 8));
        let again = decide_radar(&side("own", 9), &BranchRadar::default(), &met).1;
        assert_eq!(again, words, "until it is told, by the same key");
        let mut told = radar.clone();
        note_told(&mut told, &words[0].of);
        assert_eq!(decide_radar(&side("own", 9), &told, &met).1, []);
        assert_eq!(decide_radar(&side("own", 9), &radar, &[]).0.summary, "clear");
        let (old, new) = (Some(Timestamp::UNIX_EPOCH), Some(Timestamp::MAX));
        let aged = |name, created| BranchSide { created, ..side(name, 3) };
        assert!(merges_before(&aged("b", old), &aged("a", new)), "of equals the older");
    }
}
