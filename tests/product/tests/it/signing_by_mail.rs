//! Signing in to pages at any OpenID Connect issuer: a person is who has the address in the workspace, and what an
//! issuer gets wrong is told where the person looks.

use std::sync::Arc;

use codebutler_testbed::models::{ModelScript, ScriptStep};
use codebutler_testbed::openid::{IssuerFault, OpenIdIssuer};
use codebutler_testbed::stack::PagesAccess;

use crate::signing_in::Browsing;
use crate::support::Setup;

#[tokio::test(flavor = "multi_thread")]
async fn who_has_the_address_in_the_workspace_sees_what_it_shows_and_no_flawed_word_lets_anybody_in()
 {
    let issuer = Arc::new(OpenIdIssuer::start().await.unwrap());
    let access = PagesAccess::OpenId(Arc::clone(&issuer));
    let team = Setup::new(ModelScript::of("pm", vec![ScriptStep::say("Looked.")]))
        .pages(access)
        .start()
        .await;
    let root = team.says("ana", None, "look");
    team.message(&root, "Looked.").await;
    let name = team.thread(&root).await.metadata.name.unwrap();
    let page = format!("/{}/{name}", team.stack.place.team);
    let begin = format!("/sign-in?to={page}");
    issuer.sit_down("Ana@Example.com");

    // A mistake at the issuer is said, and lets nobody in.
    for (fault, status, says) in [
        (IssuerFault::UnverifiedMail, 403, "no verified e-mail address"),
        (IssuerFault::UnsaidMail, 403, "no verified e-mail address"),
        (IssuerFault::NoMail, 403, "no verified e-mail address"),
        (IssuerFault::WrongNonce, 403, "can&#39;t be trusted"),
        (IssuerFault::WrongAudience, 403, "can&#39;t be trusted"),
        (IssuerFault::WrongIssuer, 403, "can&#39;t be trusted"),
        (IssuerFault::Expired, 403, "can&#39;t be trusted"),
        (IssuerFault::Unsigned, 403, "can&#39;t be trusted"),
        (IssuerFault::Forged, 403, "can&#39;t be trusted"),
        (IssuerFault::Symmetric, 403, "can&#39;t be trusted"),
        (IssuerFault::UnknownKey, 403, "can&#39;t be trusted"),
        (IssuerFault::Denied, 403, "access_denied"),
        (IssuerFault::OtherSecret, 403, "another one than in the Secret"),
    ] {
        issuer.break_in(fault);
        let mut browsing = Browsing::new(&team);
        let (got, text) = browsing.open(&begin).await;
        assert_eq!(got, status, "{fault:?}: {text}");
        assert!(text.contains("You are not signed in") && text.contains(says), "{fault:?}: {text}");
        assert_eq!(browsing.open(&page).await.0, 401, "{fault:?}");
    }
    // It says of itself what is not so, or nothing: found out before anybody is sent there, once that is looked at
    // anew.
    for fault in [IssuerFault::Impostor, IssuerFault::Down] {
        issuer.break_in(IssuerFault::None);
        let mut browsing = Browsing::new(&team);
        let answer = browsing.get(&begin).await;
        let there = answer.headers()["location"].to_str().unwrap().to_owned();
        let answer = browsing.get(&there).await;
        let back = answer.headers()["location"].to_str().unwrap().to_owned();
        issuer.break_in(fault);
        let (status, text) = browsing.open(&back).await;
        assert_eq!(status, 503, "{fault:?}: {text}");
        assert!(text.contains("can&#39;t be reached"), "{fault:?}: {text}");
        assert_eq!(browsing.open(&page).await.0, 401, "{fault:?}");
    }

    // The app may not look for addresses: said with what is missing, on each page.
    issuer.break_in(IssuerFault::None);
    let mut browsing = Browsing::new(&team);
    for path in [&*begin, "/", "/costs"] {
        let (status, text) = browsing.open(path).await;
        assert_eq!(status, 503, "{path}: {text}");
        assert!(text.contains("users:read.email"), "{path}: {text}");
    }
    team.stack.slack.grant_scope("users:read.email");
    let (status, text) = browsing.open(&page).await;
    assert_eq!(status, 200, "{text}");
    assert!(text.contains("Looked."), "{text}");
    assert!(browsing.open("/").await.1.contains(&page));
    assert!(browsing.sent.iter().any(|to| to.contains("code_challenge=")), "{:?}", browsing.sent);

    // People who are in the workspace and not in the channel, or in neither, are kept out.
    team.stack.slack.create_user("eve", "Eve");
    for mail in ["eve@example.com", "mallory@example.com"] {
        issuer.sit_down(mail);
        let mut other = Browsing::new(&team);
        let (status, text) = other.open(&begin).await;
        assert_eq!(status, 403, "{mail}");
        assert!(text.contains("This is not shown to you") && !text.contains("Looked."), "{text}");
    }
    team.stop().await;
}
