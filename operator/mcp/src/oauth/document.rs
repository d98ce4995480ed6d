//! A client that a document describes: its id is the document's address, so no authorization server has to register it.

use serde_json::{Value, json};
use url::Url;

use super::grant::{ClientAuthMethod, ClientRegistration};
use super::metadata::require_tls;

/// The client that the document at this address describes, if it can: one that everybody on its way can change
/// describes nobody, and authorization servers refuse it.
pub fn client_of_document(address: &Url) -> Option<ClientRegistration> {
    require_tls(address).ok()?;
    let method = Some(ClientAuthMethod::Public);
    Some(ClientRegistration { client_id: address.to_string(), client_secret: None, method })
}

/// The document that describes a client without a secret; it is at `address`, which is the client's id.
pub fn client_document(client_name: &str, address: &Url, redirect: &Url) -> Value {
    json!({
        "client_id": address.as_str(),
        "client_name": client_name,
        "redirect_uris": [redirect.as_str()],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": ClientAuthMethod::Public,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A regression: people were sent to authorization servers that refuse the client, since pages without encryption
    /// were named as its document.
    #[test]
    fn a_document_that_anybody_can_change_on_its_way_describes_no_client() {
        let client = |address: &str| client_of_document(&Url::parse(address).unwrap());
        let address = "https://codebutler.example/sign-in/server/client.json";
        let known = client(address).unwrap();
        assert_eq!((&*known.client_id, known.client_secret), (address, None));
        assert!(client("http://codebutler.example/sign-in/server/client.json").is_none());
        assert!(client("http://127.0.0.1:8080/sign-in/server/client.json").is_some());
        let address = Url::parse(address).unwrap();
        let document = client_document("us", &address, &address);
        assert_eq!(document["client_id"], known.client_id);
    }
}
