//! Pictures that are part of a thread, as long as Slack has them, under the sign-in of its page.

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use codebutler_crds::wire::history::HistoryEvent;
use codebutler_pages::find_picture;
use http::header;

use super::address::AddressPath;
use super::door::PageViewer;
use super::{PageProblem, PageServices, parse_place};

/// Type of the pictures in comparisons.
const PNG: &str = "image/png";

/// Serves the picture that a line of the history holds.
pub(super) async fn serve_picture(
    State(pages): State<PageServices>,
    viewer: PageViewer,
    AddressPath((namespace, name, n)): AddressPath<(String, String, u64)>,
) -> Result<Response, PageProblem> {
    let find = |event: &HistoryEvent| match event {
        HistoryEvent::Picture { id, .. } => Some(id.clone()),
        _ => None,
    };
    let (media_type, bytes) = pages.picture(&viewer, (&namespace, &name, n), find).await?;
    Ok(answer_picture(media_type, bytes))
}

/// Serves one of the pictures of a comparison.
pub(super) async fn serve_compared(
    State(pages): State<PageServices>,
    viewer: PageViewer,
    AddressPath((namespace, name, n, place)): AddressPath<(String, String, u64, usize)>,
) -> Result<Response, PageProblem> {
    let find = |event: &HistoryEvent| find_picture(event, place).map(str::to_owned);
    let (media_type, bytes) = pages.picture(&viewer, (&namespace, &name, n), find).await?;
    if media_type != PNG {
        return Err(PageProblem::NoPicture(
            "The file in Slack is not the picture any more.".into(),
        ));
    }
    Ok(answer_picture(media_type, bytes))
}

impl PageServices {
    /// The picture that a line names, by what its bytes are.
    async fn picture(
        &self,
        viewer: &PageViewer,
        (namespace, name, n): (&str, &str, u64),
        find: impl FnOnce(&HistoryEvent) -> Option<String>,
    ) -> Result<(&'static str, bytes::Bytes), PageProblem> {
        let place = parse_place(namespace, name)?;
        let (summary, _) = self.permit(viewer, &place).await?;
        let lines = self.shelf.lines(&place, n, 1).await?;
        let own = lines.first().filter(|(own, _)| *own == n);
        let id = own.and_then(|(_, line)| find(&line.as_ref()?.event));
        let origin = self.sight.origin(&place, &summary);
        let (id, (repo, channel)) = id.zip(origin).ok_or(PageProblem::NoPage)?;
        let found = self.sight.slack.show_picture(&repo, &channel, &id).await;
        found.map_err(|error| PageProblem::NoPicture(error.message))
    }
}

fn answer_picture(media_type: &'static str, bytes: bytes::Bytes) -> Response {
    // No longer than it takes to notice that somebody has left the channel.
    let headers =
        [(header::CONTENT_TYPE, media_type), (header::CACHE_CONTROL, "private, max-age=60")];
    (headers, bytes).into_response()
}
