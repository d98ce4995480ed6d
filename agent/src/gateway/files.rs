//! Files of the conversation and documents of the web, piece by piece: this process never holds one whole.

use std::time::{Duration, Instant};

use bytes::Bytes;
use codebutler_wire::{FILE_NAME, path};
use reqwest::{Method, Response, Url};

use super::{FIRST_PAUSE, GatewayClient, GatewayError, LONGEST_PAUSE, PATIENCE, read_refusal};

/// Timeout of one file download.
const TIMEOUT: Duration = Duration::from_mins(3);

/// A file whose download is under way.
#[derive(Debug)]
pub struct SharedFile {
    /// File name as its owner gave it.
    pub name: String,
    answer: Response,
}

impl SharedFile {
    /// Returns the next chunk; none at the end of the file.
    ///
    /// # Errors
    /// If it is cut off: the part that came is not the file.
    pub async fn next(&mut self) -> Result<Option<Bytes>, GatewayError> {
        self.answer.chunk().await.map_err(GatewayError::Unreachable)
    }
}

impl GatewayClient {
    /// Opens a file of the conversation.
    ///
    /// # Errors
    /// With what the gateway says, at once; without a word of it only after a while.
    pub async fn open_file(&self, id: &str) -> Result<SharedFile, GatewayError> {
        self.open_patiently(path::FILES, ("id", id)).await
    }

    /// Opens a document of the web.
    ///
    /// # Errors
    /// With what the gateway says, at once; without a word of it only after a while.
    pub async fn open_web_file(&self, url: &str) -> Result<SharedFile, GatewayError> {
        self.open_patiently(path::WEB_FILES, ("url", url)).await
    }

    async fn open_patiently(
        &self,
        path: &str,
        query: (&str, &str),
    ) -> Result<SharedFile, GatewayError> {
        let deadline = Instant::now() + PATIENCE;
        let mut pause = FIRST_PAUSE;
        loop {
            let error = match self.open_once(path, query).await {
                Ok(file) => return Ok(file),
                Err(error) => error,
            };
            if !error.may_pass() || Instant::now() + pause > deadline {
                return Err(error);
            }
            tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.5))).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn open_once(&self, path: &str, query: (&str, &str)) -> Result<SharedFile, GatewayError> {
        let request = self.request(Method::GET, path)?.query(&[query]).timeout(TIMEOUT);
        let answer = request.send().await.map_err(GatewayError::Unreachable)?;
        let status = answer.status();
        if !status.is_success() {
            let body = answer.bytes().await.map_err(GatewayError::Unreachable)?;
            return Err(read_refusal(status, &body));
        }
        let name = answer.headers().get(FILE_NAME).and_then(|name| name.to_str().ok());
        let name = decode_name(name.unwrap_or_default());
        Ok(SharedFile { name, answer })
    }
}

/// Decodes a percent-encoded name, as forms encode it.
fn decode_name(encoded: &str) -> String {
    let query = Url::parse(&format!("x:?name={encoded}")).ok();
    let name = query.and_then(|url| url.query_pairs().next().map(|(_, name)| name.into_owned()));
    name.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_what_it_was_before_it_was_sent() {
        assert_eq!(
            decode_name("Q3+r%C3%A9sum%C3%A9+%26+plan.pdf"),
            "Q3 r\u{e9}sum\u{e9} & plan.pdf"
        );
        assert_eq!(decode_name(""), "");
    }
}
