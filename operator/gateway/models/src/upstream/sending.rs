//! Requests with a provider's key, before they are sent.

use http::Method;
use http::header::{AUTHORIZATION, CONNECTION};
use url::Url;

use super::{ModelError, ModelUpstream};

impl ModelUpstream<'_> {
    /// Builds a request with the key.
    pub(super) fn request(
        &self,
        http: &reqwest::Client,
        method: Method,
        url: Url,
    ) -> reqwest::RequestBuilder {
        bare_request(http, method, url).header(AUTHORIZATION, self.authorization.clone())
    }

    /// Builds the request of a call.
    ///
    /// # Errors
    /// When the key has characters that no header can carry.
    pub(super) fn call_request(
        &self,
        http: &reqwest::Client,
        url: Url,
        is_native: bool,
    ) -> Result<reqwest::RequestBuilder, ModelError> {
        if !is_native {
            return Ok(self.request(http, Method::POST, url));
        }
        let headers = self.dialect.lookup_headers(self.key());
        let headers = headers.map_err(|_| ModelError::KeyForm(self.id.1.clone()))?;
        Ok(bare_request(http, Method::POST, url).headers(headers))
    }
}

/// A request without a key. Servers without TLS get a connection for each one: llama.cpp's closes it after every
/// stream, whatever its `Keep-Alive` header says, and a request that meets the end is lost.
pub(super) fn bare_request(
    http: &reqwest::Client,
    method: Method,
    url: Url,
) -> reqwest::RequestBuilder {
    let plain = url.scheme() == "http";
    let request = http.request(method, url);
    if plain { request.header(CONNECTION, "close") } else { request }
}
