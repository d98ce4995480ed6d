//! Tests of the metadata that is read on the way to a sign-in.

use serde_json::json;

use super::*;

fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

fn texts(urls: &[Url]) -> Vec<&str> {
    urls.iter().map(Url::as_str).collect()
}

#[test]
fn a_challenge_is_read_with_quotes_and_commas() {
    let header = r#"Basic realm="x, y", Bearer error="invalid_token", error_description="it is \"old\", sorry", scope="a b", resource_metadata="https://m.example/.well-known/oauth-protected-resource/mcp""#;
    let challenge = read_challenge(header);
    assert_eq!(challenge.scope.as_deref(), Some("a b"));
    assert_eq!(challenge.error.as_deref(), Some("invalid_token"));
    assert_eq!(
        challenge.resource_metadata,
        Some(url("https://m.example/.well-known/oauth-protected-resource/mcp"))
    );
    assert_eq!(read_challenge("Bearer"), ResourceChallenge::default());
    assert_eq!(read_challenge("Bearer scope=\"open"), ResourceChallenge::default());
}

#[test]
fn metadata_is_asked_for_at_the_servers_own_origin_only() {
    let server = url("https://m.example/public/mcp?x=1");
    let foreign = ResourceChallenge {
        resource_metadata: Some(url("https://evil.example/x")),
        ..Default::default()
    };
    let asked = resource_metadata_urls(&server, &foreign);
    let expected = [
        "https://m.example/.well-known/oauth-protected-resource/public/mcp",
        "https://m.example/.well-known/oauth-protected-resource",
    ];
    assert_eq!(texts(&asked), expected);
    let issuers = authorization_server_urls(&url("https://a.example/tenant"));
    assert_eq!(
        texts(&issuers),
        [
            "https://a.example/.well-known/oauth-authorization-server/tenant",
            "https://a.example/.well-known/openid-configuration/tenant",
            "https://a.example/tenant/.well-known/openid-configuration",
        ]
    );
    assert_eq!(authorization_server_urls(&url("https://a.example")).len(), 2);
}

#[test]
fn the_scope_is_that_of_the_entry_then_of_the_challenge_then_of_the_resource() {
    let resource = ProtectedResource {
        scopes: vec!["all".to_owned()],
        ..ProtectedResource::of_origin(&url("https://m.example/mcp")).unwrap()
    };
    let body = json!({
        "issuer": "https://m.example", "authorization_endpoint": "https://m.example/a",
        "token_endpoint": "https://m.example/t", "code_challenge_methods_supported": ["S256"],
        "scopes_supported": ["all", "offline_access"],
    });
    let issuer = &resource.authorization_servers[0];
    let server =
        read_authorization_server(body.to_string().as_bytes(), issuer, StatedAuthority::default())
            .unwrap();
    let asked = read_challenge("Bearer scope=\"read offline_access\"");
    let scope = |wanted: &[String], challenge: &ResourceChallenge| {
        choose_scope((wanted, Some("read offline_access")), challenge, &resource, &server)
    };
    assert_eq!(scope(&["own".to_owned()], &asked).as_deref(), Some("own"));
    assert_eq!(scope(&[], &asked).as_deref(), Some("read offline_access"));
    let lacks = read_challenge("Bearer error=\"insufficient_scope\", scope=\"write read\"");
    assert_eq!(scope(&[], &lacks).as_deref(), Some("read offline_access write"));
    assert_eq!(
        scope(&["own".to_owned()], &lacks).as_deref(),
        Some("own write read offline_access")
    );
    let none = ResourceChallenge::default();
    assert_eq!(scope(&[], &none).as_deref(), Some("all offline_access"));
    assert!(ProtectedResource::of_origin(&url("http://m.example/mcp")).is_err());
}

#[test]
fn metadata_of_another_server_is_refused() {
    let server = url("https://m.example/mcp");
    let resource = |resource: &str| {
        let body = json!({"resource": resource, "authorization_servers": ["https://a.example"]})
            .to_string();
        read_protected_resource(body.as_bytes(), &server)
    };
    // A regression: a resource without a path was asked for with a slash, which Entra takes for another one.
    for own in ["https://m.example/mcp", "https://m.example/", "https://m.example"] {
        assert_eq!(resource(own).unwrap().resource, own);
    }
    for other in [
        "https://evil.example/mcp",
        "https://m.example/other",
        "https://m.example/mc",
        "http://m.example/mcp",
    ] {
        assert!(matches!(resource(other), Err(MetadataError::Other { .. })), "{other}");
    }
    let plain =
        json!({"resource": "https://m.example/mcp", "authorization_servers": ["http://a.example"]})
            .to_string();
    assert_eq!(
        read_protected_resource(plain.as_bytes(), &server),
        Err(MetadataError::Plain("http://a.example/".into()))
    );
    assert_eq!(read_protected_resource(b"[]", &server), Err(MetadataError::Form));
}

#[test]
fn an_authorization_server_needs_its_own_name_tls_and_pkce() {
    let issuer = url("https://a.example");
    let good = json!({
        "issuer": "https://a.example", "authorization_endpoint": "https://a.example/authorize",
        "token_endpoint": "https://a.example/token", "code_challenge_methods_supported": ["plain", "S256"]});
    let read = |change: fn(&mut Value)| {
        let mut body = good.clone();
        change(&mut body);
        read_authorization_server(body.to_string().as_bytes(), &issuer, StatedAuthority::default())
    };
    assert!(
        read(|_| {}).is_ok_and(
            |server| server.allows_public_clients && server.registration_endpoint.is_none()
        )
    );
    let other = read(|body| body["issuer"] = json!("https://b.example")).unwrap_err();
    assert!(matches!(other, MetadataError::Issuer { .. }), "{other:?}");
    assert!(other.to_string().contains("write `issuer: https://b.example` in `oauth`"), "{other}");
    let mut foreign = good.clone();
    foreign["issuer"] = json!("https://b.example");
    let stated = |stated: &str, body: &Value| {
        let stated = StatedAuthority { issuer: Some(stated), ..StatedAuthority::default() };
        read_authorization_server(body.to_string().as_bytes(), &issuer, stated)
    };
    let server = stated("https://b.example/", &foreign).unwrap();
    assert_eq!(server.issuer, "https://b.example", "a person has stated it");
    assert!(stated("https://b.example", &good).is_ok(), "it is what RFC 8414 wants by now");
    let wrong = stated("https://c.example", &foreign).unwrap_err().to_string();
    assert!(wrong.contains("and not `https://c.example` as `oauth.issuer` says"), "{wrong}");
    assert_eq!(
        read(|body| body["code_challenge_methods_supported"] = json!(["plain"])),
        Err(MetadataError::NoPkce)
    );
    assert!(MetadataError::NoPkce.to_string().contains("send a token in `headers` instead"));
    let plain = read(|body| body["token_endpoint"] = json!("http://a.example/token"));
    assert!(matches!(plain, Err(MetadataError::Plain(_))));
    assert!(read(|body| body["token_endpoint"] = json!("http://127.0.0.1:9/token")).is_ok());
    assert_eq!(
        read(|body| drop(body.as_object_mut().unwrap().remove("token_endpoint"))),
        Err(MetadataError::Field("token_endpoint"))
    );
}

/// A regression: the metadata of Entra and Cognito names no methods, though both know S256.
#[test]
fn pkce_that_metadata_is_silent_about_is_used_where_a_person_has_stated_it() {
    let issuer = url("https://a.example");
    let silent = json!({
        "issuer": "https://a.example", "authorization_endpoint": "https://a.example/authorize",
        "token_endpoint": "https://a.example/token"});
    let read = |body: &Value, has_pkce: bool| {
        let stated = StatedAuthority { has_pkce, ..StatedAuthority::default() };
        read_authorization_server(body.to_string().as_bytes(), &issuer, stated)
    };
    let unknown = read(&silent, false).unwrap_err();
    assert_eq!(unknown, MetadataError::UnknownPkce);
    assert!(unknown.to_string().contains("write `pkce: Assumed`"), "{unknown}");
    assert!(read(&silent, true).is_ok());
    for methods in [json!([]), json!(["plain"]), json!("S256")] {
        let mut named = silent.clone();
        named["code_challenge_methods_supported"] = methods;
        assert_eq!(read(&named, true), Err(MetadataError::NoPkce), "it names what it knows");
    }
}

/// A regression: a sign-in could not begin at a server whose metadata leaves out who issues its tokens.
#[test]
fn a_resource_that_names_no_authorization_server_has_its_own() {
    let read = |servers: Value| {
        let body = json!({"resource": "https://m.example/mcp", "authorization_servers": servers});
        read_protected_resource(body.to_string().as_bytes(), &url("https://m.example/mcp"))
    };
    for none in [json!(null), json!([])] {
        let resource = read(none).unwrap();
        assert_eq!(texts(&resource.authorization_servers), ["https://m.example/"]);
    }
    assert_eq!(read(json!(["nowhere"])), Err(MetadataError::Field("authorization_servers")));
}
