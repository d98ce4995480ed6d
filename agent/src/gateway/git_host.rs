//! Pull requests, comments and issues at the Git host, through the gateway.

use codebutler_wire::{
    ChangeRemote, ItemIssues, OpenItemIssues, OpenPullRequest, PostComment, PostReview,
    PostedComment, PullReading, PullRequestState, ReadPull, RemoteChanged, RepoIssue, path,
};
use reqwest::Method;

use super::{GatewayClient, GatewayError};

impl GatewayClient {
    /// Opens or updates the thread's pull request.
    pub async fn open_pull_request(
        &self,
        request: &OpenPullRequest,
    ) -> Result<PullRequestState, GatewayError> {
        self.send(path::PULL_REQUEST, request).await
    }

    /// Reads the thread's pull request.
    pub async fn pull_request(&self) -> Result<PullRequestState, GatewayError> {
        self.typed(|| self.request(Method::GET, path::PULL_REQUEST)).await
    }

    /// Comments on the thread's pull request.
    pub async fn comment(&self, request: &PostComment) -> Result<PostedComment, GatewayError> {
        self.send(path::COMMENTS, request).await
    }

    /// Reviews the thread's pull request.
    pub async fn review(&self, request: &PostReview) -> Result<PostedComment, GatewayError> {
        self.send(path::REVIEWS, request).await
    }

    /// Reads an issue of the repository with its comments.
    pub async fn issue(&self, number: u64) -> Result<RepoIssue, GatewayError> {
        self.typed(|| Ok(self.request(Method::GET, path::ISSUES)?.query(&[("number", number)])))
            .await
    }

    /// Lists the newest open issues.
    pub async fn issues(&self, label: Option<&str>) -> Result<Vec<RepoIssue>, GatewayError> {
        self.typed(|| Ok(self.request(Method::GET, path::ISSUES)?.query(&[("label", label)]))).await
    }

    /// Reads any pull request of the repository, or lists the open ones.
    pub async fn pull(&self, wanted: &ReadPull) -> Result<PullReading, GatewayError> {
        self.typed(|| Ok(self.request(Method::GET, path::PULLS)?.query(wanted))).await
    }

    /// Changes anything else at the Git host, such as a label or an issue.
    pub async fn change_remote(
        &self,
        request: &ChangeRemote,
    ) -> Result<RemoteChanged, GatewayError> {
        self.send(path::REMOTE_CHANGES, request).await
    }

    /// Opens issues for items of the roadmap.
    pub async fn open_item_issues(
        &self,
        request: &OpenItemIssues,
    ) -> Result<ItemIssues, GatewayError> {
        self.send(path::ITEM_ISSUES, request).await
    }
}
