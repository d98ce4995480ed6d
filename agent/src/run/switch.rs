//! `/<role> NAME`: a user gives the role another model, with the whole conversation.

use codebutler_crds::SlackTs;
use codebutler_crds::wire::{Author, Message, PostMessage};

use super::mail::Mail;
use super::{Agent, RunError};
use crate::decisions::Kind;
use crate::text::clip;
use crate::transcript::Record;

/// What a user wants.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    ts: SlackTs,
    /// A part of the model's name; nothing to see the list.
    name: String,
}

/// What users want of `role` here, in the order in which they said it.
fn wanted(mail: &Mail, role: &str) -> Vec<Wanted> {
    let said = mail.messages.iter().filter(|m| is_said(m));
    said.filter_map(|m| Some(Wanted { ts: m.ts.clone(), name: command(&m.text, role)? })).collect()
}

/// Whether there is something else to work on.
fn with_more(mail: &Mail, role: &str) -> bool {
    let mut others = mail.messages.iter().filter(|m| is_said(m) && m.addressed);
    others.any(|m| command(&m.text, role).is_none()) || !mail.pending.is_empty()
}

fn is_said(message: &Message) -> bool {
    matches!(message.author, Author::User { .. })
}

fn command(text: &str, role: &str) -> Option<String> {
    let rest = text.trim().strip_prefix('/')?.strip_prefix(role)?;
    let name = rest.trim();
    let whole = rest.is_empty() || rest.starts_with(char::is_whitespace);
    (whole && !name.contains(char::is_whitespace)).then(|| name.to_owned())
}

impl Agent {
    /// Switches, or says what there is: before the mail is taken, so that who dies meanwhile finds it
    /// again. A repetition says nothing again. Answers whether there is nothing else to work on.
    pub(super) async fn obey(&mut self, mail: &mut Mail) -> Result<bool, RunError> {
        let role = &self.session.role;
        let wanted = wanted(mail, role);
        let all = !wanted.is_empty() && !with_more(mail, role);
        for one in &wanted {
            self.switch_to(one).await?;
        }
        // No conversation of its own is needed for it.
        mail.requests.retain(|ts| wanted.iter().all(|one| one.ts != *ts));
        Ok(all)
    }

    async fn switch_to(&mut self, Wanted { ts, name }: &Wanted) -> Result<(), RunError> {
        let fits = |model: &&String| model.to_lowercase().contains(&name.to_lowercase());
        let exact = self.session.models.iter().find(|model| *model == name);
        let fitting: Vec<&String> = self.session.models.iter().filter(fits).collect();
        let chosen = match (exact, &fitting[..]) {
            (Some(one), _) => Some(one.clone()),
            (None, [one]) if !name.is_empty() => Some((*one).clone()),
            _ => None,
        };
        let current = self.transcript.state().model().unwrap_or(&self.session.model).to_owned();
        let text = chosen.as_ref().map_or_else(
            || {
                let list: Vec<_> =
                    self.session.models.iter().map(|model| format!("- `{model}`")).collect();
                let unknown = match name.as_str() {
                    "" => String::new(),
                    name => {
                        format!("`{}` is not one of my models, or fits several. ", clip(name, 60))
                    }
                };
                let role = &self.session.role;
                let list = list.join("\n");
                format!("{unknown}I think with `{current}`. `/{role} NAME` switches:\n{list}")
            },
            |model| format!("From now on I think with `{model}`."),
        );
        if let Some(model) = chosen.filter(|model| *model != current) {
            let run = self.transcript.state().run().map(|run| run.id.clone()).unwrap_or_default();
            self.log.note(&run, Kind::Model, &model, &[&current], "a user asked for it");
            self.transcript.append(&Record::Model { model })?;
        }
        let key = format!("{}.model.{ts}", self.session.role);
        self.tools.gateway.post(&PostMessage { key, text, ..PostMessage::default() }).await?;
        Ok(())
    }
}
