//! `/v1/pictures/comparisons`: a page before and after a change, for the people of a thread. It is posted there, and
//! pushed to where the pull request shows it. Each step finds what an earlier, interrupted call has done.

use std::collections::{BTreeMap, BTreeSet};

use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use codebutler_crds::ThreadStatus;
use codebutler_crds::names;
use codebutler_crds::policy::GuardedEffects;
use codebutler_crds::thread::{MOST_VIEWS, PushedView, ThreadPictures, ThreadState};
use codebutler_crds::wire::{
    ComparedView, ComparisonShown, ErrorCode, MAX_COMPARED, MAX_PICTURE, MAX_VIEWS, ShowComparison,
};
use codebutler_description::{OwnPart, reads_same};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::approval;
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::extract::{JsonBody, OpenCaller, needs_tool};
use codebutler_gateway_core::github::{GitHub, GitHubError, GitHubPull};
use codebutler_gateway_core::threads::explain_unwritten;
use codebutler_git::{PictureFile, push_pictures};
use codebutler_slack::ViewPictures;
use kube::ResourceExt as _;
use sha2::{Digest as _, Sha256};

use super::conversation::check_key;
use crate::compared::{file_name, read_page, write_section};
use crate::png::check_png;
use crate::receipt;
use crate::state::SharedGateway;

/// Maximum number of comparisons that a conversation is shown.
const MOST_SHOWN: u32 = 24;
/// Hexadecimal digits of a comparison's key in the status.
const KEY: usize = 8;

/// Shows a page before and after a change.
pub(super) async fn show_comparison(
    State(gateway): State<SharedGateway>,
    OpenCaller(caller): OpenCaller,
    JsonBody(wanted): JsonBody<ShowComparison>,
) -> Result<axum::Json<ComparisonShown>, ApiError> {
    needs_tool(&caller, &["Screenshot"])?;
    check_key(&wanted.key)?;
    let views = read_views(&wanted.views)?;
    let redactor = gateway.git.outcomes.redactor(&caller).await?;
    let page = read_page(&redactor.mask(&wanted.page))
        .ok_or_else(|| invalid("`page` is a path of at most 160 bytes, such as `/cart`"))?;
    let _turn = gateway.git.pictures.lock(&caller.key()).await;
    count_shown(&gateway, &caller, &wanted.key).await?;
    let told = gateway.work.slack.show_compared(&caller, (&wanted.key, &page), &views).await?;
    let mut notes: Vec<String> = told.into_iter().collect();
    match find_obstacle(&gateway, &caller).await? {
        None => notes.extend(push_views(&gateway, &caller, &page, &views).await?),
        Some(why) => notes.push(format!("the pull request does not show it: {why}")),
    }
    Ok(axum::Json(ComparisonShown { notes }))
}

fn invalid(why: &str) -> ApiError {
    ApiError::new(ErrorCode::InvalidRequest, why)
}

/// The pictures, if they are some, and not too many or too large.
fn read_views(views: &[ComparedView]) -> Result<Vec<ViewPictures>, ApiError> {
    let seen: BTreeSet<_> = views.iter().map(|view| (view.width, view.colors)).collect();
    if views.is_empty() || views.len() > MAX_VIEWS || seen.len() < views.len() {
        return Err(invalid(&format!("`views` has 1 to {MAX_VIEWS} views, each of them once")));
    }
    let mut left = MAX_COMPARED;
    let mut read = |data: &str| -> Result<Bytes, ApiError> {
        let bytes = STANDARD.decode(data).map_err(|_| invalid("a picture is no base64"))?;
        let most = usize::try_from(MAX_PICTURE).unwrap_or(usize::MAX);
        if bytes.len() > most {
            return Err(invalid("a picture of a page has at most 3 MiB"));
        }
        left = left.checked_sub(bytes.len()).ok_or_else(|| {
            invalid("the pictures have at most 12 MiB together: show fewer sizes or schemes")
        })?;
        check_png(&bytes).map_err(|why| invalid(&format!("a picture can't be shown: {why}")))?;
        Ok(bytes.into())
    };
    let pictures = views.iter().map(|view| {
        Ok(ViewPictures {
            width: view.width,
            colors: view.colors,
            before: view.before.as_deref().map(&mut read).transpose()?,
            after: read(&view.after)?,
        })
    });
    pictures.collect()
}

/// Counts another comparison, if there may be one.
async fn count_shown(
    gateway: &SharedGateway,
    caller: &ProvenCaller,
    key: &str,
) -> Result<(), ApiError> {
    let (thread, threads) = (caller.key(), &gateway.work.threads);
    let once = Sha256::digest(format!("{}/{key}", caller.role_name()).as_bytes());
    let once = hex::encode(&once[..KEY]);
    let known = threads.read(&thread).await.map_err(|error| explain_unwritten(&error))?;
    let pictures = known.status.as_ref().and_then(|status| status.pictures.as_deref());
    if pictures.is_some_and(|known| known.key == once) {
        return Ok(());
    }
    if pictures.is_some_and(|known| known.shown >= MOST_SHOWN) {
        return Err(invalid(&format!(
            "this conversation has been shown {MOST_SHOWN} comparisons, which is all that it may: show what matters with \
             `pictures` of SendMessage"
        )));
    }
    let count = |status: &mut ThreadStatus| {
        let pictures = status.pictures.get_or_insert_default();
        if pictures.key != once {
            pictures.shown += 1;
            pictures.key.clone_from(&once);
        }
    };
    threads.update(&thread, count).await.map(drop).map_err(|error| explain_unwritten(&error))
}

/// The reason why pictures of this caller stay off the Git host, if there is one.
async fn find_obstacle(
    gateway: &SharedGateway,
    caller: &ProvenCaller,
) -> Result<Option<&'static str>, ApiError> {
    let spec = &caller.repo.spec;
    let branch = names::branch_name(&caller.thread.name_any());
    let why = if !spec.git.pictures {
        "the Repo keeps pictures out of its Git host (`spec.git.pictures`)"
    } else if spec.policy.require_approval.contains(&GuardedEffects::Push)
        || gateway.work.context.redactors.approvals(&caller.repo).guards_push(&branch)
    {
        "people approve each push here"
    } else if caller.role.spec.push.is_none() {
        "this role may push nothing"
    } else if approval::lacks_approved_plan(&gateway.work.context, caller).await? {
        "no plan is approved yet"
    } else {
        return Ok(None);
    };
    Ok(Some(why))
}

/// Pushes the pictures and has the pull request show them; a sentence where that fails.
async fn push_views(
    gateway: &SharedGateway,
    caller: &ProvenCaller,
    page: &str,
    views: &[ViewPictures],
) -> Result<Option<String>, ApiError> {
    let (key, threads) = (caller.key(), &gateway.work.threads);
    let known = threads.read(&key).await.map_err(|error| explain_unwritten(&error))?;
    // The Thread may have ended while Slack took the pictures: nothing would remove them any more.
    if known.is_going() || known.spec.state == ThreadState::Closed {
        return Ok(Some("the conversation has ended".to_owned()));
    }
    let known = known.status.as_ref().and_then(|status| status.pictures.clone());
    let mut files =
        known_files(known.as_deref().unwrap_or(&ThreadPictures::default()), page, views);
    for view in views {
        let name = |when: &str| file_name(page, (view.width, view.colors), when);
        let before = view.before.iter().map(|picture| (name("before"), picture));
        let new = before.chain([(name("after"), &view.after)]);
        files.extend(new.map(|(name, picture)| (name, PictureFile::New(picture.clone()))));
    }
    let pushed =
        match push_pictures(&gateway.git, &caller.repo, &caller.thread.name_any(), &files).await {
            Ok(pushed) => pushed,
            Err(error) => {
                tracing::warn!(thread = key.name, %error, "picture_push_failed");
                return Ok(Some(format!("the pull request does not show it: {error}")));
            }
        };
    let added = views.iter().filter_map(|view| {
        let id = |when: &str| {
            pushed.blobs.get(&file_name(page, (view.width, view.colors), when)).cloned()
        };
        let before = if view.before.is_some() { id("before") } else { None };
        let (width, colors) = (view.width, view.colors);
        Some(PushedView { page: page.to_owned(), width, colors, before, after: id("after")? })
    });
    let added: Vec<PushedView> = added.collect();
    let keep = |status: &mut ThreadStatus| {
        let pictures = status.pictures.get_or_insert_default();
        pictures.views = with_views(&pictures.views, added.clone());
        pictures.commit = Some(pushed.commit.clone());
    };
    let written = threads.update(&key, keep).await.map_err(|error| explain_unwritten(&error))?;
    let status = written.status.clone().unwrap_or_default();
    if status.pull_request.is_none() {
        return Ok(None);
    }
    let shown = show_in_pull(gateway, caller, status.pictures.as_deref()).await;
    Ok(shown.err().map(|error| {
        tracing::warn!(thread = key.name, %error, "pull_request_update_failed");
        format!("the pull request shows it with its next update: {error}")
    }))
}

/// Merges a Thread's views with new ones, which replace those of the same page; the oldest go.
fn with_views(known: &[PushedView], added: Vec<PushedView>) -> Vec<PushedView> {
    let place = |view: &PushedView| (view.page.clone(), view.width, view.colors);
    let new: BTreeSet<_> = added.iter().map(place).collect();
    let kept = known.iter().filter(|view| !new.contains(&place(view))).cloned();
    let mut views: Vec<PushedView> = kept.chain(added).collect();
    let gone = views.len().saturating_sub(MOST_VIEWS);
    views.drain(..gone);
    views
}

/// Files that stay beside new pictures of a page.
fn known_files(
    known: &ThreadPictures,
    page: &str,
    views: &[ViewPictures],
) -> BTreeMap<String, PictureFile> {
    if known.commit.is_none() {
        return BTreeMap::new();
    }
    let stand_in = |view: &ViewPictures| PushedView {
        page: page.to_owned(),
        width: view.width,
        colors: view.colors,
        before: None,
        after: String::new(),
    };
    let views = with_views(&known.views, views.iter().map(stand_in).collect());
    let files = views.iter().filter(|view| !view.after.is_empty()).flat_map(|view| {
        let name = |when: &str| file_name(&view.page, (view.width, view.colors), when);
        let before = view.before.as_ref().map(|id| (name("before"), id));
        before.into_iter().chain([(name("after"), &view.after)])
    });
    files.map(|(name, id)| (name, PictureFile::Known(id.clone()))).collect()
}

/// Puts the pictures into the description of the open pull request.
async fn show_in_pull(
    gateway: &SharedGateway,
    caller: &ProvenCaller,
    pictures: Option<&ThreadPictures>,
) -> Result<(), GitHubError> {
    let github = GitHub::of(&gateway.work.context, &caller.repo).await?;
    let branch = names::branch_name(&caller.thread.name_any());
    let Some(pull) = github.find_pull(&branch).await?.filter(GitHubPull::is_open) else {
        return Ok(());
    };
    let before = pull.body.as_deref().unwrap_or_default();
    let mut description = receipt::read_description(before);
    description.put(OwnPart::Pictures, &write_section(github.remote(), pictures), "");
    if let Some(body) = description.fitted().filter(|body| !reads_same(&body.text, before)) {
        github.update_pull(pull.number, None, Some(&body.text)).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use codebutler_crds::wire::{PageColors, PageWidth};

    use super::*;

    fn pushed(page: &str) -> PushedView {
        PushedView {
            page: page.to_owned(),
            width: PageWidth::Phone,
            colors: PageColors::Light,
            before: Some("b".to_owned()),
            after: "a".to_owned(),
        }
    }

    #[test]
    fn a_page_is_shown_as_it_is_now_and_the_oldest_ones_go() {
        let known: Vec<_> = (0..MOST_VIEWS).map(|n| pushed(&format!("/{n}"))).collect();
        let again = with_views(&known, vec![pushed("/0")]);
        assert_eq!((again.len(), again.last().unwrap().page.as_str()), (MOST_VIEWS, "/0"));
        let more = with_views(&known, vec![pushed("/x")]);
        assert_eq!((more.len(), more[0].page.as_str()), (MOST_VIEWS, "/1"));
    }

    #[test]
    fn files_of_a_page_that_is_shown_anew_are_not_kept() {
        let view = ViewPictures {
            width: PageWidth::Phone,
            colors: PageColors::Light,
            before: None,
            after: Bytes::new(),
        };
        let views = vec![pushed("/a"), pushed("/b")];
        let known = ThreadPictures { commit: Some("c".into()), views, ..ThreadPictures::default() };
        let kept = known_files(&known, "/a", std::slice::from_ref(&view));
        let place = (PageWidth::Phone, PageColors::Light);
        let names: Vec<_> = kept.keys().cloned().collect();
        assert_eq!(names, [file_name("/b", place, "after"), file_name("/b", place, "before")]);
        let none = ThreadPictures { commit: None, ..known };
        assert!(known_files(&none, "/a", &[view]).is_empty());
    }

    #[test]
    fn what_is_no_picture_or_too_much_is_refused() {
        let view = |after: &str| ComparedView {
            width: PageWidth::Phone,
            colors: PageColors::Light,
            before: None,
            after: after.to_owned(),
        };
        let why = |views: &[ComparedView]| read_views(views).unwrap_err().message;
        assert!(why(&[]).contains("1 to 4"));
        assert!(why(&[view("eA=="), view("eA==")]).contains("each of them once"));
        assert!(why(&[view("?")]).contains("base64"));
        assert!(why(&[view(&STANDARD.encode("<svg onload=x>"))]).contains("no PNG by its bytes"));
        let large = STANDARD.encode(vec![0; (3 << 20) + 1]);
        assert!(why(&[view(&large)]).contains("3 MiB"));
    }
}
