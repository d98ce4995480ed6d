//! Modals: what an app opens for a person who just did something, and what the person fills in; and the buttons
//! that say whether an answer helped.

use serde_json::{Value, json};

use super::SlackServer;
use super::actions::into_object;
use super::core::SlackCore;
use super::delivery::EnvelopeKind;
use super::driver::SlackError;
use super::interaction::NoClick;
use super::modal_desk::OpenModal;

/// A modal as a person sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModalView {
    /// View id, `V…`.
    pub id: String,
    /// Title in the modal's head.
    pub title: String,
    /// View payload as the app gave it.
    pub view: Value,
}

impl SlackCore {
    pub(super) fn issue_trigger(&mut self, user: &str, action_ts: &str) -> String {
        let (seconds, micros) = action_ts.split_once('.').unwrap_or((action_ts, "0"));
        let trigger = format!("{seconds}.{micros}.{}", uuid::Uuid::new_v4().simple());
        self.modals.trigger(&trigger, user);
        trigger
    }

    /// A person presses one of the two buttons that ask whether an answer helped.
    fn rate_as(
        &mut self,
        user: &str,
        (channel, ts): (&str, &str),
        helps: bool,
    ) -> Result<String, NoClick> {
        self.interact(user, (channel, ts, "feedback_buttons"), |message| {
            let blocks = message.blocks.iter().filter(|block| block["type"] == "context_actions");
            let elements = blocks.flat_map(|block| {
                let inside = block["elements"].as_array().into_iter().flatten();
                inside.map(move |element| (block, element))
            });
            let (block, element) =
                elements.into_iter().find(|(_, one)| one["type"] == "feedback_buttons")?;
            let button = if helps { "positive_button" } else { "negative_button" };
            Some(json!({
                "type": "feedback_buttons",
                "action_id": element["action_id"],
                "block_id": block["block_id"],
                "text": element[button]["text"],
                "value": element[button]["value"],
            }))
        })
    }

    fn submit(&mut self, user: &str, id: &str, words: &str) -> Result<String, SlackError> {
        let missing = || SlackError::Refused("view_not_found".to_owned());
        let modal = self.modals.open.get(id).filter(|modal| modal.user == user);
        let view = modal.ok_or_else(missing)?.view.clone();
        let mut values = json!({});
        for block in view["blocks"].as_array().into_iter().flatten() {
            let element = &block["element"];
            let (Some(place), Some(action)) =
                (block["block_id"].as_str(), element["action_id"].as_str())
            else {
                continue;
            };
            let most = element["max_length"].as_u64().unwrap_or(3000);
            let length = words.chars().count() as u64;
            if length > most || (length == 0 && block["optional"] != true) {
                return Err(SlackError::Refused("input".to_owned()));
            }
            values[place][action] = json!({ "type": element["type"], "value": words });
        }
        let key = self.world.ts();
        let mut shown = view;
        shown["state"] = json!({ "values": values });
        let name = self.world.users.get(user).map(|user| user.name.clone());
        let trigger = self.issue_trigger(user, &key);
        let payload = json!({
            "type": "view_submission",
            "team": { "id": self.world.team.id, "domain": self.world.team.domain },
            "user": { "id": user, "username": name, "name": name, "team_id": self.world.team_of(user) },
            "api_app_id": self.world.app.id,
            "token": "verification-token",
            "trigger_id": trigger,
            "view": shown,
            "response_urls": [],
            "is_enterprise_install": false,
            "enterprise": null,
        });
        if let Some(modal) = self.modals.open.get_mut(id) {
            modal.submitted = Some(key.clone());
        }
        let kind = EnvelopeKind::Interactive;
        let payload = Value::Object(into_object(payload));
        self.dispatcher.emit(kind, "view_submission", &key, None, payload);
        Ok(key)
    }
}

impl SlackServer {
    /// A user says with the buttons under an answer whether it helped; returns the press's `action_ts`.
    ///
    /// # Errors
    /// As a click's.
    pub fn rate(
        &self,
        user: &str,
        channel: &str,
        ts: &str,
        helps: bool,
    ) -> Result<String, SlackError> {
        self.inner.update(|core| {
            core.rate_as(user, (channel, ts), helps).map_err(|why| match why {
                NoClick::Message => {
                    SlackError::Message { channel: channel.to_owned(), ts: ts.to_owned() }
                }
                NoClick::Button => {
                    let action_id = "feedback_buttons".to_owned();
                    SlackError::Button { ts: ts.to_owned(), action_id }
                }
                NoClick::Hidden => {
                    SlackError::Hidden { user: user.to_owned(), channel: channel.to_owned() }
                }
            })
        })
    }

    /// Modals that are open for a user.
    pub fn modals(&self, user: &str) -> Vec<ModalView> {
        self.inner.read(|core| {
            let own = core.modals.open.iter().filter(|(_, modal)| modal.user == user);
            let view = |(id, modal): (&String, &OpenModal)| ModalView {
                id: id.clone(),
                title: modal.view["title"]["text"].as_str().unwrap_or_default().to_owned(),
                view: modal.view.clone(),
            };
            own.map(view).collect()
        })
    }

    /// A user fills in every field of a modal with the same words and sends it. It closes when the app has
    /// acknowledged that.
    ///
    /// # Errors
    /// When it is not open for them, or takes no such words.
    pub fn submit_modal(&self, user: &str, id: &str, words: &str) -> Result<String, SlackError> {
        self.inner.update(|core| core.submit(user, id, words))
    }

    /// The workspace is older than a kind of block.
    pub fn forget_block(&self, kind: &str) {
        self.inner.update(|core| core.unknown_blocks.insert(kind.to_owned()));
    }
}
