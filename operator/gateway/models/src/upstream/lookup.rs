//! Questions to the provider that are no calls and cost nothing, and what their answers say of calls.

use std::time::Duration;

use bytes::Bytes;
use codebutler_gateway_core::dial::{DialTrouble, find_trouble};
use codebutler_gateway_core::secrets::SecretError;
use http::{Method, StatusCode};
use tokio::time::timeout;

use super::sending::bare_request;
use super::{ModelError, ModelUpstream, collect_answer, read_beginning};
use crate::dialect::ApiDialect;
use crate::facts::list::{self, ListPage};
use crate::facts::llama::LlamaProps;
use crate::{complaint, refusal, verdict};

/// Timeout for an answer to begin, and again for it to arrive.
const PATIENCE: Duration = Duration::from_secs(15);
/// Path under which `OpenRouter` says what a key may do.
const KEY: &str = "key";

/// Reason why there is no list of models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoModelList {
    pub why: String,
    /// Meaning of that for calls.
    pub means: LookupMeans,
}

/// Meaning for calls of a request that was no call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupMeans {
    /// The Repo or its Secret can't be used as it is.
    Unusable,
    /// The provider does not take the key.
    Refused,
    /// Nobody can get there until a person fixes something.
    Barred,
    /// Nobody answered, this time.
    Away,
    /// Nothing: it answered, and has no list for this key.
    Nothing,
}

impl NoModelList {
    fn new(means: LookupMeans, why: impl Into<String>) -> Self {
        Self { why: why.into(), means }
    }
}

impl From<ModelError> for NoModelList {
    fn from(error: ModelError) -> Self {
        let passes =
            matches!(&error, ModelError::Secret(SecretError::Unreadable { .. }) | ModelError::Lost);
        Self::new(if passes { LookupMeans::Away } else { LookupMeans::Unusable }, error.to_string())
    }
}

impl ModelUpstream<'_> {
    /// A page of the provider's list of models.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn models(
        &self,
        http: &reqwest::Client,
        page: Option<(usize, usize)>,
    ) -> Result<ListPage, NoModelList> {
        // Without the last one, models that draw or transcribe are not on the list.
        let page = page.map(|(offset, limit)| {
            let all = "all".to_owned();
            [
                ("offset", offset.to_string()),
                ("limit", limit.to_string()),
                ("output_modalities", all),
            ]
        });
        let usual =
            self.dialect.list_query().iter().map(|(name, value)| (*name, (*value).to_owned()));
        let query: Vec<(&str, String)> = page.into_iter().flatten().chain(usual).collect();
        let response = self.look_up(http, "models", &query).await?;
        let body = timeout(PATIENCE, collect_answer(response)).await;
        let body =
            body.map_err(|_| NoModelList::new(LookupMeans::Away, "no whole answer in time"))?;
        let body = body.map_err(NoModelList::from)?;
        let what = if list::is_overlong(&body) {
            "it is too long to be read"
        } else if complaint::is_web_page(&String::from_utf8_lossy(&body)) {
            "what came is a web page: see whether spec.model.baseURL is the address of the API"
        } else {
            "what came is no list"
        };
        let none = || NoModelList::new(LookupMeans::Nothing, what);
        list::read_models(&body).ok_or_else(none)
    }

    /// Asks llama.cpp about a model that it serves; the path is not below the API's own. A router is told which one, and
    /// not to load it. Empty if it does not answer: then as much is known as the list says.
    pub async fn llama_props(&self, http: &reqwest::Client, model: Option<&str>) -> LlamaProps {
        let mut url = self.url.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().pop().push("props");
        }
        if let Some(model) = model {
            url.query_pairs_mut().append_pair("model", model).append_pair("autoload", "false");
        }
        let request = self.request(http, Method::GET, url).send();
        let Ok(Ok(response)) = timeout(PATIENCE, request).await else {
            return LlamaProps::default();
        };
        if response.status() != StatusCode::OK {
            return LlamaProps::default();
        }
        match timeout(PATIENCE, collect_answer(response)).await {
            Ok(Ok(body)) => LlamaProps::read(&body),
            _ => LlamaProps::default(),
        }
    }

    /// Checks that the provider takes the key, where its list of models is anybody's
    /// (`OpenRouter`'s is).
    ///
    /// # Errors
    /// Why it does not.
    pub async fn knows_key(&self, http: &reqwest::Client) -> Result<(), NoModelList> {
        self.look_up(http, KEY, &[]).await.map(drop)
    }

    async fn look_up(
        &self,
        http: &reqwest::Client,
        what: &str,
        query: &[(&str, String)],
    ) -> Result<reqwest::Response, NoModelList> {
        let mut url = self.url.clone();
        url.path_segments_mut()
            .map_err(|()| ModelError::BaseUrl(self.field.clone()))?
            .pop_if_empty()
            .push(what);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let headers = self
            .dialect
            .lookup_headers(self.key())
            .map_err(|_| ModelError::KeyForm(self.id.1.clone()))?;
        let request = bare_request(http, Method::GET, url).headers(headers).send();
        let answered = timeout(PATIENCE, request).await;
        let answered =
            answered.map_err(|_| NoModelList::new(LookupMeans::Away, "no answer in time"))?;
        let response = answered.map_err(|error| {
            let error = error.without_url();
            tracing::debug!(%error, what, "provider_lookup_failed");
            match find_trouble(&error) {
                Some(why) => NoModelList::new(LookupMeans::Barred, why.to_string()),
                None => NoModelList::new(LookupMeans::Away, "no connection"),
            }
        })?;
        let status = response.status().as_u16();
        if status == 200 {
            return Ok(response);
        }
        if let Some(why) = DialTrouble::by_status(status) {
            return Err(NoModelList::new(LookupMeans::Barred, why.to_string()));
        }
        if matches!(status, 401 | 403) {
            self.keys.forget(&self.id);
        }
        let complaint = complaint::read_complaint(&read_beginning(response).await);
        let said = self.shown(&complaint.text);
        let asks_for_key = self.dialect == ApiDialect::OpenRouter && what == KEY;
        let means = match status {
            _ if verdict::refuses_key(status, &complaint, asks_for_key) => LookupMeans::Refused,
            429 | 500.. => LookupMeans::Away,
            _ => LookupMeans::Nothing,
        };
        Err(NoModelList::new(means, refusal::with_words(format!("status {status}"), &said)))
    }

    /// Name of the Secret that the key is from.
    pub fn secret(&self) -> &str {
        &self.id.1
    }

    pub fn host(&self) -> &str {
        &self.id.2
    }

    /// Asks the provider about a call by its id; None if it does not tell (OpenRouter does, after a
    /// moment).
    pub async fn generation(&self, http: &reqwest::Client, id: &str) -> Option<Bytes> {
        let mut url = self.url.clone();
        url.path_segments_mut().ok()?.pop_if_empty().push("generation");
        url.query_pairs_mut().append_pair("id", id);
        let request = self.request(http, Method::GET, url);
        let response = timeout(Duration::from_secs(10), request.send()).await.ok()?.ok()?;
        match response.status() {
            StatusCode::OK => collect_answer(response).await.ok(),
            status => {
                if matches!(status.as_u16(), 401 | 403) {
                    self.keys.forget(&self.id);
                }
                None
            }
        }
    }
}
