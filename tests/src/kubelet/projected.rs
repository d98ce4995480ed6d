//! Contents of configMap, secret, downwardAPI and projected volumes, including service account tokens.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{
    ConfigMap, DownwardAPIVolumeFile, KeyToPath, Pod, Secret, ServiceAccount,
    ServiceAccountTokenProjection, Volume, VolumeProjection,
};
use kube::api::PostParams;
use kube::{Api, Client};

use super::downward::{self, FieldError};
use super::entry::PodEntry;
use super::writer::ProjectedFiles;

const FILE_MODE: i32 = 0o644;
/// A token is replaced after this part of its life, in percent.
const TOKEN_LIFE: i64 = 80;

/// An error that keeps a volume's files from being made.
#[derive(Debug, thiserror::Error)]
pub enum ProjectedError {
    /// The object is missing and not optional.
    #[error("{0} {1:?} not found")]
    NotFound(&'static str, String),
    /// The object lacks a key that is not optional.
    #[error("{object:?} has no key {key:?}")]
    NoKey {
        /// Name of the `ConfigMap` or `Secret`.
        object: String,
        /// Key that the object lacks.
        key: String,
    },
    /// A downward API item that can't be shown.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// A source that this kubelet lacks.
    #[error("unsupported projection")]
    Unsupported,
    /// The API server granted no token, without a reason.
    #[error("the token request came back without a token")]
    NoToken,
    /// A request to the API server failed.
    #[error(transparent)]
    Api(#[from] kube::Error),
}

/// Tokens in use, by volume and path.
pub(super) type ProjectedTokens = BTreeMap<(String, String), ProjectedToken>;

/// A token and when to get the next.
pub(crate) struct ProjectedToken {
    value: String,
    refresh: Timestamp,
}

/// Time at which the first of the tokens has to be refreshed.
pub(super) fn next_refresh(tokens: &ProjectedTokens) -> Option<Timestamp> {
    tokens.values().map(|token| token.refresh).min()
}

/// The files of a volume; `None` if it is of another kind.
pub(super) async fn projected_files(
    entry: &PodEntry,
    pod: &Pod,
    volume: &Volume,
    tokens: &mut ProjectedTokens,
) -> Result<Option<ProjectedFiles>, ProjectedError> {
    let (client, namespace) = (&entry.node.client, entry.namespace.as_str());
    if let Some(source) = &volume.config_map {
        let mode = source.default_mode.unwrap_or(FILE_MODE);
        let data = config_map(client, namespace, &source.name).await?;
        return pick_items(
            "configmap",
            &source.name,
            data,
            source.items.as_deref(),
            source.optional,
            mode,
        )
        .map(Some);
    }
    if let Some(source) = &volume.secret {
        let name = source.secret_name.clone().unwrap_or_default();
        let mode = source.default_mode.unwrap_or(FILE_MODE);
        let data = read_secret(client, namespace, &name).await?;
        return pick_items("secret", &name, data, source.items.as_deref(), source.optional, mode)
            .map(Some);
    }
    if let Some(source) = &volume.downward_api {
        let mode = source.default_mode.unwrap_or(FILE_MODE);
        return Ok(Some(downward_files(pod, source.items.iter().flatten(), mode)?));
    }
    let Some(source) = &volume.projected else { return Ok(None) };
    let mode = source.default_mode.unwrap_or(FILE_MODE);
    let mut all = ProjectedFiles::new();
    for part in source.sources.iter().flatten() {
        all.extend(project_part(entry, pod, &volume.name, part, mode, tokens).await?);
    }
    Ok(Some(all))
}

async fn project_part(
    entry: &PodEntry,
    pod: &Pod,
    volume: &str,
    part: &VolumeProjection,
    mode: i32,
    tokens: &mut ProjectedTokens,
) -> Result<ProjectedFiles, ProjectedError> {
    let (client, namespace) = (&entry.node.client, entry.namespace.as_str());
    if let Some(source) = &part.config_map {
        let data = config_map(client, namespace, &source.name).await?;
        pick_items("configmap", &source.name, data, source.items.as_deref(), source.optional, mode)
    } else if let Some(source) = &part.secret {
        let data = read_secret(client, namespace, &source.name).await?;
        pick_items("secret", &source.name, data, source.items.as_deref(), source.optional, mode)
    } else if let Some(source) = &part.downward_api {
        downward_files(pod, source.items.iter().flatten(), mode)
    } else if let Some(source) = &part.service_account_token {
        let key = (volume.to_owned(), source.path.clone());
        let token = match tokens.get(&key) {
            Some(token) if token.refresh > Timestamp::now() => token.value.clone(),
            _ => {
                let token = request_token(entry, pod, source).await?;
                let value = token.value.clone();
                tokens.insert(key, token);
                value
            }
        };
        Ok(ProjectedFiles::from([(source.path.clone(), (token.into_bytes(), 0o600))]))
    } else {
        Err(ProjectedError::Unsupported)
    }
}

/// A token that ends with the pod.
async fn request_token(
    entry: &PodEntry,
    pod: &Pod,
    source: &ServiceAccountTokenProjection,
) -> Result<ProjectedToken, ProjectedError> {
    let account = pod.spec.as_ref().and_then(|spec| spec.service_account_name.clone());
    let account = account.unwrap_or_else(|| "default".to_owned());
    let request = TokenRequest {
        spec: TokenRequestSpec {
            audiences: source.audience.clone().into_iter().collect(),
            expiration_seconds: source.expiration_seconds.or(Some(3600)),
            bound_object_ref: Some(BoundObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                name: Some(entry.name.clone()),
                uid: Some(entry.uid.clone()),
            }),
        },
        ..TokenRequest::default()
    };
    let accounts: Api<ServiceAccount> =
        Api::namespaced(entry.node.client.clone(), &entry.namespace);
    let asked = Timestamp::now();
    let answer = accounts.create_token_request(&account, &PostParams::default(), &request).await?;
    let status = answer.status.filter(|status| !status.token.is_empty());
    let status = status.ok_or(ProjectedError::NoToken)?;
    let life = status.expiration_timestamp.0.as_second() - asked.as_second();
    let use_for = SignedDuration::from_secs(life.max(1) * TOKEN_LIFE / 100);
    Ok(ProjectedToken { value: status.token, refresh: asked + use_for })
}

type ProjectedData = Option<BTreeMap<String, Vec<u8>>>;

/// Everything in a `ConfigMap`, if it exists.
pub(super) async fn config_map(
    client: &Client,
    namespace: &str,
    name: &str,
) -> kube::Result<ProjectedData> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    Ok(api.get_opt(name).await?.map(|object| {
        let text = object.data.unwrap_or_default().into_iter();
        let mut all: BTreeMap<_, _> = text.map(|(key, text)| (key, text.into_bytes())).collect();
        let binary = object.binary_data.unwrap_or_default();
        all.extend(binary.into_iter().map(|(key, bytes)| (key, bytes.0)));
        all
    }))
}

/// Everything in a Secret, if it exists.
pub(super) async fn read_secret(
    client: &Client,
    namespace: &str,
    name: &str,
) -> kube::Result<ProjectedData> {
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let found = api.get_opt(name).await?;
    Ok(found.map(|object| {
        object.data.unwrap_or_default().into_iter().map(|(key, bytes)| (key, bytes.0)).collect()
    }))
}

fn pick_items(
    kind: &'static str,
    name: &str,
    data: ProjectedData,
    items: Option<&[KeyToPath]>,
    optional: Option<bool>,
    mode: i32,
) -> Result<ProjectedFiles, ProjectedError> {
    let optional = optional == Some(true);
    let data = match data {
        Some(data) => data,
        None if optional => return Ok(ProjectedFiles::new()),
        None => return Err(ProjectedError::NotFound(kind, name.to_owned())),
    };
    let Some(items) = items else {
        return Ok(data.into_iter().map(|(key, bytes)| (key, (bytes, mode_bits(mode)))).collect());
    };
    let mut files = ProjectedFiles::new();
    for item in items {
        match data.get(&item.key) {
            Some(bytes) => {
                let mode = mode_bits(item.mode.unwrap_or(mode));
                files.insert(item.path.clone(), (bytes.clone(), mode));
            }
            None if optional => {}
            None => {
                let (object, key) = (name.to_owned(), item.key.clone());
                return Err(ProjectedError::NoKey { object, key });
            }
        }
    }
    Ok(files)
}

fn downward_files<'a>(
    pod: &Pod,
    items: impl Iterator<Item = &'a DownwardAPIVolumeFile>,
    mode: i32,
) -> Result<ProjectedFiles, ProjectedError> {
    items
        .map(|item| {
            let field = item.field_ref.as_ref().ok_or(ProjectedError::Unsupported)?;
            let text = downward::field_value(pod, &field.field_path)?;
            let mode = mode_bits(item.mode.unwrap_or(mode));
            Ok((item.path.clone(), (text.into_bytes(), mode)))
        })
        .collect()
}

fn mode_bits(mode: i32) -> u32 {
    mode.cast_unsigned() & 0o777
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_choose_and_rename() {
        let data = || Some(BTreeMap::from([("a".to_owned(), b"1".to_vec()), ("b".into(), vec![])]));
        let all = pick_items("configmap", "m", data(), None, None, 0o644).unwrap();
        assert_eq!(all.keys().collect::<Vec<_>>(), ["a", "b"]);
        let item = |key: &str| KeyToPath { key: key.into(), mode: Some(0o400), path: "x/y".into() };
        let one = pick_items("configmap", "m", data(), Some(&[item("a")]), None, 0o644).unwrap();
        assert_eq!(one["x/y"], (b"1".to_vec(), 0o400));
        assert!(pick_items("configmap", "m", data(), Some(&[item("c")]), None, 0o644).is_err());
        assert!(pick_items("configmap", "m", None, None, None, 0o644).is_err());
        assert!(pick_items("configmap", "m", None, None, Some(true), 0o644).unwrap().is_empty());
    }
}
