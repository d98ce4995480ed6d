//! Get and list.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::ResourceRequest;
use crate::apiserver::convert;
use crate::apiserver::object;
use crate::apiserver::render::{self, ApiResponse, ShownForm};
use crate::apiserver::selectors::ObjectSelector;
use crate::apiserver::status::ApiError;
use crate::apiserver::store::{StoreError, StoredObject};
use crate::apiserver::table;

/// Decoded continue token: the version that the list shows, and the key after which it goes on.
#[derive(Serialize, Deserialize)]
struct ContinueToken {
    version: u64,
    namespace: String,
    name: String,
}

impl ResourceRequest<'_> {
    pub(super) fn get(&self) -> Result<ApiResponse, ApiError> {
        self.check_not_future()?;
        let stored = self.stored()?;
        Ok(self.answer_stored(200, &stored))
    }

    pub(super) fn selector(&self) -> Result<ObjectSelector, ApiError> {
        let get = |name: &str| self.request.query.get(name).unwrap_or_default();
        ObjectSelector::parse(&self.kind, get("labelSelector"), get("fieldSelector"))
    }

    pub(super) fn scope(&self) -> Option<&str> {
        Some(self.target.namespace.as_str()).filter(|ns| !ns.is_empty())
    }

    /// `resourceVersion`, if the client gave one.
    pub(super) fn asked_version(&self) -> Result<Option<u64>, ApiError> {
        match self.request.query.get("resourceVersion") {
            None => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| {
                ApiError::bad_request(format!(
                    "resourceVersion: Invalid value: \"{text}\": strconv.ParseUint: parsing \"{text}\": invalid syntax"
                ))
            }),
        }
    }

    fn check_not_future(&self) -> Result<(), ApiError> {
        let current = self.server.store.version();
        match self.asked_version()? {
            Some(asked) if asked > current => Err(ApiError::too_large_version(asked, current)),
            _ => Ok(()),
        }
    }

    pub(super) fn list(&self) -> Result<ApiResponse, ApiError> {
        self.check_list_options(false)?;
        let selector = self.selector()?;
        self.check_not_future()?;
        let query = &self.request.query;
        let exact = query.get("resourceVersionMatch") == Some("Exact");
        let asked = self.asked_version()?;
        let after = query.get("continue").map(decode_continue).transpose()?;
        let snapshot = match (&after, asked) {
            (Some(after), _) => Some(after.version),
            (None, Some(version)) if exact => Some(version),
            _ => None,
        };
        let (objects, version) = self.objects(snapshot, after.is_some(), &selector)?;
        let after = after.map(|c| (c.namespace, c.name));
        let mut selected = objects
            .iter()
            .filter(|o| after.as_ref().is_none_or(|after| o.key() > *after))
            .filter(|o| selector.is_everything() || selector.matches(&self.kind, &o.value));
        let limit = query.number("limit").and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0);
        let page: Vec<&Arc<StoredObject>> = match limit {
            Some(limit) => selected.by_ref().take(limit).collect(),
            None => selected.by_ref().collect(),
        };
        let remaining = selected.count();
        let mut meta = json!({ "resourceVersion": version.to_string() });
        if remaining > 0
            && let Some(last) = page.last()
        {
            meta["continue"] = encode_continue(version, last).into();
            // Upstream does not count what a selector would have to be asked about.
            if selector.is_everything() {
                meta["remainingItemCount"] = remaining.into();
            }
        }
        Ok(self.answer_list(&page, &meta))
    }

    fn objects(
        &self,
        snapshot: Option<u64>,
        continued: bool,
        selector: &ObjectSelector,
    ) -> Result<(Vec<Arc<StoredObject>>, u64), ApiError> {
        let Some(version) = snapshot else {
            let (store, table) = (&self.server.store, &self.kind.table);
            return Ok(match selector.name() {
                // As upstream: a watch of one object does not read all of its kind.
                Some(name) if self.scope().is_some() || !self.kind.namespaced => {
                    store.list_one(table, self.scope().unwrap_or_default(), name)
                }
                _ => store.list(table, self.scope()),
            });
        };
        match self.server.store.list_at(&self.kind.table, self.scope(), version) {
            Ok(objects) => Ok((objects, version)),
            Err(StoreError::Expired { .. }) if continued => Err(ApiError::expired(
                "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter.",
            )),
            Err(error) => Err(ApiError::expired(error.to_string())),
        }
    }

    fn answer_list(&self, page: &[&Arc<StoredObject>], meta: &Value) -> ApiResponse {
        let kind = &self.kind;
        match self.accepted.form {
            ShownForm::Object if !self.accepted.yaml => {
                // Joined from the objects' own texts: a large list is not built as a value.
                let head = json!({
                    "kind": format!("{}List", kind.kind),
                    "apiVersion": kind.api_version(),
                    "metadata": meta,
                });
                let mut text = head.to_string();
                text.pop();
                let mut body = text.into_bytes();
                body.extend_from_slice(b",\"items\":[");
                for (index, stored) in page.iter().enumerate() {
                    if index > 0 {
                        body.push(b',');
                    }
                    body.extend_from_slice(&item_json(self, stored));
                }
                body.extend_from_slice(b"]}");
                render::bytes_answer(200, "application/json", body)
            }
            ShownForm::Object => {
                let items: Vec<Value> = page
                    .iter()
                    .map(|o| convert::convert_outbound(kind, &o.value).into_owned())
                    .collect();
                let list = json!({
                    "kind": format!("{}List", kind.kind),
                    "apiVersion": kind.api_version(),
                    "metadata": meta,
                    "items": items,
                });
                render::value_answer(200, &self.accepted, &list)
            }
            ShownForm::Partial => {
                let items: Vec<Value> =
                    page.iter().map(|o| render::partial_object(&o.value)).collect();
                let list = json!({
                    "kind": "PartialObjectMetadataList",
                    "apiVersion": "meta.k8s.io/v1",
                    "metadata": meta,
                    "items": items,
                });
                render::value_answer(200, &self.accepted, &list)
            }
            ShownForm::Table => {
                let shown: Vec<_> =
                    page.iter().map(|o| convert::convert_outbound(kind, &o.value)).collect();
                let objects: Vec<&Value> = shown.iter().map(AsRef::as_ref).collect();
                let include = self.request.query.get("includeObject").unwrap_or("Metadata");
                let version = object::text_at(meta, "/resourceVersion").unwrap_or_default();
                let mut table = table::render_table(kind, &objects, include, version, true);
                table["metadata"] = meta.clone();
                render::value_answer(200, &self.accepted, &table)
            }
        }
    }
}

/// An object's text in the version of the request. Items of built-in lists don't repeat what kind
/// they are of.
fn item_json(context: &ResourceRequest<'_>, stored: &StoredObject) -> bytes::Bytes {
    let kind = &context.kind;
    match convert::convert_outbound(kind, &stored.value) {
        std::borrow::Cow::Borrowed(_) if kind.custom().is_some() => stored.json(),
        std::borrow::Cow::Borrowed(_) => stored.item_json(),
        std::borrow::Cow::Owned(mut value) => {
            object::set_field(&mut value, "kind", None);
            object::set_field(&mut value, "apiVersion", None);
            value.to_string().into()
        }
    }
}

fn encode_continue(version: u64, last: &StoredObject) -> String {
    let (namespace, name) = last.key();
    let token = ContinueToken { version, namespace, name };
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).unwrap_or_default())
}

fn decode_continue(token: &str) -> Result<ContinueToken, ApiError> {
    let bad = || ApiError::bad_request("continue key is not valid: illegal base64 data");
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token).map_err(|_| bad())?).map_err(|_| bad())
}
