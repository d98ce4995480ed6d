//! Reads a scenario file, and says where it is wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_path_to_error::Segment;

use super::action::{RawAction, WaitCondition};
use super::places::{PlaceKey, ScenarioPlace, YamlPlaces, show_path};
use super::{
    FirstContent, MessageMatch, PlayableScenario, ScenarioAction, ScenarioExpectations,
    ScenarioPage, ScenarioRepository, ScenarioServer, ScenarioSettings,
};
use crate::models::ModelScript;

/// An error that keeps a scenario from being loaded.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The file could not be read.
    #[error("{file}: {error}")]
    Read {
        /// Path of the scenario file.
        file: String,
        /// Underlying error of the system.
        error: std::io::Error,
    },
    /// The file is not a valid scenario.
    #[error("{file}:{line}:{column}: {field}: {message}")]
    Mistake {
        /// Path of the scenario file.
        file: String,
        /// Number of the line, from 1.
        line: u64,
        /// Number of the column, from 1.
        column: u64,
        /// Path of the field, such as `expect.messages[2].from`; `.` for the file as a whole.
        field: String,
        /// The mistake, and what was expected instead.
        message: String,
    },
}

/// A CodeButler scenario: a repository, what people say and click, what each role's model answers, and
/// what must be true at the end.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Scenario")]
struct RawScenario {
    /// Short name.
    name: String,
    /// What it shows, for people.
    description: String,
    /// The repository that it is about.
    repository: RawRepository,
    /// Who takes part.
    #[schemars(length(min = 1))]
    users: Vec<String>,
    /// Roles that work in the repository; the first is addressed by default. Absent: those with a script.
    #[serde(default)]
    roles: Option<Vec<String>>,
    /// Timing.
    #[serde(default)]
    settings: ScenarioSettings,
    /// Servers of the Repo (MCP) whose tools roles may use.
    #[serde(default)]
    servers: Vec<ScenarioServer>,
    /// Pages of the web, which searches find and roles may open.
    #[serde(default)]
    pages: Vec<ScenarioPage>,
    /// What the people do, in order.
    #[schemars(length(min = 1))]
    conversation: Vec<RawAction>,
    /// What the models answer, by role.
    models: ModelScript,
    /// What must be true at the end.
    expect: ScenarioExpectations,
}

/// The repository of a scenario, with its first commit.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Repository", extend("oneOf" = [{"required": ["from"]}, {"required": ["files"]}]))]
struct RawRepository {
    /// `owner/name` at the embedded GitHub.
    #[schemars(regex(pattern = r"^[A-Za-z0-9_-][A-Za-z0-9_.-]*/[A-Za-z0-9_-][A-Za-z0-9_.-]*$"))]
    name: String,
    /// The branch that pull requests target.
    #[serde(default = "main")]
    branch: String,
    /// For people: the main language.
    #[serde(default)]
    language: Option<String>,
    /// A folder with the files, relative to the scenario.
    #[serde(default)]
    from: Option<PathBuf>,
    /// The files' texts by path.
    #[serde(default)]
    files: Option<BTreeMap<String, String>>,
}

/// The JSON schema of a scenario file, for editors.
#[must_use]
pub fn scenario_schema() -> serde_json::Value {
    schemars::schema_for!(RawScenario).to_value()
}

fn main() -> String {
    "main".to_owned()
}

/// A mistake that shows when the whole file has been read: where, and what was expected.
struct LoadMistake {
    path: Vec<PlaceKey>,
    message: String,
}

fn load_mistake(path: &[PlaceKey], message: impl Into<String>) -> LoadMistake {
    LoadMistake { path: path.to_vec(), message: message.into() }
}

impl PlayableScenario {
    /// Reads and checks a scenario file.
    ///
    /// # Errors
    /// With the file, line, column and field of the first mistake.
    pub fn load(path: &Path) -> Result<Self, ScenarioError> {
        let file = path.display().to_string();
        let read = std::fs::read_to_string(path).and_then(|text| Ok((text, path.canonicalize()?)));
        let (text, path) =
            read.map_err(|error| ScenarioError::Read { file: file.clone(), error })?;
        Self::parse(&text, &file, path.parent().unwrap_or(Path::new("/")))
    }

    /// Checks a scenario's text. `file` is for messages; folders are relative to `folder`.
    ///
    /// # Errors
    /// With the line, column and field of the first mistake.
    pub fn parse(text: &str, file: &str, folder: &Path) -> Result<Self, ScenarioError> {
        let at = |place: ScenarioPlace, field: String, message: String| ScenarioError::Mistake {
            file: file.to_owned(),
            line: place.line,
            column: place.column,
            field,
            message,
        };
        let raw =
            read_scenario(text).map_err(|(place, field, message)| at(place, field, message))?;
        check_scenario(raw, folder).map_err(|mistake| {
            let place = YamlPlaces::of(text).find(&mistake.path);
            at(place, show_path(&mistake.path), mistake.message)
        })
    }
}

fn read_scenario(text: &str) -> Result<RawScenario, (ScenarioPlace, String, String)> {
    let mut field = ".".to_owned();
    let options = serde_saphyr::options! { with_snippet: false };
    let result =
        serde_saphyr::with_deserializer_from_str_with_options(text, options, |deserializer| {
            serde_path_to_error::deserialize(deserializer).map_err(|error| {
                field = show_path(&path_keys(error.path()));
                error.into_inner()
            })
        });
    result.map_err(|error: serde_saphyr::Error| {
        let place =
            error.location().map_or(ScenarioPlace { line: 1, column: 1 }, ScenarioPlace::from);
        // The place is said by line and column of its own.
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or(&message).to_owned();
        (place, field, message)
    })
}

fn path_keys(path: &serde_path_to_error::Path) -> Vec<PlaceKey> {
    let key = |segment: &Segment| match segment {
        Segment::Seq { index } => Some(PlaceKey::Index(*index)),
        Segment::Map { key } => Some(PlaceKey::Name(key.clone())),
        Segment::Enum { .. } | Segment::Unknown => None,
    };
    path.iter().filter_map(key).collect()
}

fn check_scenario(raw: RawScenario, folder: &Path) -> Result<PlayableScenario, LoadMistake> {
    let RawScenario { users, models, expect, .. } = raw;
    if users.is_empty() {
        return Err(load_mistake(&["users".into()], "expected at least one user"));
    }
    let roles = raw.roles.unwrap_or_else(|| models.0.keys().cloned().collect());
    if let Some(role) = models.0.keys().find(|role| !roles.contains(role)) {
        let message = format!("role `{role}` is not in `roles`");
        return Err(load_mistake(&["models".into(), role.as_str().into()], message));
    }
    let senders: BTreeSet<&str> =
        users.iter().chain(&roles).map(String::as_str).chain(["codebutler"]).collect();
    for (n, server) in raw.servers.iter().enumerate() {
        if let Some(role) = server.roles.iter().find(|role| !roles.contains(role)) {
            let path = [PlaceKey::from("servers"), n.into(), "roles".into()];
            return Err(load_mistake(&path, format!("`{role}` is not a role of this scenario")));
        }
    }
    for (n, page) in raw.pages.iter().enumerate() {
        if page.host().is_none() {
            let path = [PlaceKey::from("pages"), n.into(), "url".into()];
            let message = "expected `https://`, a host's name without a port, and a path";
            return Err(load_mistake(&path, message));
        }
    }
    let conversation = read_conversation(raw.conversation, &users, &senders)?;
    check_expectations(&expect, &roles, &senders)?;
    Ok(PlayableScenario {
        name: raw.name,
        description: raw.description,
        repository: read_repository(raw.repository, folder)?,
        settings: raw.settings,
        servers: raw.servers,
        pages: raw.pages,
        users,
        roles,
        conversation,
        models,
        expect,
    })
}

fn check_sender(
    from: Option<&String>,
    known: &BTreeSet<&str>,
    path: &[PlaceKey],
) -> Result<(), LoadMistake> {
    match from {
        Some(from) if !known.contains(from.as_str()) => {
            Err(load_mistake(path, format!("`{from}` is neither a user, a role nor `codebutler`")))
        }
        _ => Ok(()),
    }
}

fn check_expectations(
    expect: &ScenarioExpectations,
    roles: &[String],
    senders: &BTreeSet<&str>,
) -> Result<(), LoadMistake> {
    let at = |section: &str| vec![PlaceKey::from("expect"), section.into()];
    if expect.messages.is_empty() {
        return Err(load_mistake(&at("messages"), "expected at least one message"));
    }
    for (n, message) in expect.messages.iter().enumerate() {
        let path = [at("messages"), vec![n.into(), "from".into()]].concat();
        check_sender(message.from.as_ref(), senders, &path)?;
    }
    for (n, reaction) in expect.reactions.iter().enumerate() {
        let path = [at("reactions"), vec![n.into(), "on".into(), "from".into()]].concat();
        check_sender(reaction.on.from.as_ref(), senders, &path)?;
    }
    let by_role = [("turns", &expect.turns), ("tool_calls", &expect.tool_calls)];
    let counted = by_role.iter().flat_map(|(s, map)| map.keys().map(|role| (at(s), role)));
    let cost = [at("cost"), vec!["roles".into()]].concat();
    let costed = expect.cost.roles.keys().map(|role| (cost.clone(), role));
    match counted.chain(costed).find(|(_, role)| !roles.contains(role)) {
        Some((path, role)) => {
            let path = [path, vec![role.as_str().into()]].concat();
            Err(load_mistake(&path, format!("`{role}` is not a role of this scenario")))
        }
        None => Ok(()),
    }
}

fn read_conversation(
    raw: Vec<RawAction>,
    users: &[String],
    senders: &BTreeSet<&str>,
) -> Result<Vec<ScenarioAction>, LoadMistake> {
    if raw.is_empty() {
        return Err(load_mistake(&["conversation".into()], "expected at least one step"));
    }
    let mut actions = Vec::new();
    let mut labels = BTreeSet::new();
    let mut begun = false;
    for (n, raw) in raw.into_iter().enumerate() {
        let step = vec![PlaceKey::from("conversation"), n.into()];
        let at = |keys: &[&str]| {
            let keys = keys.iter().copied().map(PlaceKey::from);
            step.iter().cloned().chain(keys).collect::<Vec<_>>()
        };
        let action =
            ScenarioAction::try_from(raw).map_err(|m| load_mistake(&step, m.to_string()))?;
        if let Some(user) = action.user().filter(|u| !users.iter().any(|known| known == u)) {
            return Err(load_mistake(&at(&["user"]), format!("`{user}` is not one of `users`")));
        }
        let from = |message: &MessageMatch, keys: &[&str]| {
            check_sender(message.from.as_ref(), senders, &at(keys))
        };
        match &action {
            ScenarioAction::Says { label, .. } => {
                labels.extend(label.clone());
                begun = true;
            }
            ScenarioAction::Applies { object, label, .. } => {
                let known = object["apiVersion"].is_string() && object["kind"].is_string();
                if !known || !object["metadata"]["name"].is_string() {
                    let message =
                        "expected an object with `apiVersion`, `kind` and `metadata.name`";
                    return Err(load_mistake(&at(&["kubectl_apply"]), message));
                }
                let prompts = object["spec"]["prompt"].is_string();
                if label.is_some() && !prompts {
                    let message = "only a Thread with `spec.prompt` begins a conversation";
                    return Err(load_mistake(&at(&["as"]), message));
                }
                labels.extend(label.clone());
                begun |= prompts;
            }
            ScenarioAction::Replies { conversation: Some(label), .. }
                if !labels.contains(label) =>
            {
                let message = format!("no step before says anything `as: {label}`");
                return Err(load_mistake(&at(&["in"]), message));
            }
            ScenarioAction::Replies { .. } if !begun => {
                let message = "there is no conversation yet: begin with `says`";
                return Err(load_mistake(&at(&["replies"]), message));
            }
            ScenarioAction::Clicks { on, .. } => from(on, &["clicks", "on", "from"])?,
            ScenarioAction::Reacts { on, .. } => from(on, &["reacts", "on", "from"])?,
            ScenarioAction::Wait { condition: WaitCondition::Message(message), .. } => {
                from(message, &["wait", "message", "from"])?;
            }
            ScenarioAction::Replies { .. } | ScenarioAction::Wait { .. } => {}
        }
        actions.push(action);
    }
    Ok(actions)
}

fn read_repository(raw: RawRepository, folder: &Path) -> Result<ScenarioRepository, LoadMistake> {
    let at = |key: &str| vec![PlaceKey::from("repository"), key.into()];
    let part = |p: &str| {
        let valid = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
        !p.is_empty() && !p.starts_with('.') && p.bytes().all(valid)
    };
    if !raw.name.split_once('/').is_some_and(|(owner, name)| part(owner) && part(name)) {
        return Err(load_mistake(&at("name"), format!("`{}` is not `owner/name`", raw.name)));
    }
    let content = match (raw.from, raw.files) {
        (Some(from), None) => {
            let path = folder.join(&from);
            if !path.is_dir() {
                let message = format!("there is no folder `{}` here", from.display());
                return Err(load_mistake(&at("from"), message));
            }
            FirstContent::Folder(path)
        }
        (None, Some(files)) if !files.is_empty() => FirstContent::Files(files),
        _ => {
            let message = "expected one of `from` and `files`";
            return Err(load_mistake(&["repository".into()], message));
        }
    };
    Ok(ScenarioRepository { name: raw.name, branch: raw.branch, language: raw.language, content })
}
