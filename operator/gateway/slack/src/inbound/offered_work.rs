//! Work that people can ask for by name in a repository: its workflows and skills, as the answer to `help` shows
//! them. Pure but for [`WorkLookup`].

use std::sync::Arc;

use codebutler_crds::Repo;
use codebutler_crds::thread::is_user;
use futures::future::BoxFuture;

use crate::SlackGateway;
use crate::text::mrkdwn;

/// Workflows and skills that are listed; of more, only the number is said.
const MOST: usize = 20;
/// Characters of a name, and of what is said of a skill.
const NAME: usize = 40;
const ABOUT: usize = 90;
/// People who are named.
pub(crate) const NAMED: usize = 3;

/// Workflows and skills of a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OfferedWork {
    pub workflows: Vec<String>,
    pub skills: Vec<OfferedSkill>,
    /// The repository's own files were read; else only what CodeButler brings is known.
    pub is_whole: bool,
}

/// A skill, with one line that says what it does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OfferedSkill {
    pub name: String,
    pub about: String,
    /// It is the repository's, not one that CodeButler brings.
    pub is_own: bool,
}

/// Service that looks up what a repository offers.
pub(crate) type WorkLookup =
    Arc<dyn Fn(Arc<Repo>) -> BoxFuture<'static, OfferedWork> + Send + Sync>;

impl SlackGateway {
    /// Has workflows and skills named to who asks for help from now on.
    pub fn offer_work_of(&self, lookup: WorkLookup) {
        self.inner.services.attach_offered(lookup);
    }
}

/// Lines with the names of workflows and skills, as Slack shows them.
pub(crate) fn list_work(work: &OfferedWork) -> Vec<String> {
    let mut lines = Vec::new();
    let names: Vec<_> =
        work.workflows.iter().take(MOST).map(|name| show_short(name, NAME)).collect();
    if !names.is_empty() {
        lines.push(format!("Workflows: {}. I say which one I take.", names.join(", ")));
    }
    // A team looks for its own ones first.
    let (own, brought): (Vec<_>, Vec<_>) = work.skills.iter().partition(|skill| skill.is_own);
    let skills: Vec<_> = own.into_iter().chain(brought).collect();
    if !skills.is_empty() {
        lines.push("Skills, which you ask for in a few words:".to_owned());
    }
    for OfferedSkill { name, about, .. } in skills.iter().take(MOST) {
        lines.push(format!("• `{}`: {}", show_short(name, NAME), show_short(about, ABOUT)));
    }
    if skills.len() > MOST {
        lines.push(format!("• and {} more in `.codebutler/skills`", skills.len() - MOST));
    } else if !skills.is_empty() && !work.is_whole {
        lines.push("• and those in `.codebutler/skills`, which I have not read yet".to_owned());
    }
    lines
}

/// The beginning of a text in one line that Slack shows as it stands.
fn show_short(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ").replace('`', "'");
    let mut short: String = line.chars().take(most).collect();
    if short.len() < line.len() {
        short.push('…');
    }
    mrkdwn::escape_text(&short)
}

/// A sentence that says who may steer. `names`: of the first people of `users` whose names are known.
pub(crate) fn describe_rights(users: &[String], names: &[String]) -> String {
    if users.is_empty() {
        return "Everybody in this channel may give me work; full members of the workspace decide."
            .to_owned();
    }
    let others = users.iter().filter(|user| is_user(user)).count().saturating_sub(names.len());
    let names: Vec<_> = names.iter().map(|name| mrkdwn::escape_text(name)).collect();
    let who = match (names.split_last(), others) {
        (None, _) => "Some people".to_owned(),
        (Some((last, [])), 0) => last.clone(),
        (Some((last, rest)), 0) => format!("{} and {last}", rest.join(", ")),
        (Some(_), 1) => format!("{} and one more", names.join(", ")),
        (Some(_), others) => format!("{} and {others} others", names.join(", ")),
    };
    format!("{who} may steer me here; everybody may read along.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skill(name: &str, about: &str, is_own: bool) -> OfferedSkill {
        OfferedSkill { name: name.to_owned(), about: about.to_owned(), is_own }
    }

    #[test]
    fn workflows_and_skills_have_names_and_a_line_each_and_own_ones_come_first() {
        let work = OfferedWork {
            workflows: vec!["implement".to_owned(), "bugfix".to_owned()],
            skills: vec![
                skill("explain", "Explains how a part works.", false),
                skill("ship`it", "Ships <!channel>\n# now", true),
            ],
            is_whole: true,
        };
        assert_eq!(
            list_work(&work),
            [
                "Workflows: implement, bugfix. I say which one I take.",
                "Skills, which you ask for in a few words:",
                "• `ship'it`: Ships &lt;!channel&gt; # now",
                "• `explain`: Explains how a part works.",
            ]
        );
        assert!(list_work(&OfferedWork::default()).is_empty());
        let unread = OfferedWork { is_whole: false, ..work };
        assert!(list_work(&unread).last().unwrap().contains("not read yet"));
    }

    #[test]
    fn however_many_there_are_they_fit_into_a_message() {
        let long = "x".repeat(1000);
        let skills = (0..50).map(|n| skill(&format!("{n}{long}"), &long, true)).collect();
        let lines = list_work(&OfferedWork { skills, is_whole: true, ..OfferedWork::default() });
        assert!(lines.join("\n").chars().count() < 3000);
        assert_eq!(lines.last().unwrap(), "• and 30 more in `.codebutler/skills`");
    }

    #[test]
    fn who_may_steer_is_said_by_name_and_nobody_is_called() {
        let list = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let five = list(&["U01", "U02", "U03", "U04", "U05", "S0GROUP"]);
        for (users, names, expected) in [
            (list(&[]), list(&[]), "Everybody in this channel may give me work; full members"),
            (list(&["U01"]), list(&["Ana"]), "Ana may steer me here"),
            (list(&["U01", "U02"]), list(&["Ana", "Ben"]), "Ana and Ben may steer me here"),
            (five[..4].to_vec(), list(&["Ana", "Ben", "Cia"]), "Ana, Ben, Cia and one more may"),
            (five.clone(), list(&["Ana", "Ben", "Cia"]), "Ana, Ben, Cia and 2 others may"),
            (five, list(&[]), "Some people may steer me here; everybody may read along."),
        ] {
            let said = describe_rights(&users, &names);
            assert!(said.starts_with(expected) && !said.contains("<@"), "{said}");
        }
    }
}
