//! A container's environment, command and arguments. Pure: the `ConfigMap`s and Secrets that it names
//! have been fetched already.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, EnvVar, Pod};

use super::downward;

/// Contents of `ConfigMap`s and Secrets by name; a missing one is absent.
#[derive(Clone, Debug, Default)]
pub(super) struct EnvSources {
    /// `ConfigMap`s of the pod's namespace.
    pub config_maps: BTreeMap<String, BTreeMap<String, Vec<u8>>>,
    /// Secrets of the pod's namespace.
    pub secrets: BTreeMap<String, BTreeMap<String, Vec<u8>>>,
}

/// Names of the `ConfigMap`s and Secrets that a container's environment refers to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct EnvReferences {
    pub config_maps: Vec<String>,
    pub secrets: Vec<String>,
}

/// An error that keeps a container's environment from being made.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum EnvError {
    /// An object that isn't optional is missing.
    #[error("{0} \"{1}\" not found")]
    NotFound(&'static str, String),
    /// A key that isn't optional is missing.
    #[error("couldn't find key {key} in {kind} {name}")]
    NoKey {
        /// `ConfigMap` or `Secret`, the kind that was looked up.
        kind: &'static str,
        name: String,
        key: String,
    },
    /// A field of the pod that can't be given to a container.
    #[error(transparent)]
    Field(#[from] downward::FieldError),
}

/// Collects the ConfigMaps and Secrets that `container` refers to.
pub(super) fn find_references(container: &Container) -> EnvReferences {
    let mut found = EnvReferences::default();
    for from in container.env_from.iter().flatten() {
        found.config_maps.extend(from.config_map_ref.iter().map(|r| r.name.clone()));
        found.secrets.extend(from.secret_ref.iter().map(|r| r.name.clone()));
    }
    for from in container.env.iter().flatten().filter_map(|var| var.value_from.as_ref()) {
        found.config_maps.extend(from.config_map_key_ref.iter().map(|r| r.name.clone()));
        found.secrets.extend(from.secret_key_ref.iter().map(|r| r.name.clone()));
    }
    found
}

/// The environment: `base` (the image's), then `envFrom`, then `env`, each over the ones before.
pub(super) fn build_environment(
    pod: &Pod,
    container: &Container,
    base: BTreeMap<String, String>,
    sources: &EnvSources,
) -> Result<BTreeMap<String, String>, EnvError> {
    let mut own = BTreeMap::new();
    for from in container.env_from.iter().flatten() {
        let prefix = from.prefix.as_deref().unwrap_or_default();
        let all = if let Some(r) = &from.config_map_ref {
            whole_object("configmap", &sources.config_maps, &r.name, r.optional)?
        } else if let Some(r) = &from.secret_ref {
            whole_object("secret", &sources.secrets, &r.name, r.optional)?
        } else {
            None
        };
        for (key, value) in all.into_iter().flatten() {
            own.insert(format!("{prefix}{key}"), String::from_utf8_lossy(value).into_owned());
        }
    }
    for var in container.env.iter().flatten() {
        if let Some(value) = variable_value(pod, var, &own, sources)? {
            own.insert(var.name.clone(), value);
        }
    }
    let mut all = base;
    all.extend(own);
    Ok(all)
}

fn variable_value(
    pod: &Pod,
    var: &EnvVar,
    so_far: &BTreeMap<String, String>,
    sources: &EnvSources,
) -> Result<Option<String>, EnvError> {
    let Some(from) = &var.value_from else {
        return Ok(Some(expand_variables(var.value.as_deref().unwrap_or_default(), so_far)));
    };
    let bytes = if let Some(r) = &from.config_map_key_ref {
        one_key("ConfigMap", &sources.config_maps, &r.name, &r.key, r.optional)?
    } else if let Some(r) = &from.secret_key_ref {
        one_key("Secret", &sources.secrets, &r.name, &r.key, r.optional)?
    } else if let Some(r) = &from.field_ref {
        return Ok(Some(downward::field_value(pod, &r.field_path)?));
    } else {
        return Err(downward::FieldError("resourceFieldRef".to_owned()).into());
    };
    Ok(bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
}

type EnvObjects = BTreeMap<String, BTreeMap<String, Vec<u8>>>;

fn whole_object<'a>(
    kind: &'static str,
    objects: &'a EnvObjects,
    name: &str,
    optional: Option<bool>,
) -> Result<Option<&'a BTreeMap<String, Vec<u8>>>, EnvError> {
    match objects.get(name) {
        None if optional != Some(true) => Err(EnvError::NotFound(kind, name.to_owned())),
        found => Ok(found),
    }
}

fn one_key<'a>(
    kind: &'static str,
    objects: &'a EnvObjects,
    name: &str,
    key: &str,
    optional: Option<bool>,
) -> Result<Option<&'a Vec<u8>>, EnvError> {
    let lower = if kind == "Secret" { "secret" } else { "configmap" };
    match whole_object(lower, objects, name, optional)?.and_then(|object| object.get(key)) {
        None if optional != Some(true) => {
            Err(EnvError::NoKey { kind, name: name.to_owned(), key: key.to_owned() })
        }
        found => Ok(found),
    }
}

/// The command line: `command` or the image's entrypoint, then `args`.
pub(super) fn command_line(
    container: &Container,
    entrypoint: &[String],
    env: &BTreeMap<String, String>,
) -> Vec<String> {
    let expanded = |words: &Option<Vec<String>>| -> Vec<String> {
        words.iter().flatten().map(|word| expand_variables(word, env)).collect()
    };
    let mut argv = expanded(&container.command);
    if argv.is_empty() {
        argv = entrypoint.to_vec();
    }
    argv.extend(expanded(&container.args));
    argv
}

/// Replaces `$(NAME)`. `$$(NAME)` stays as `$(NAME)`, and so does a name that isn't defined.
pub(super) fn expand_variables(text: &str, env: &BTreeMap<String, String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) =
            rest.strip_prefix('(').and_then(|inside| inside.split_once(')'))
        {
            match env.get(name) {
                Some(value) => out.push_str(value),
                None => out.extend(["$(", name, ")"]),
            }
            rest = after;
        } else {
            out.push('$');
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn references_are_expanded_as_documented() {
        let env = BTreeMap::from([("A".to_owned(), "1".to_owned())]);
        for (text, expected) in [
            ("x$(A)y", "x1y"),
            ("$$(A)", "$(A)"),
            ("$(B)", "$(B)"),
            ("$A $", "$A $"),
            ("$(A", "$(A"),
            ("$$$(A)", "$1"),
        ] {
            assert_eq!(expand_variables(text, &env), expected, "{text}");
        }
    }

    #[test]
    fn later_sources_win_and_missing_ones_are_named() {
        let container: Container = from_value(json!({
            "name": "c",
            "envFrom": [{"prefix": "P_", "configMapRef": {"name": "map"}},
                        {"secretRef": {"name": "absent", "optional": true}}],
            "env": [{"name": "B", "value": "$(P_a)-b"},
                    {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                    {"name": "NS", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}],
            "command": ["run", "$(B)"], "args": ["--s=$(S)"],
        }))
        .unwrap();
        let pod: Pod = from_value(json!({"metadata": {"namespace": "ns"}})).unwrap();
        let base = BTreeMap::from([("B".to_owned(), "image".to_owned())]);
        let map = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.into())]);
        let mut sources = EnvSources::default();
        let error = build_environment(&pod, &container, base.clone(), &sources).unwrap_err();
        assert_eq!(error.to_string(), "configmap \"map\" not found");
        sources.config_maps.insert("map".into(), map("a", "1"));
        sources.secrets.insert("s".into(), map("other", ""));
        let error = build_environment(&pod, &container, base.clone(), &sources).unwrap_err();
        assert_eq!(error.to_string(), "couldn't find key k in Secret s");
        sources.secrets.insert("s".into(), map("k", "v"));
        let env = build_environment(&pod, &container, base, &sources).unwrap();
        assert_eq!(env["B"], "1-b");
        assert_eq!(env["NS"], "ns");
        assert_eq!(command_line(&container, &["entry".into()], &env), ["run", "1-b", "--s=v"]);
        assert_eq!(find_references(&container).secrets, ["absent", "s"]);
    }
}
