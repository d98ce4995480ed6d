//! Explains failures that a person can fix: a reason for machines, and a sentence that names the field of the
//! Repo or its Secret. Pure.

use codebutler_crds::Repo;
use codebutler_crds::wire::ErrorCode;
use codebutler_gateway_core::api_error::ApiError;

use crate::api::account::AccessError;
use crate::api::call_error::words_remark;
use crate::api::channel::RepoChannel;
use crate::api::download_error::{DOWNLOAD, EXTERNAL};
use crate::api::reachability;
use crate::api::web::CallError;

/// Returns `reason` and `message` of the Repo's condition.
pub(crate) fn explain_condition(error: &AccessError, repo: &Repo) -> (&'static str, String) {
    match error {
        AccessError::Secret(error) => {
            ("InvalidCredentials", format!("spec.slack.credentials: {error}"))
        }
        AccessError::Call(error) => explain_call(error, repo),
    }
}

/// Explains which required scopes the app lacks.
pub(crate) fn explain_scopes(lacks: &[String], repo: &Repo) -> (&'static str, String) {
    let secret = &repo.spec.slack.credentials.name;
    let what = if lacks.len() == 1 { "the scope" } else { "the scopes" };
    let message = format!(
        "spec.slack.credentials: `botToken` of the Secret `{secret}` lacks {what} {}: add to the \
         app and install it again",
        lacks.join(", ")
    );
    ("MissingScope", message)
}

pub(crate) fn no_channel(repo: &Repo) -> (&'static str, String) {
    let name = &repo.spec.slack.channel;
    let message = format!(
        "spec.slack.channel: the app sees no channel {name}: create it, or set \
         spec.slack.createChannel, and invite the app if it is private"
    );
    ("ChannelNotFound", message)
}

/// Explains which messages are for the Repo where others share its channel; `None` if none do.
pub(crate) fn explain_sharing(repo: &Repo, sharing: &[RepoChannel]) -> Option<String> {
    let others: Vec<String> = sharing
        .iter()
        .filter(|other| repo.metadata.uid.as_deref() != Some(&other.uid))
        .map(|other| format!("`{}/{}`", other.namespace, other.repo))
        .collect();
    (!others.is_empty()).then(|| {
        format!(
            "shares it with {}: a message is for the Repo that it names, and people are asked \
             where it names none",
            others.join(", ")
        )
    })
}

/// Explains that Slack lets this app stream nothing.
pub(crate) fn no_stream(code: &str) -> String {
    format!(
        "Slack refuses chat.startStream ({code}): a run is a line that is edited; the app's manifest \
         needs features.agent_view and the scope assistant:write"
    )
}

/// Explains that Slack shows nothing itself of who works and who is waited for.
pub(crate) fn no_session(code: &str, needed: Option<&str>) -> String {
    let line = match needed {
        Some(scope) => format!("{scope} in oauth_config.scopes.bot"),
        None => "features.agent_view".to_owned(),
    };
    format!(
        "Slack refuses agents.sessions.setStatus ({code}): it does not show itself who works and who is \
         waited for, only messages do; the app's manifest needs {line}"
    )
}

/// Said where the app may not show links to pages.
pub(crate) const NO_PREVIEWS: &str = "without links:read, links:write, the event link_shared and \
     features.unfurl_domains in the app's manifest links to pages have no preview";

/// Said where the app can't see who is in a user group.
pub(crate) const NO_GROUPS: &str = "without usergroups:read (oauth_config.scopes.bot in the app's manifest) nobody in the user \
     groups of spec.access.users may steer";

/// Explains that Slack does not say who is in a user group.
pub(crate) fn no_group(group: &str, code: &str) -> String {
    format!(
        "Slack does not say who is in the user group {group} of spec.access.users ({code}): none of them may steer"
    )
}

/// Explains that somebody else holds sockets of the same app.
pub(crate) fn shared_app(repo: &Repo) -> (&'static str, String) {
    let secret = &repo.spec.slack.credentials.name;
    let message = format!(
        "spec.slack.credentials: another installation uses the Slack app of the Secret `{secret}`, \
         so each hears only some of the messages: give each installation an app of its own"
    );
    ("SharedApp", message)
}

/// Maps a failure to an error for the role whose call failed.
pub(crate) fn explain_api(error: &AccessError, repo: &Repo) -> ApiError {
    let code = match error {
        AccessError::Call(CallError::Limited { .. } | CallError::Failed { .. }) => {
            ErrorCode::Unavailable
        }
        // Work waits until it is fixed, and goes on by itself.
        AccessError::Call(call) if call.code().is_some_and(reachability::is_lasting) => {
            ErrorCode::Unavailable
        }
        _ => ErrorCode::Upstream,
    };
    ApiError::new(code, explain_condition(error, repo).1)
}

fn explain_call(error: &CallError, repo: &Repo) -> (&'static str, String) {
    let (channel, secret) = (&repo.spec.slack.channel, &repo.spec.slack.credentials.name);
    let CallError::Refused { method, code, needed, said } = error else {
        return ("SlackUnavailable", format!("{error}; it is tried again"));
    };
    // Sockets are opened with one token, everything else is done with the other.
    let key = if *method == "apps.connections.open" { "appToken" } else { "botToken" };
    match code.as_str() {
        "not_in_channel" => (
            "NotInChannel",
            format!("spec.slack.channel: the app is not in {channel}: invite it there"),
        ),
        "channel_not_found" => (
            "ChannelNotFound",
            format!(
                "spec.slack.channel: the app sees no channel {channel}: check the id, and invite \
                 the app if the channel is private"
            ),
        ),
        "is_archived" => (
            "ChannelArchived",
            format!(
                "spec.slack.channel: {channel} is archived: unarchive it and invite the app again, or name another \
                 channel"
            ),
        ),
        "account_inactive" | "app_uninstalled" | "team_access_not_granted" => (
            "AppRemoved",
            format!(
                "spec.slack.credentials: the app of the Secret `{secret}` is not installed in the \
                 workspace any more ({code}): install it again, and put its new `{key}` there"
            ),
        ),
        "invalid_auth"
        | "not_authed"
        | "token_revoked"
        | "token_expired"
        | "not_allowed_token_type" => (
            "InvalidCredentials",
            format!(
                "spec.slack.credentials: Slack does not accept `{key}` of the Secret `{secret}` \
                 ({code}): {}",
                mend_token(code)
            ),
        ),
        "missing_scope" => {
            let scope = needed.as_deref().unwrap_or("that it needs");
            (
                "MissingScope",
                format!(
                    "spec.slack.credentials: `{key}` of the Secret `{secret}` lacks the scope \
                     {scope}: add it to the app and install it again"
                ),
            )
        }
        "link_disabled" | "socket_mode_not_enabled" => (
            "SlackRefused",
            format!(
                "Socket Mode is off for the app of the Secret `{secret}`, so nothing is heard at once: turn it \
                 on in the app's settings (settings.socket_mode_enabled in its manifest)"
            ),
        ),
        "too_many_websockets" => (
            "SlackRefused",
            format!(
                "the app of the Secret `{secret}` has ten connections already, which is all that Slack takes ({code}): \
                 end other installations that use it, or run fewer replicas of the gateway"
            ),
        ),
        code if *method == DOWNLOAD => ("SlackRefused", explain_download(code)),
        code if code.starts_with("restricted_action") => (
            "SlackRefused",
            format!(
                "a setting of {channel} or of its workspace keeps the app from posting ({method}: {code}): let the \
                 app post there, or name another channel in spec.slack.channel"
            ),
        ),
        code => {
            let said = words_remark(said.as_deref());
            ("SlackRefused", format!("Slack refused {method} in {channel}: {code}{said}"))
        }
    }
}

/// The way out where Slack does not accept a token.
fn mend_token(code: &str) -> &'static str {
    match code {
        // Slack says so, too, of an address that the app's settings do not allow.
        "invalid_auth" => {
            "put in a valid token, or add the gateway's address to the allowed IP addresses in the app's settings"
        }
        "token_expired" => {
            "tokens expire where token rotation is on, so use an app whose manifest turns off \
             settings.token_rotation_enabled"
        }
        "not_allowed_token_type" => "`botToken` begins with xoxb-, and `appToken` with xapp-",
        _ => "put in a valid token",
    }
}

/// Explains why a file can't be had, to the role that asked for it.
fn explain_download(code: &str) -> String {
    match code {
        "file_not_found" => "Slack has this file no more: ask for it again".to_owned(),
        "file_too_large" => "the file is larger than Slack says: ask for a part of it".to_owned(),
        EXTERNAL => "the file is kept outside of Slack, where the app has no account: ask for an upload, or for what \
                     matters of it"
            .to_owned(),
        code => format!(
            "Slack does not hand the file out ({code}): the app may lack the scope files:read, or not be where the \
             file is. Ask for what matters of it"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_sentence_names_the_field_or_the_secret() {
        let repo: Repo = serde_json::from_value(json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Repo", "metadata": {"name": "shop"},
            "spec": {
                "git": {"url": "https://git.example.org/o/n", "credentials": {"name": "git"}},
                "slack": {"channel": "C0123", "credentials": {"name": "shop-slack"}},
                "model": {"credentials": {"name": "model"}}, "roles": ["pm"],
            },
        }))
        .unwrap();
        let refused = |method, code: &str, needed: Option<&str>| CallError::Refused {
            method,
            code: code.to_owned(),
            needed: needed.map(str::to_owned),
            said: None,
        };
        let told = [
            refused("conversations.history", "not_in_channel", None),
            refused("chat.postMessage", "missing_scope", Some("chat:write.customize")),
            refused("apps.connections.open", "invalid_auth", None),
            refused("auth.test", "token_expired", None),
            refused("auth.test", "not_allowed_token_type", None),
            refused("auth.test", "token_revoked", None),
            refused("chat.postMessage", "msg_too_long", None),
            refused("conversations.history", "account_inactive", None),
            refused("conversations.info", "is_archived", None),
            refused("chat.postMessage", "restricted_action_read_only_channel", None),
            refused("apps.connections.open", "link_disabled", None),
            refused("apps.connections.open", "too_many_websockets", None),
            refused(DOWNLOAD, "http_302", None),
            refused(DOWNLOAD, EXTERNAL, None),
            CallError::Failed { method: "auth.test", what: "status 503".to_owned(), lost: false },
        ]
        .map(|error| explain_call(&error, &repo));
        let told = told.map(|(reason, message)| format!("{reason}: {message}")).join("\n");
        insta::assert_snapshot!(told, @r"
        NotInChannel: spec.slack.channel: the app is not in C0123: invite it there
        MissingScope: spec.slack.credentials: `botToken` of the Secret `shop-slack` lacks the scope chat:write.customize: add it to the app and install it again
        InvalidCredentials: spec.slack.credentials: Slack does not accept `appToken` of the Secret `shop-slack` (invalid_auth): put in a valid token, or add the gateway's address to the allowed IP addresses in the app's settings
        InvalidCredentials: spec.slack.credentials: Slack does not accept `botToken` of the Secret `shop-slack` (token_expired): tokens expire where token rotation is on, so use an app whose manifest turns off settings.token_rotation_enabled
        InvalidCredentials: spec.slack.credentials: Slack does not accept `botToken` of the Secret `shop-slack` (not_allowed_token_type): `botToken` begins with xoxb-, and `appToken` with xapp-
        InvalidCredentials: spec.slack.credentials: Slack does not accept `botToken` of the Secret `shop-slack` (token_revoked): put in a valid token
        SlackRefused: Slack refused chat.postMessage in C0123: msg_too_long
        AppRemoved: spec.slack.credentials: the app of the Secret `shop-slack` is not installed in the workspace any more (account_inactive): install it again, and put its new `botToken` there
        ChannelArchived: spec.slack.channel: C0123 is archived: unarchive it and invite the app again, or name another channel
        SlackRefused: a setting of C0123 or of its workspace keeps the app from posting (chat.postMessage: restricted_action_read_only_channel): let the app post there, or name another channel in spec.slack.channel
        SlackRefused: Socket Mode is off for the app of the Secret `shop-slack`, so nothing is heard at once: turn it on in the app's settings (settings.socket_mode_enabled in its manifest)
        SlackRefused: the app of the Secret `shop-slack` has ten connections already, which is all that Slack takes (too_many_websockets): end other installations that use it, or run fewer replicas of the gateway
        SlackRefused: Slack does not hand the file out (http_302): the app may lack the scope files:read, or not be where the file is. Ask for what matters of it
        SlackRefused: the file is kept outside of Slack, where the app has no account: ask for an upload, or for what matters of it
        SlackUnavailable: Slack did not answer auth.test properly (status 503); it is tried again
        ");
    }
}
