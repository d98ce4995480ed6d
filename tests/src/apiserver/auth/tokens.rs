//! ServiceAccount tokens: signed, with audience and expiry, dead with the object they are bound to.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use serde_json::{Value, json};

use super::{API_AUDIENCE, ApiUser};
use crate::apiserver::object;
use crate::apiserver::store::ObjectStore;

/// The object whose life bounds a token's.
#[derive(Clone, Debug)]
pub(crate) struct BoundToken {
    pub kind: String,
    /// Name of the object, in the account's namespace.
    pub name: String,
    pub uid: String,
    /// Node that a bound pod runs on.
    pub node: Option<String>,
}

/// An error that keeps a token from being accepted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenError {
    /// The token was not issued by this server.
    #[error("invalid bearer token")]
    Malformed,
    #[error("service account token has expired")]
    Expired,
    /// The token was issued for other audiences.
    #[error("token audiences {found:?} is invalid for the target audiences {wanted:?}")]
    Audience {
        /// Audiences that the token was issued for.
        found: Vec<String>,
        /// Audiences that the caller asked about.
        wanted: Vec<String>,
    },
    /// Account or bound object are gone.
    #[error("service account token has been invalidated")]
    Invalidated,
}

/// Issues and verifies service account tokens.
pub(crate) struct TokenMaker {
    key: hmac::Key,
}

impl TokenMaker {
    /// Makes a random signing key.
    pub(crate) fn new() -> Self {
        let secret: [u8; 32] = rand::random();
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, &secret) }
    }

    /// A token for an account (the stored object) that lives for `seconds`.
    pub(crate) fn issue(
        &self,
        account: &Value,
        audiences: &[String],
        seconds: i64,
        bound: Option<&BoundToken>,
    ) -> (String, jiff::Timestamp) {
        let now = jiff::Timestamp::now().as_second();
        let expires = now.saturating_add(seconds);
        let (namespace, name) = (object::object_namespace(account), object::object_name(account));
        let mut private = json!({
            "namespace": namespace,
            "serviceaccount": { "name": name, "uid": object::object_uid(account) },
        });
        if let Some(bound) = bound {
            private[bound.kind.to_lowercase()] = json!({ "name": bound.name, "uid": bound.uid });
            if let Some(node) = &bound.node {
                private["node"] = json!({ "name": node });
            }
        }
        let claims = json!({
            "aud": audiences,
            "exp": expires,
            "iat": now,
            "iss": API_AUDIENCE,
            "jti": uuid::Uuid::new_v4().to_string(),
            "kubernetes.io": private,
            "nbf": now,
            "sub": format!("system:serviceaccount:{namespace}:{name}"),
        });
        let head = URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256","typ":"JWT"}"#);
        let signed = format!("{head}.{}", URL_SAFE_NO_PAD.encode(claims.to_string()));
        let signature = URL_SAFE_NO_PAD.encode(hmac::sign(&self.key, signed.as_bytes()));
        let at = jiff::Timestamp::from_second(expires).unwrap_or(jiff::Timestamp::MAX);
        (format!("{signed}.{signature}"), at)
    }

    /// Verifies a token; returns its user and those of the wanted audiences that it is valid for.
    pub(crate) fn check(
        &self,
        token: &str,
        wanted: &[String],
        store: &ObjectStore,
    ) -> Result<(ApiUser, Vec<String>), TokenError> {
        let claims = self.claims(token).ok_or(TokenError::Malformed)?;
        if claims["exp"].as_i64().unwrap_or(0) <= jiff::Timestamp::now().as_second() {
            return Err(TokenError::Expired);
        }
        let found: Vec<String> = to_strings(&claims["aud"]);
        let both: Vec<String> = found.iter().filter(|a| wanted.contains(a)).cloned().collect();
        if both.is_empty() {
            return Err(TokenError::Audience { found, wanted: wanted.to_vec() });
        }
        let private = &claims["kubernetes.io"];
        let text = |pointer: &str| object::text_at(private, pointer).unwrap_or_default();
        let (namespace, name) = (text("/namespace"), text("/serviceaccount/name"));
        let alive = |table: &str, name: &str, uid: &str| {
            store.get(table, namespace, name).is_some_and(|o| object::object_uid(&o.value) == uid)
        };
        if !alive("serviceaccounts", name, text("/serviceaccount/uid")) {
            return Err(TokenError::Invalidated);
        }
        let mut user = ApiUser::new(
            &format!("system:serviceaccount:{namespace}:{name}"),
            &["system:serviceaccounts", &format!("system:serviceaccounts:{namespace}")],
        );
        text("/serviceaccount/uid").clone_into(&mut user.uid);
        let mut fact = |name: &str, value: String| {
            user.extra.insert(format!("authentication.kubernetes.io/{name}"), vec![value]);
        };
        fact("credential-id", format!("JTI={}", claims["jti"].as_str().unwrap_or_default()));
        for (kind, table) in [("pod", "pods"), ("secret", "secrets")] {
            let Some(bound) = private.get(kind) else { continue };
            let text = |field: &str| bound[field].as_str().unwrap_or_default();
            if !alive(table, text("name"), text("uid")) {
                return Err(TokenError::Invalidated);
            }
            if kind == "pod" {
                fact("pod-name", text("name").to_owned());
                fact("pod-uid", text("uid").to_owned());
            }
        }
        if let Some(node) = private.pointer("/node/name").and_then(Value::as_str) {
            fact("node-name", node.to_owned());
        }
        Ok((user, both))
    }

    fn claims(&self, token: &str) -> Option<Value> {
        let (signed, signature) = token.rsplit_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        hmac::verify(&self.key, signed.as_bytes(), &signature).ok()?;
        let (_, claims) = signed.split_once('.')?;
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
    }
}

impl Default for TokenMaker {
    fn default() -> Self {
        Self::new()
    }
}

fn to_strings(value: &Value) -> Vec<String> {
    let items = value.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}
