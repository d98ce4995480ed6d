//! `@codebutler.<role> model NAME`: a user gives the role another model, with the whole conversation.

use codebutler_wire::{MessageAuthor, PostMessage, SlackTs, ThreadMessage};

use super::mail::RoleMail;
use super::{Agent, RunError};
use crate::decisions::LoggedKind;
use crate::transcript::TranscriptRecord;
use codebutler_guides::text::clip_text;

/// Most models that a list names.
const LISTED: usize = 40;

/// Quote and markup characters that people put around a name.
const QUOTES: &str = "`'\"*_<>“”‘’";

#[derive(Debug, PartialEq, Eq)]
struct WantedModel {
    ts: SlackTs,
    /// Part of the model's name; empty to see the list.
    name: String,
}

/// Model switches that users ask of `role`, in the order in which they said it.
fn wanted_models(mail: &RoleMail, role: &str) -> Vec<WantedModel> {
    let said = mail.messages.iter().filter(|m| is_said(m));
    said.filter_map(|m| {
        Some(WantedModel { ts: m.ts.clone(), name: switch_command(&m.text, role)? })
    })
    .collect()
}

/// True if the mail holds other work than model switches.
fn with_more(mail: &RoleMail, role: &str) -> bool {
    let mut requests = mail.messages.iter().filter(|m| mail.requests.contains(&m.ts));
    let is_command = |m: &ThreadMessage| is_said(m) && switch_command(&m.text, role).is_some();
    requests.any(|m| !is_command(m)) || !mail.pending.is_empty()
}

fn is_said(message: &ThreadMessage) -> bool {
    matches!(message.author, MessageAuthor::User { .. })
}

/// Parses a message that is nothing but a switch: the role's address, perhaps among others, the word `model` and at
/// most one more. `/<role> NAME` means the same, where something lets people type it.
fn switch_command(text: &str, role: &str) -> Option<String> {
    let mut words = text.split_whitespace().peekable();
    let slashed = words.peek().and_then(|word| word.strip_prefix('/'));
    if slashed.is_some_and(|own| own.eq_ignore_ascii_case(role)) {
        words.next();
    } else {
        let mut named = false;
        while let Some(address) = words.peek().and_then(|word| addressed_role(word)) {
            named |= address.eq_ignore_ascii_case(role);
            words.next();
        }
        if !named || !words.next()?.trim_end_matches(':').eq_ignore_ascii_case("model") {
            return None;
        }
    }
    let name = words.next().unwrap_or_default();
    let name = name.trim_start_matches(|c: char| QUOTES.contains(c));
    let name = name.trim_end_matches(|c: char| QUOTES.contains(c) || ".,!".contains(c));
    words.next().is_none().then(|| name.to_owned())
}

/// The role that a word addresses: typed, or with the app's mention completed by Slack.
fn addressed_role(word: &str) -> Option<&str> {
    let word = word.trim_end_matches([',', ':']);
    let typed = word.get(..12).filter(|start| start.eq_ignore_ascii_case("@codebutler."));
    if typed.is_some() {
        return word.get(12..);
    }
    word.strip_prefix("<@")?.split_once(">.").map(|(_, role)| role)
}

/// Finds the model that is meant, or else the nearest candidates, the nearest first.
fn choose_model<'a>(models: &[&'a str], name: &str) -> Result<&'a str, Vec<&'a str>> {
    if let Some(exact) = models.iter().find(|model| model.eq_ignore_ascii_case(name)) {
        return Ok(exact);
    }
    let lower = name.to_lowercase();
    let fitting = models.iter().filter(|model| model.to_lowercase().contains(&lower));
    let fitting: Vec<&str> = fitting.copied().collect();
    match fitting[..] {
        [one] if !name.is_empty() => Ok(one),
        [] => {
            let mut near: Vec<_> = models
                .iter()
                .map(|model| (name_distance(&model.to_lowercase(), &lower), *model))
                .collect();
            near.sort_unstable();
            Err(near.into_iter().map(|(_, model)| model).collect())
        }
        _ => Err(fitting),
    }
}

/// Edit distance of two names; text around the shorter one counts little.
fn name_distance(model: &str, name: &str) -> usize {
    let (model, name): (Vec<char>, Vec<char>) = (model.chars().collect(), name.chars().collect());
    let mut row = vec![0; model.len() + 1];
    for (i, wanted) in name.iter().enumerate() {
        let mut before = row[0];
        row[0] = i + 1;
        for (j, found) in model.iter().enumerate() {
            let changed = before + usize::from(wanted != found);
            before = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(before + 1);
        }
    }
    row.into_iter().min().unwrap_or(name.len())
}

impl Agent {
    /// Models that can do a role's work: they call tools, as far as is known.
    pub(super) fn talkers(&self) -> impl Iterator<Item = &str> {
        let can = |model: &&String| {
            self.session.facts.get(*model).is_none_or(|facts| facts.tools != Some(false))
        };
        self.session.models.iter().filter(can).map(String::as_str)
    }

    /// Switches the model, or lists the models: before the mail is taken, so that a successor finds it again after a
    /// crash. A repetition posts nothing again. Returns true if there is nothing else to work on.
    pub(super) async fn obey(&mut self, mail: &mut RoleMail) -> Result<bool, RunError> {
        let role = &self.session.role;
        let wanted = wanted_models(mail, role);
        let all = !wanted.is_empty() && !with_more(mail, role);
        for one in &wanted {
            self.switch_to(one).await?;
        }
        // A switch needs no conversation of its own.
        mail.requests.retain(|ts| wanted.iter().all(|one| one.ts != *ts));
        Ok(all)
    }

    async fn switch_to(&mut self, WantedModel { ts, name }: &WantedModel) -> Result<(), RunError> {
        let models: Vec<&str> = self.talkers().collect();
        let current = self.model().to_owned();
        let chosen = choose_model(&models, name).map(ToOwned::to_owned);
        let text = match &chosen {
            Ok(model) => format!("From now on I think with `{model}`."),
            Err(near) => self.offer(name, near),
        };
        // A person who names the role's own model wants no other model to look first.
        let state = self.transcript.state();
        let named = self.session.first_look.is_some() && state.model().is_none();
        if let Some(model) = chosen.ok().filter(|model| *model != current || named) {
            let run = self.transcript.state().run().map(|run| run.id.clone()).unwrap_or_default();
            self.log.note(&run, LoggedKind::Model, &model, &[&current], "a user asked for it");
            self.transcript.append(&TranscriptRecord::Model { model })?;
        }
        let key = format!("{}.model.{ts}", self.session.role);
        self.tools.gateway.post(&PostMessage { key, text, ..PostMessage::default() }).await?;
        Ok(())
    }

    fn offer(&self, name: &str, near: &[&str]) -> String {
        let unknown = match name {
            "" => String::new(),
            name => {
                let name = clip_text(&name.replace('`', "'"), 60);
                format!("`{name}` is not one of my models, or fits several. ")
            }
        };
        let list: Vec<_> = near.iter().take(LISTED).map(|model| format!("- `{model}`")).collect();
        let left = near.len().saturating_sub(LISTED);
        let more = if left > 0 { format!("\nand {left} more") } else { String::new() };
        format!(
            "{unknown}I think with `{}`. `@codebutler.{} model NAME` switches:\n{}{more}",
            self.model(),
            self.session.role,
            list.join("\n")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_is_a_message_that_is_nothing_else() {
        for (text, expected) in [
            ("@codebutler.pm model strong", Some("strong")),
            (
                "  @CodeButler.PM   Model  anthropic/claude-opus-4.6 ",
                Some("anthropic/claude-opus-4.6"),
            ),
            ("@codebutler.pm: model `moonshotai/kimi-k2.5`.", Some("moonshotai/kimi-k2.5")),
            ("<@U0BOT>.pm model strong", Some("strong")),
            ("@codebutler.coder @codebutler.pm model strong", Some("strong")),
            ("@codebutler.pm model", Some("")),
            ("@codebutler.pm model: strong", Some("strong")),
            ("/pm strong", Some("strong")),
            (" /pm", Some("")),
            ("@codebutler.coder model strong", None),
            ("@codebutler.pm model the domain first", None),
            ("@codebutler.pm which model are you?", None),
            ("@codebutler.pmo model strong", None),
            ("use @codebutler.pm model strong", None),
            ("/pmo strong", None),
            ("model strong", None),
            ("@codebutler.pm", None),
            ("", None),
        ] {
            assert_eq!(switch_command(text, "pm").as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn what_came_with_a_switch_is_worked_on_whoever_said_it() {
        let said = |n: u32, author: MessageAuthor, text: &str| ThreadMessage {
            ts: format!("{n}.000000").parse().unwrap(),
            author,
            text: text.to_owned(),
            addressed: true,
            pictures: vec![],
        };
        let switch =
            said(1, MessageAuthor::User { id: "U1".into() }, "@codebutler.pm model strong");
        let mail = |messages: Vec<ThreadMessage>| RoleMail {
            requests: messages.iter().map(|message| message.ts.clone()).collect(),
            messages,
            ..RoleMail::default()
        };
        assert!(!with_more(&mail(vec![switch.clone()]), "pm"));
        let conflict =
            said(2, MessageAuthor::Role { role: "codebutler".into() }, "`main` has moved on");
        assert!(with_more(&mail(vec![switch, conflict]), "pm"));
    }

    #[test]
    fn a_name_that_nobody_has_gets_the_nearest() {
        let models =
            ["anthropic/claude-opus-4.6", "anthropic/claude-sonnet-4.5", "moonshotai/kimi-k2"];
        assert_eq!(choose_model(&models, "kimi"), Ok(models[2]));
        assert_eq!(choose_model(&models, "Anthropic/Claude-Opus-4.6"), Ok(models[0]));
        assert_eq!(choose_model(&models, "claude"), Err(vec![models[0], models[1]]));
        assert_eq!(choose_model(&models, "").unwrap_err().len(), 3);
        assert_eq!(choose_model(&models, "claude-opus-4-6").unwrap_err()[0], models[0]);
        assert_eq!(choose_model(&models, "kimi-k3").unwrap_err()[0], models[2]);
        assert_eq!(choose_model(&["a/x", "a/x-large"], "a/x"), Ok("a/x"));
    }
}
