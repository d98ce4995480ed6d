//! Messages of people to test with: of each seeded skill twenty that ask for it and twenty that do not, in `corpus/`.
//! A line `- text => skill` asks for another one, or for none.

use std::collections::BTreeMap;

use super::*;

/// Hits and misses of a skill.
#[derive(Default)]
struct Score {
    right: usize,
    missed: Vec<String>,
    wrong: Vec<String>,
}

fn corpus(name: &str) -> String {
    let path = format!("{}/src/skills/corpus/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn fired(text: &str, skills: &[SkillGuide]) -> Option<String> {
    match find_asked(text, skills) {
        AskedSkill::One(call) => Some(call.skill),
        AskedSkill::Nothing | AskedSkill::OneOf(_) => None,
    }
}

#[test]
fn each_skill_is_got_by_what_people_write_and_by_nothing_else() {
    let skills = shipped_skills();
    let mut scores: BTreeMap<String, Score> = BTreeMap::new();
    for skill in &skills {
        let (name, text) = (&skill.name, corpus(&skill.name));
        let (mut should, mut should_not) = (0, 0);
        for line in text.lines() {
            let (wanted, said) = match line.split_once(' ') {
                Some(("+", said)) => (Some(name.as_str()), said),
                Some(("-", said)) => {
                    said.split_once(" => ").map_or((None, said), |(s, o)| (Some(o), s))
                }
                _ => panic!("{name}: {line}"),
            };
            let is_own = wanted == Some(name.as_str());
            *(if is_own { &mut should } else { &mut should_not }) += 1;
            match fired(said, &skills) {
                Some(got) if Some(got.as_str()) == wanted => {
                    scores.entry(got).or_default().right += usize::from(is_own);
                }
                got => {
                    if is_own {
                        scores.entry(name.clone()).or_default().missed.push(said.to_owned());
                    }
                    if let Some(got) = got {
                        scores.entry(got).or_default().wrong.push(said.to_owned());
                    }
                }
            }
        }
        assert_eq!((should, should_not), (20, 20), "{name}");
    }
    let share = |part: usize, rest: usize| part * 100 / (part + rest).max(1);
    let report = |name: &str, s: &Score| {
        format!(
            "{name}: recall {} %, precision {} %\n  missed {:?}\n  wrong {:?}\n",
            share(s.right, s.missed.len()),
            share(s.right, s.wrong.len()),
            s.missed,
            s.wrong
        )
    };
    let report: String = scores.iter().map(|(name, score)| report(name, score)).collect();
    println!("{report}");
    for (name, score) in &scores {
        assert!(share(score.right, score.missed.len()) >= 95, "{name} is missed\n{report}");
        assert!(share(score.right, score.wrong.len()) >= 90, "{name} fires too often\n{report}");
    }
    assert_eq!(scores.len(), 15);
}
