//! HTTP upgrades: requests whose connection carries another protocol once they are answered.

use std::time::Duration;

use http::header::{CONNECTION, UPGRADE};
use reqwest::{Method, StatusCode, Upgraded};

use super::{GatewayClient, GatewayError, read_refusal};

/// Timeout of the answer: the gateway connects to the outside meanwhile.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(1);

impl GatewayClient {
    /// Opens a connection that speaks `protocol` once it is upgraded.
    ///
    /// # Errors
    /// The gateway's refusal, or that it can't be reached.
    pub async fn upgrade(
        &self,
        path: &str,
        query: &[(&str, &str)],
        protocol: &'static str,
    ) -> Result<Upgraded, GatewayError> {
        let sent = self
            .raw(Method::GET, path, None)?
            .query(query)
            .header(CONNECTION, "upgrade")
            .header(UPGRADE, protocol)
            .send();
        let Ok(sent) = tokio::time::timeout(ANSWER_TIMEOUT, sent).await else {
            let (status, excerpt) = (StatusCode::GATEWAY_TIMEOUT, String::new());
            return Err(GatewayError::Unexpected { status, excerpt });
        };
        let answer = sent.map_err(GatewayError::Unreachable)?;
        let status = answer.status();
        if status == StatusCode::SWITCHING_PROTOCOLS {
            return answer.upgrade().await.map_err(GatewayError::Unreachable);
        }
        let body = answer.bytes().await.map_err(GatewayError::Unreachable)?;
        Err(read_refusal(status, &body))
    }
}
