//! URLs of the host's pages and API.

use super::state::HostedRepository;

/// Builds every URL that answers mention.
#[derive(Clone, Debug)]
pub(super) struct GitHubUrls {
    /// Base URL, `http://host:port`.
    pub web: String,
}

impl GitHubUrls {
    pub(super) fn api(&self, path: &str) -> String {
        format!("{}/api/v3{path}", self.web)
    }

    pub(super) fn repo(&self, repo: &HostedRepository, path: &str) -> String {
        self.api(&format!("/repos/{}{path}", repo.full_name()))
    }

    pub(super) fn page(&self, repo: &HostedRepository, path: &str) -> String {
        format!("{}/{}{path}", self.web, repo.full_name())
    }
}
