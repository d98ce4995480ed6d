//! Unproven claims of a token: enough to refuse it before anybody is asked.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;

use super::RefusedToken;

/// The pod that a token claims to be bound to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct TokenClaim {
    pub namespace: String,
    pub uid: String,
}

#[derive(Deserialize)]
struct TokenClaims {
    #[serde(rename = "kubernetes.io")]
    kubernetes: TokenKubernetes,
}

#[derive(Deserialize)]
struct TokenKubernetes {
    namespace: String,
    #[serde(default)]
    pod: Option<BoundPod>,
}

#[derive(Deserialize)]
struct BoundPod {
    uid: String,
}

/// Reads a token's middle part.
pub(super) fn read_claim(token: &str) -> Result<TokenClaim, RefusedToken> {
    let mut parts = token.split('.');
    let (_, claims) = (parts.next(), parts.next().ok_or(RefusedToken::Invalid)?);
    let claims = URL_SAFE_NO_PAD.decode(claims).map_err(|_| RefusedToken::Invalid)?;
    let claims: TokenClaims = serde_json::from_slice(&claims).map_err(|_| RefusedToken::Invalid)?;
    let TokenKubernetes { namespace, pod } = claims.kubernetes;
    let pod = pod.filter(|pod| !pod.uid.is_empty()).ok_or(RefusedToken::Unbound)?;
    Ok(TokenClaim { namespace, uid: pod.uid })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_read_and_nonsense_is_invalid() {
        let token = |claims: &str| format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims));
        let claims = r#"{"kubernetes.io":{"namespace":"team","pod":{"name":"p","uid":"u-1"}}}"#;
        let claim = TokenClaim { namespace: "team".to_owned(), uid: "u-1".to_owned() };
        assert_eq!(read_claim(&token(claims)), Ok(claim));
        let unbound = token(r#"{"kubernetes.io":{"namespace":"team"}}"#);
        assert_eq!(read_claim(&unbound), Err(RefusedToken::Unbound));
        for wrong in ["abc", "a.b.c", "..", &token("[]"), &token("{}"), &token("\u{0}")] {
            assert_eq!(read_claim(wrong), Err(RefusedToken::Invalid), "{wrong}");
        }
    }
}
