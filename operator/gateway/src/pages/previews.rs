//! Previews of links to pages in Slack.

use codebutler_history::ThreadPlace;
use codebutler_pages::preview_page;
use codebutler_slack::{PreviewAsked, PreviewShown};
use futures::FutureExt as _;
use kube::ResourceExt as _;

use super::door::PageViewer;
use super::{PageServices, base_path};

impl PageServices {
    /// Registers this as the source of link previews in Slack.
    pub(super) fn offer_previews(&self) {
        let pages = self.clone();
        self.sight.slack.preview_with(std::sync::Arc::new(move |asked| {
            let pages = pages.clone();
            async move { pages.preview(&asked).await }.boxed()
        }));
    }

    /// Builds a preview; `None` for a thread that was ever held in another channel too, since not everybody in
    /// this one may see its page.
    async fn preview(&self, asked: &PreviewAsked) -> Option<PreviewShown> {
        let (namespace, name) = &asked.thread;
        let place = ThreadPlace::new(namespace, name)?;
        let mut summary = self.shelf.summary(&place).await.ok()?;
        let origins = self.sight.origins(&place, &summary)?;
        let is_here = |repo: &codebutler_crds::Repo, channel: &str| {
            let own = asked.repos.iter();
            let mut own = own.filter(|(space, _)| space == namespace);
            channel == asked.channel && own.any(|(_, own)| *own == repo.name_any())
        };
        if !origins.iter().all(|(repo, channel)| is_here(repo, channel)) {
            return None;
        }
        self.sight.overlay(&place, &mut summary);
        let names = self.names(&PageViewer::Anyone, &place, &summary).await;
        let shown = preview_page(&base_path(&place), &summary, &names)?;
        Some(PreviewShown { title: shown.title, facts: shown.facts })
    }
}
